"""llhttp through httptools; what it shares with our own parser is in test_http1.py."""

import json
import pathlib
import re

import pytest
from harness.http1 import dict_of

from aserve._cparsers import lib
from aserve.core.errors import RequestRefused
from aserve.protocols import PROTOCOLS
from aserve.protocols.base import Limits, refusal

pytest.importorskip("httptools")

HOST = b"Host: a\r\n\r\n"
GET = b"GET / HTTP/1.1\r\n" + HOST


CORPUS = pathlib.Path(__file__).parent.parent / "corpus" / "http1"
# Files of the corpus that llhttp does not let us read as the C parser does; docs/parser-differences.md has the reasons.
KNOWN_DIFFERENCES = {
    "chunked-white-space-around", "cr-first", "field-proxy-dropped", "head-lower-case-is-another", "http-1-2",
    "http-1-9", "lf-first", "line-empty-target", "line-no-version", "line-two-spaces-before-version",
    "method-connected", "method-longest", "method-of-all-tchars", "method-one-octet", "method-too-long",
    "other-http-0-9", "other-http2-preface", "version-9-9",
}  # fmt: skip


def receive(raw, **limits):
    return PROTOCOLS["http", "httptools"](Limits(**limits))().receive(raw)


@pytest.mark.parametrize(
    ("status", "raw"),
    [
        (400, b"G<T / HTTP/1.1\r\n" + HOST),  # RFC 9110 9.1
        (400, b"XYZZY / HTTP/1.1\r\n" + HOST),  # llhttp has a list of methods
        (400, b"GET /%zz HTTP/1.1\r\n" + HOST),  # RFC 3986 2.1
        (400, b"GET /#x HTTP/1.1\r\n" + HOST),  # RFC 9112 3.2
        (400, b"GET * HTTP/1.1\r\n" + HOST),  # RFC 9112 3.2.4
        (400, b"GET ftp://a/ HTTP/1.1\r\n" + HOST),
        (400, b"GET http://a@b/ HTTP/1.1\r\n" + HOST),  # RFC 9110 4.2.4
        (400, b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),  # RFC 9112 3.2
        (400, b"POST / HTTP/1.1\r\nContent-Length: 9999999999999999999\r\n" + HOST),
        (400, b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked, chunked\r\n" + HOST),
    ],
)
def test_refusals_are_of_llhttp_and_our_own(status, raw):
    (refused,) = receive(raw)
    assert refused.refusal.status == status and not refused.keep_alive


@pytest.mark.parametrize(
    ("raw", "path", "query", "host"),
    [
        (b"GET http://b/x?y HTTP/1.1\r\n" + HOST, "/x", "y", "b"),  # RFC 9112 3.2.2
        (b"GET HTTP://b HTTP/1.1\r\n" + HOST, "/", "", "b"),
        (b"GET http://b?y HTTP/1.1\r\n" + HOST, "/", "y", "b"),
        (b"GET http://b/ HTTP/1.0\r\n\r\n", "/", "", "b"),
        (b"OPTIONS * HTTP/1.1\r\n" + HOST, "", "", "a"),
        (b"GET /%41?%41 HTTP/1.1\r\n" + HOST, "/A", "%41", "a"),
    ],
)
def test_targets_mean_the_same_as_in_our_parser(raw, path, query, host):
    (exchange,) = receive(raw)
    found = dict_of(exchange)
    assert (found["PATH_INFO"], found["QUERY_STRING"], found["HTTP_HOST"]) == (path, query, host)


@pytest.mark.parametrize(
    ("status", "raw", "limits"),
    [
        (414, b"GET /" + b"x" * 60 + b" HTTP/1.1\r\n" + HOST, {"max_line_bytes": 64}),
        (431, GET[:-2] + b"A: " + b"x" * 300 + b"\r\n\r\n", {"max_head_bytes": 256}),
        (400, b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked, gzip\r\n" + HOST, {}),
        (400, b"POST / HTTP/1.1\r\nTransfer-Encoding: ,chunked\r\n" + HOST, {}),  # as the C parser
        (400, b"POST / HTTP/1.1\r\nTransfer-Encoding: a b, chunked\r\n" + HOST, {}),
        (501, b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n" + HOST, {}),
        (400, b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n" + HOST, {}),
        (400, GET[:-2] + b"Content-Type: a/b\r\ncontent-type: c/d\r\n\r\n", {}),  # RFC 9110 8.3
    ],
)
def test_more_refusals_come_from_limits_and_codings(status, raw, limits):
    """Limits count method and version, too; codings are judged where llhttp does not."""
    (refused,) = receive(raw, **limits)
    assert refused.refusal.status == status


@pytest.mark.parametrize("step", [1, 3, 1000])
@pytest.mark.parametrize("before", [b"", b"\r\n\r\n"])
def test_octets_above_ascii_in_a_target(step, before):
    """They reach the app as they came, as with the C parser, however the line is split; those in fields stay, too."""
    protocol = PROTOCOLS["http", "httptools"](Limits())()
    raw = (
        before
        + b'GET /\xc3\xa9"?q=\xff HTTP/1.1\r\nHost: a\r\nX-A: \xe9\r\n\r\n'
        + b"GET http://a/\xe9 HTTP/1.1\r\n"
        + HOST
        + GET
    )
    found = [one for at in range(0, len(raw), step) for one in protocol.receive(raw[at : at + step])]
    first, second, third = map(dict_of, found)
    assert first["REQUEST_URI"] == '/\xc3\xa9"?q=\xff' and first["PATH_INFO"] == '/\xc3\xa9"'
    assert first["QUERY_STRING"] == "q=\xff" and first["HTTP_X_A"] == "\xe9"
    assert second["REQUEST_URI"] == "http://a/\xe9" and second["PATH_INFO"] == "/\xe9" and third["PATH_INFO"] == "/"


@pytest.mark.parametrize(
    "raw",
    [b"G\xc9T / HTTP/1.1\r\n", b"GET / HTTP/1.\xb1\r\n", b"GET \xe9 HTTP/1.1\r\n", b"GET http://\xe9/ HTTP/1.1\r\n"],
)
def test_octets_above_ascii_elsewhere_in_the_line(raw):
    """They are refused, as with the C parser."""
    (refused,) = receive(raw + HOST)
    assert refused.refusal.status == 400
    (refused,) = PROTOCOLS["http", "c"](Limits())().receive(raw + HOST)
    assert refused.refusal.status == 400


def test_names_are_in_cgi_form_without_aliases():
    """Names come in CGI form; aliases, and Proxy, are dropped."""
    raw = GET[:-2] + b"A-B: 1\r\nA_B: 2\r\nProxy: 3\r\nContent-Type: x\r\n"
    (exchange,) = receive(raw + b"\r\n")
    found = dict_of(exchange)
    assert found["HTTP_A_B"] == "1" and "HTTP_PROXY" not in found
    assert found["CONTENT_TYPE"] == "x"
    (exchange,) = receive(raw + b"Content-Type: x\r\n\r\n")  # which says the same again
    assert dict_of(exchange) == found


def test_an_upgrade_is_not_taken():
    """RFC 9110 7.8: who asks for a protocol that we do not know gets this one, and so does what follows."""
    raw = GET[:-2] + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    first, second = receive(raw + GET)
    assert first.refusal is second.refusal is None and not first.asks_websocket


@pytest.mark.parametrize("step", [1, 7, 4096, 20000])
def test_a_websocket_is_asked_for(step):
    """What follows is kept as it is, until it is known to be HTTP."""
    raw = GET[:-2] + b"Connection: Upgrade\r\nUpgrade: x, WebSocket\r\n\r\n" + GET + b"\0" * 10000
    protocol = PROTOCOLS["http", "httptools"](Limits())()
    exchanges = []
    for start in range(0, len(raw), step):
        exchanges += protocol.receive(raw[start : start + step])
    assert [each.asks_websocket for each in exchanges] == [True]
    assert protocol.unparsed == GET + b"\0" * 10000 and not protocol.has_unparsed
    protocol.unparsed = GET
    protocol.go_on()
    (exchange,) = protocol.receive(b"")
    assert not exchange.asks_websocket and not protocol.is_mid_message


@pytest.mark.parametrize(
    ("field", "body"),
    [
        (b"Content-Length: %d" % len(GET), GET),
        (b"Transfer-Encoding: chunked", b"%x\r\n%b\r\n0\r\n\r\n" % (len(GET), GET)),
    ],
)
@pytest.mark.parametrize("is_live", [False, True])
def test_an_upgrade_with_a_body(field, body, is_live):
    """RFC 9110 7.8: its body comes first. llhttp stops before it, where a body could pass for the next request."""
    head = b"POST /p HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + field + b"\r\n" + HOST
    raw = head + body + GET + head + body
    for step in (1, 7, len(raw)):
        protocol = PROTOCOLS["http", "httptools"](Limits(is_live=is_live))()
        exchanges = []
        for start in range(0, len(raw), step):
            exchanges += protocol.receive(raw[start : start + step])
        assert [dict_of(exchange)["REQUEST_URI"] for exchange in exchanges] == ["/p", "/", "/p"]
        assert [exchange.body and exchange.body.open().read() for exchange in exchanges] == [GET, None, GET]
        assert not protocol.is_mid_message
    protocol = PROTOCOLS["http", "httptools"](Limits())()
    assert protocol.receive(head[:-2] + b"Expect: 100-continue\r\n\r\n") == [] and protocol.is_continue_due
    (exchange,) = protocol.receive(body)
    assert exchange.body.open().read() == GET


def test_a_line_of_an_endless_head_is_refused():
    """A head that never ends is refused before it fills the memory."""
    protocol = PROTOCOLS["http", "httptools"](Limits(max_head_bytes=8192))()
    exchanges = protocol.receive(GET[:-2] + b"A: ")
    for _ in range(10):
        exchanges += protocol.receive(b"x" * 4096)
    assert [exchange.refusal.status for exchange in exchanges] == [431]


@pytest.mark.parametrize("before", [b"", b"POST / HTTP/1.1\r\nContent-Length: 3\r\n" + HOST + b"abc"])
@pytest.mark.parametrize("step", [1, 100, 8192])
def test_an_unfinished_head_is_refused_at_the_limit(before, step):
    """The octet that makes a head too large to be finished within the limit is the last one taken."""
    protocol = PROTOCOLS["http", "httptools"](Limits(max_head_bytes=8192))()
    exchanges = protocol.receive(before)
    head = GET[:-2] + b"A: "
    head += b"x" * (8191 - len(head))
    for start in range(0, len(head), step):
        exchanges += protocol.receive(head[start : start + step])
    assert [exchange.refusal for exchange in exchanges] == [None] * bool(before)
    (refused,) = protocol.receive(b"x")
    assert refused.refusal.status == 431


def test_a_pipelined_head_is_refused_at_the_limit():
    """A head behind another request may be as large as any, and no larger."""
    begin = GET[:-2] + b"A: "
    for length, statuses in ((8191, [None]), (8192, [None, 431])):
        protocol = PROTOCOLS["http", "httptools"](Limits(max_head_bytes=8192))()
        exchanges = protocol.receive(GET + begin + b"x" * (length - len(begin)))
        assert [exchange.refusal and exchange.refusal.status for exchange in exchanges] == statuses


def test_tiny_requests_are_bounded():
    """Tiny requests do not go over max_pipelined."""
    protocol = PROTOCOLS["http", "httptools"](Limits(max_pipelined=1))()
    assert len(protocol.receive(GET * 1000)) == 1 and protocol.has_unparsed


def test_a_head_that_llhttp_ends_early():
    """Some versions of llhttp end a head at a bare LF: where the chunks begin would not be known, so it is refused."""
    protocol = PROTOCOLS["http", "httptools"](Limits())()
    assert protocol.receive(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + HOST) == []
    with pytest.raises(RequestRefused, match="line feed without carriage return"):
        protocol.on_body(b"x")


def test_the_corpus_is_answered_as_by_our_parser():
    """Each head of the corpus is answered or refused as by our own parser, but for the decisions of llhttp."""
    different = set()
    for path in sorted(CORPUS.glob("*/*.raw")):
        given = json.loads(path.with_suffix(".json").read_text()).get("limits", {})
        names = {"max_line_len": "max_line_bytes", "max_head_len": "max_head_bytes", "max_fields": "max_fields"}
        limits = Limits(**{names[name]: value for name, value in given.items() if name in names})
        readings = []
        for parser in ("c", "httptools"):
            exchanges = PROTOCOLS["http", parser](limits)().receive(path.read_bytes())
            readings.append([(e.refusal and e.refusal.status, e.keep_alive, e.is_head, e.form) for e in exchanges[:1]])
            readings[-1] += [dict_of(e) for e in exchanges[:1] if not e.refusal]
        if readings[0] != readings[1]:
            different.add(path.stem)
    assert different == KNOWN_DIFFERENCES


@pytest.mark.parametrize(
    ("values", "why"),
    [((b"1", b"1"), "REPEATED_CONTENT_LENGTH"), ((b"x",), "BAD_CONTENT_LENGTH"), ((b"9" * 19,), "BAD_CONTENT_LENGTH")],
)
def test_lengths_that_llhttp_lets_through(values, why):
    """Whatever a version of llhttp lets through is refused here."""
    receiver = PROTOCOLS["http", "httptools"](Limits())()
    receiver._fields = [(b"CONTENT-LENGTH", value) for value in values]
    with pytest.raises(RequestRefused, match=re.escape(str(refusal(getattr(lib, f"ASERVE_{why}"))))):
        receiver._check_framing(True)
