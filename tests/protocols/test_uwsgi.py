"""uwsgi, pure: packets in, exchanges out; served requests, and requests only noted in the log."""

import json
import pathlib
import struct

import pytest
from harness.front_vars import own_first
from harness.http1 import vars_of

from aserve.core.exchange import UWSGI
from aserve.protocols import PROTOCOLS
from aserve.protocols.base import Limits
from aserve.protocols.uwsgi import MEANINGS, encode_ping

CORPUS = pathlib.Path(__file__).parent.parent / "corpus" / "uwsgi"
CASES = {path.stem: (path, json.loads(path.with_suffix(".json").read_text())) for path in CORPUS.glob("*/*.raw")}
# Cases with limits the settings can express.
USUAL = {name: case for name, case in CASES.items() if "limits" not in case[1]}


def items_of(*items):
    return b"".join(struct.pack("<H", len(item)) + item for item in items)


def packet(data=b"", modifier1=0, modifier2=0):
    return struct.pack("<BHB", modifier1, len(data), modifier2) + data


def request(*pairs, modifier1=0):
    return packet(items_of(*(text for pair in pairs for text in pair)), modifier1)


GET = [(b"REQUEST_METHOD", b"GET"), (b"PATH_INFO", b"/a")]


def new(**limits):
    return PROTOCOLS["uwsgi", "c"](Limits(**limits))()


def check_silent(exchanges, status, *texts):
    """One refusal, for the log alone."""
    (refused,) = exchanges
    assert refused.is_silent and refused.is_for_loop and not refused.keep_alive
    assert refused.refusal.status == status
    line = str(refused.refusal)
    assert "\n" not in line
    for text in texts:
        assert text in line


# Requests


def test_the_vars_come_in_order_with_repeats():
    """All vars are the exchange's, in order, custom ones and repeats too, octets as latin-1."""
    pairs = [*GET, (b"HTTP_X", b"\xc3\xa9"), (b"custom", b"1"), (b"EMPTY", b""), (b"custom", b"2")]
    (exchange,) = new().receive(request(*pairs))
    expected = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in pairs]
    assert (vars_of(exchange), exchange.own_count) == own_first(expected)
    assert exchange.form is UWSGI and exchange.is_from_front and not exchange.is_mounted


def test_nothing_is_decoded_twice():
    """A path made by a front server stays unchanged."""
    (exchange,) = new().receive(request((b"REQUEST_METHOD", b"GET"), (b"PATH_INFO", b"/%41")))
    assert vars_of(exchange)[0] == ("PATH_INFO", "/%41")


def test_the_mount_is_asked_by_modifier_30():
    """modifier1 30 asks for PATH_INFO without SCRIPT_NAME."""
    (exchange,) = new().receive(request(*GET, modifier1=30))
    assert exchange.is_mounted and exchange.refusal is None and exchange.rpc is None


def test_modifier2_of_a_request():
    """modifier2 is for the language, and Python has no use."""
    raw = bytearray(request(*GET))
    raw[3] = 7
    (exchange,) = new().receive(bytes(raw))
    assert exchange.refusal is None and vars_of(exchange)[0] == ("PATH_INFO", "/a")


@pytest.mark.parametrize(
    ("value", "length"), [(b"", None), (b"0", None), (b"5", 5), (b"05", 5), (b"5 ", 5), (b"5,5", 5), (b"x", None)]
)
def test_the_length_is_read_as_by_uwsgi(value, length):
    """nginx sends an empty CONTENT_LENGTH with a GET; leading digits count, as in uWSGI."""
    (exchange,) = new().receive(request(*GET, (b"CONTENT_LENGTH", value)) + b"hello")
    assert (exchange.body and exchange.body.length) == length


def test_magic_is_only_environ():
    """UWSGI_* vars make uWSGI load code and set variables: here all are names in the environ."""
    magic = [
        (f"UWSGI_{name}".encode(), b"/tmp/x")
        for name in ("FILE", "SCRIPT", "MODULE", "CALLABLE", "PYHOME", "CHDIR", "SETENV", "APPID", "TOUCH_RELOAD")
    ]
    (exchange,) = new().receive(request(*GET, *magic))
    assert vars_of(exchange)[2:] == [(name.decode(), "/tmp/x") for name, _ in magic]
    assert exchange.rpc is None and exchange.ping is None and not exchange.is_for_loop


def test_a_request_without_vars():
    """uWSGI closes without an octet; so do we, and say why."""
    for modifier1 in (0, 30):
        check_silent(new().receive(packet(modifier1=modifier1)), 400, "no vars")


@pytest.mark.parametrize("name", [name for name, (path, _) in USUAL.items() if path.parent.name == "accept"])
def test_corpus_accepted_means_its_json(name):
    """Each packet of the corpus is read whole and octet by octet."""
    path, expected = USUAL[name]
    raw = path.read_bytes()
    modifier1, length = expected["modifier1"], expected["content_length"]
    if modifier1 not in (0, 30, 100, 173):
        check_silent(new().receive(raw), 501, f"modifier1 {modifier1} ")
        return
    for pieces in ([raw], [raw[index : index + 1] for index in range(len(raw))]):
        protocol = new(is_live=True)  # the exchange comes with the head
        exchanges = [item for piece in pieces for item in protocol.receive(piece)]
        if modifier1 in (0, 30) and not expected["vars"]:
            check_silent(exchanges, 400)
        elif length > Limits().max_body_bytes:
            assert exchanges[0].refusal.status == 413
        else:
            (exchange,) = exchanges
            assert exchange.refusal is None and (exchange.body is not None) is (length > 0)
            assert ([list(pair) for pair in vars_of(exchange)], exchange.own_count) == own_first(expected["vars"])
            if exchange.rpc is not None and exchange.rpc.modifier2 != 2:
                assert [item.decode("latin-1") for item in exchange.rpc.items] == expected["items"]


@pytest.mark.parametrize("name", [name for name, (path, _) in USUAL.items() if path.parent.name == "reject"])
def test_corpus_rejected_is_one_refusal(name):
    """Each bad packet is one refusal, without an octet unless a client's request is too large; nothing is parsed behind."""
    raw = USUAL[name][0].read_bytes()
    protocol = new()
    exchanges = protocol.receive(raw)
    status = exchanges[0].refusal.status
    if status == 431 and (raw[0] in (0, 30) or (raw[0], raw[3]) == (173, 2)):
        assert not exchanges[0].is_silent
    else:
        assert status in (400, 431)
        check_silent(exchanges, status)
    assert protocol.receive(request(*GET)) == [] and not protocol.is_mid_message


# Pings


def test_ping_is_answered_by_the_loop():
    """The loop answers alone, from the server's words on health."""
    (exchange,) = new().receive(b"\x64\0\0\0")
    assert exchange.is_for_loop and exchange.refusal is None and not exchange.is_silent
    assert exchange.ping("") == b"\x64\0\0\1"
    assert exchange.ping("draining") == b"\x64\x08\0\1draining"


def test_ping_with_data():
    """The data of a ping is not looked at."""
    (exchange,) = new().receive(packet(b"\xff" * 300, 100))
    assert exchange.ping is not None


def test_encode_ping_has_a_16_bit_length():
    """The length of the warning is 16 bits, little-endian."""
    assert encode_ping("x" * 300) == b"\x64\x2c\x01\x01" + b"x" * 300
    assert encode_ping("\u20ac") == b"\x64\1\0\1?"


# Refusals


def test_other_modifiers_are_refused_by_name():
    """The line of the log names the modifier and the meaning, and the modifiers served."""
    for modifier1 in sorted({*range(256)} - {0, 30, 100, 173}):
        told = f"modifier1 {modifier1} ({MEANINGS.get(modifier1, 'unknown')})"
        raw = packet(b"\0" * 8, modifier1)
        check_silent(new().receive(raw[:4]), 501, told, "0, 30", "ping (100)", "RPC (173)")


def test_meanings_are_those_of_the_specification():
    """The dangerous ones, by name."""
    assert MEANINGS[22] == "code evaluation" and MEANINGS[5] == "PSGI (Perl)" and MEANINGS[111] == "cache"


@pytest.mark.parametrize("raw", [b"GET / HTTP/1.1\r\n", b"POST /", b"HTTP/1.1 200 OK", b"PRI * HTTP/2.0"])
def test_http_is_told_so(raw):
    """HTTP spoken to this socket is told in the log, with the remedy."""
    check_silent(new().receive(raw), 400, "HTTP or TLS spoken to a uwsgi socket", "uwsgi_pass")


def test_tls_is_told_so():
    """The same for TLS."""
    check_silent(new().receive(b"\x16\x03\x01\x02\x00"), 400, "HTTP or TLS")


@pytest.mark.parametrize(
    ("limits", "raw", "setting"),
    [
        ({"max_head_bytes": 300}, packet(b"\0" * 301), "--max-head"),
        ({"max_fields": 1}, request(*[(b"A%d" % number, b"") for number in range(66)]), "--max-fields"),
    ],
)
@pytest.mark.parametrize("modifiers", [(0, 0), (30, 0), (173, 2)])
def test_limits_are_refused_by_setting_name(limits, raw, setting, modifiers):
    raw = bytes([modifiers[0]]) + raw[1:3] + bytes([modifiers[1]]) + raw[4:]
    (refused,) = new(**limits).receive(raw)
    assert refused.is_for_loop and not refused.is_silent and not refused.keep_alive and refused.form is UWSGI
    assert refused.refusal.status == 431 and setting in str(refused.refusal)


@pytest.mark.parametrize("modifiers", [(100, 0), (173, 0), (173, 1)])
def test_limits_of_what_is_no_request(modifiers):
    """Senders of anything but a request read no HTTP: the log tells."""
    raw = packet(b"\0" * 301, *modifiers)
    check_silent(new(max_head_bytes=300).receive(raw), 431, "--max-head")


def test_limits_are_reached():
    """Exactly the limit is served; vars of the front server's own come on top of the fields."""
    assert new(max_head_bytes=300).receive(request((b"A", b"x" * 295)))[0].refusal is None
    pairs = [(b"A%d" % number, b"") for number in range(65)]
    assert new(max_fields=1).receive(request(*pairs))[0].vars.count("\0") == 2 * 65 - 1
    assert new().receive(request((b"A", b"x" * 65530)))[0].refusal is None


# RPC


def rpc_of(raw, **limits):
    (exchange,) = new(**limits).receive(raw)
    assert exchange.refusal is None and not exchange.is_for_loop and exchange.form is UWSGI
    return exchange.rpc


@pytest.mark.parametrize("modifier2", [0, 1, 3, 5])
def test_rpc_by_array(modifier2):
    """An array is the function and the arguments; modifier2, whatever the value, chooses the form of the reply."""
    call = rpc_of(packet(items_of(b"hello", b"a", b"b\0\xff"), 173, modifier2))
    assert call == (modifier2, [b"hello", b"a", b"b\0\xff"], "", False)


def test_rpc_without_items():
    """Empty items are skipped, as uWSGI does: a call may be left with nothing."""
    assert rpc_of(packet(b"", 173)).items == []
    assert rpc_of(packet(items_of(b"", b"f", b""), 173)).items == [b"f"]


@pytest.mark.parametrize(
    ("path", "items"),
    [
        (b"/f", [b"f"]),
        (b"/hello/x/y", [b"hello", b"x", b"y"]),
        (b"/f/\xc3\xa9", [b"f", b"\xc3\xa9"]),
        (b"/", []),
        (b"", []),
    ],
)
def test_rpc_by_path(path, items):
    """modifier2 2: PATH_INFO names the function and the arguments, and Accept the type of the reply."""
    data = items_of(b"PATH_INFO", path, b"HTTP_ACCEPT", b"text/plain")
    assert rpc_of(packet(data, 173, 2)) == (2, items, "text/plain", False)
    head = items_of(b"REQUEST_METHOD", b"HEAD", b"PATH_INFO", path)
    assert rpc_of(packet(head, 173, 2)) == (2, items, "", True)


def test_rpc_by_no_path():
    """Without PATH_INFO nothing is called."""
    assert rpc_of(packet(items_of(b"A", b"1"), 173, 2)) == (2, [], "", False)


def test_rpc_items_over_the_limit():
    """The array has 255 items at most: a name and 254 arguments."""
    assert len(rpc_of(packet(items_of(*[b"x"] * 255), 173)).items) == 255
    check_silent(new().receive(packet(items_of(*[b"x"] * 256), 173)), 431)
    check_silent(new().receive(packet(b"\xff\xff", 173)), 400, "reaches past its packet")
