"""SCGI, pure: netstrings in, exchanges out; strict, as a front server's work can be."""

import json
import pathlib

import pytest
from harness.front_vars import own_first
from harness.http1 import vars_of

from aserve.core.exchange import SCGI_STATUS_FIELD, SCGI_STATUS_LINE
from aserve.protocols import PROTOCOLS
from aserve.protocols.base import Limits

CORPUS = pathlib.Path(__file__).parent.parent / "corpus" / "scgi"
CASES = {path.stem: (path, json.loads(path.with_suffix(".json").read_text())) for path in CORPUS.glob("*/*.raw")}
# Those whose limits the settings can express.
USUAL = {name: case for name, case in CASES.items() if "limits" not in case[1]}
# python.ca/scgi/protocol.txt section 4
EXAMPLE = (
    b"70:CONTENT_LENGTH\x0027\0SCGI\x001\0REQUEST_METHOD\0POST\0REQUEST_URI\0/deepthought\0,What is the answer to life?"
)


def request(*pairs, length="0"):
    pairs = [("CONTENT_LENGTH", length), ("SCGI", "1"), *pairs]
    data = "".join(f"{name}\0{value}\0" for name, value in pairs).encode("latin-1")
    return b"%d:%s," % (len(data), data)


def new(**limits):
    return PROTOCOLS["scgi", "c"](Limits(**limits))()


def check_refusal(exchanges, status, *texts):
    """One refusal, answered in the form that a front server reads."""
    (refused,) = exchanges
    assert refused.is_for_loop and not refused.is_silent and not refused.keep_alive
    assert refused.form is SCGI_STATUS_FIELD and refused.refusal.status == status
    for text in texts:
        assert text in str(refused.refusal)


def test_the_example_of_the_specification():
    """The specification's own example."""
    (exchange,) = new().receive(EXAMPLE)
    assert exchange.body.open().read() == b"What is the answer to life?"
    assert vars_of(exchange)[2:] == [("REQUEST_URI", "/deepthought"), ("REQUEST_METHOD", "POST")]
    assert exchange.own_count == 3 and exchange.is_from_front and not exchange.keep_alive


def test_the_vars_come_in_order_as_latin_1():
    """All vars are the exchange's, in their order, octets as latin-1, decoded by nobody."""
    pairs = [("PATH_INFO", "/%41"), ("HTTP_X", "\xc3\xa9"), ("custom", ""), ("UWSGI_FILE", "/tmp/x")]
    (exchange,) = new().receive(request(*pairs))
    assert vars_of(exchange)[2:] == pairs


@pytest.mark.parametrize(
    ("has_status_line", "form"), [(False, SCGI_STATUS_FIELD), (True, SCGI_STATUS_LINE)], ids=["field", "line"]
)
def test_the_form_of_the_response(has_status_line, form):
    """RFC 3875 6.3.3: a Status field, unless --scgi-status asks for HTTP's status line; refusals too."""
    factory = PROTOCOLS["scgi", "c"](Limits(has_status_line=has_status_line))
    for raw in (request(), b"x", request(length=str(1 << 40))):
        (exchange,) = factory().receive(raw)
        assert exchange.form is form and not form.may_chunk and not form.may_inform
    assert form.status_prefix == ("HTTP/1.1 " if has_status_line else "Status: ")


@pytest.mark.parametrize("raw", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01", b"\0\x10\0\0", b"x"])
def test_other_protocols_are_told_so(raw):
    """Who speaks something else to this socket is told so, at its first octet."""
    check_refusal(new().receive(raw), 400, "something other than SCGI", "scgi_pass")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"01:x,", "leading zeros"),  # SCGI 2
        (b"0:,", "CONTENT_LENGTH"),  # SCGI 3
        (request(("A", "1"))[:-1] + b";", "netstring"),  # SCGI 2
        (b"24:SCGI\x001\0CONTENT_LENGTH\x000\0,", "first var is not CONTENT_LENGTH"),  # SCGI 3
        (b"17:CONTENT_LENGTH\x000\0,", "no var SCGI"),  # SCGI 3
        (request(("CONTENT_LENGTH", "0"), length="5"), "two CONTENT_LENGTHs, and the second is less"),  # SCGI 3
        (
            request(("HTTP_CONTENT_LENGTH", "5")),
            "scgi_request_buffering off nginx needs scgi_param CONTENT_LENGTH",
        ),  # SCGI 3
        (request(("", "1")), "var without a name"),  # SCGI 3
        (request(length=""), "ontent"),  # SCGI 3
        (request(length="+1"), "ontent"),  # SCGI 3
    ],
)
def test_strictness_refuses_by_section(raw, text):
    protocol = new()
    check_refusal(protocol.receive(raw), 400, text)
    assert protocol.receive(request()) == [] and not protocol.is_mid_message


@pytest.mark.parametrize(
    ("limits", "raw", "setting"),
    [
        ({"max_head_bytes": 300}, b"301", "--max-head"),
        ({"max_fields": 1}, request(*[(f"A{number}", "") for number in range(64)]), "--max-fields"),
    ],
)
def test_limits_are_refused_by_setting_name(limits, raw, setting):
    check_refusal(new(**limits).receive(raw), 431, setting)


def test_limits_are_reached():
    """Exactly the limit is served; vars of the front server's own come on top of the fields."""
    pairs = [(f"A{number}", "") for number in range(63)]
    assert new(max_fields=1).receive(request(*pairs))[0].vars.count("\0") == 2 * 65 - 1
    raw = request(("A", "x" * 100))
    assert new(max_head_bytes=int(raw[:3])).receive(raw)[0].refusal is None


@pytest.mark.parametrize("name", [name for name, (path, _) in USUAL.items() if path.parent.name == "accept"])
def test_corpus_accepted_means_its_json(name):
    """Each request of the corpus is read whole and octet by octet."""
    path, expected = USUAL[name]
    raw = path.read_bytes()
    for pieces in ([raw], [raw[index : index + 1] for index in range(len(raw))]):
        protocol = new(is_live=True)  # the exchange comes with the head
        (exchange,) = [item for piece in pieces for item in protocol.receive(piece)]
        assert [list(pair) for pair in vars_of(exchange)] == own_first(expected["vars"], "SCGI")[0]
        if expected["content_length"] > Limits().max_body_bytes:
            assert exchange.refusal.status == 413
        else:
            assert exchange.refusal is None and (exchange.body is not None) is (expected["content_length"] > 0)


@pytest.mark.parametrize("name", [name for name, (path, _) in USUAL.items() if path.parent.name == "reject"])
def test_corpus_rejected_is_answered_with_errors(name):
    exchanges = new().receive(USUAL[name][0].read_bytes())
    assert exchanges[0].refusal.status in (400, 431)
    check_refusal(exchanges, exchanges[0].refusal.status)
