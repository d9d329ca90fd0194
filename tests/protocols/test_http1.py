"""HTTP/1.1, pure: octets in, exchanges out, however cut; over every parser.

Beside this file: refusals (test_http1_refusals.py) and live bodies (_live).
"""

import pathlib
import zlib

import pytest
from harness import desync
from harness.http1 import CHUNKED, CHUNKED_HEAD, EXPECT, EXPECT_CHUNKED, GET, LARGE, POST, body_of, facts, feed, vars_of

from aserve.core.exchange import HTTP_1_0, HTTP_1_1
from aserve.protocols import PROTOCOLS
from aserve.protocols.base import Limits

REJECTED = pathlib.Path(__file__).parent.parent / "corpus" / "http1" / "reject"


# Heads


def test_a_plain_request(new_http1):
    """A GET without surprises is a plain exchange: HTTP/1.1, kept alive, without a body."""
    (exchange,) = new_http1().receive(GET)
    assert facts(exchange)[1:] == (HTTP_1_1, True, False, None, False, None)
    assert vars_of(exchange) == [
        ("REQUEST_METHOD", "GET"),
        ("REQUEST_URI", "/"),
        ("PATH_INFO", "/"),
        ("QUERY_STRING", ""),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("HTTP_HOST", "a"),
    ]


def test_octets_become_latin_1(new_http1):
    """PEP 3333 "Unicode Issues": a decoded path and field values are octets as latin-1."""
    raw = b"GET /%C3%A9?%C3 HTTP/1.1\r\nHost: a\r\nX: \xc3\xa9\r\n\r\n"
    (exchange,) = new_http1().receive(raw)
    found = dict(vars_of(exchange))
    assert found["PATH_INFO"] == "/\xc3\xa9" and found["QUERY_STRING"] == "%C3"
    assert found["HTTP_X"] == "\xc3\xa9" and found["REQUEST_URI"] == "/%C3%A9?%C3"


def test_repeated_fields_are_kept_apart(new_http1):
    """Repeats stay two pairs, for wsgi/environ.py to join (RFC 9110 5.2)."""
    raw = GET[:-2] + b"A: 1\r\nB: 2\r\nA: 3\r\n\r\n"
    (exchange,) = new_http1().receive(raw)
    assert vars_of(exchange)[-3:] == [("HTTP_A", "1"), ("HTTP_B", "2"), ("HTTP_A", "3")]


@pytest.mark.parametrize(
    ("version", "field", "form", "keep_alive"),
    [
        (b"1.1", b"", HTTP_1_1, True),
        (b"1.1", b"Connection: keep-alive\r\n", HTTP_1_1, True),
        (b"1.1", b"Connection: close\r\n", HTTP_1_1, False),
        (b"1.1", b"connection: CLOSE\r\n", HTTP_1_1, False),
        (b"1.1", b"Connection: x, close\r\n", HTTP_1_1, False),
        (b"1.1", b"Connection: keep-alive, close\r\n", HTTP_1_1, False),
        (b"1.0", b"", HTTP_1_0, False),
        (b"1.0", b"Connection: close\r\n", HTTP_1_0, False),
        (b"1.0", b"Connection: keep-alive\r\n", HTTP_1_0, True),
        (b"1.0", b"Connection: Keep-Alive\r\n", HTTP_1_0, True),
    ],
)
def test_keep_alive_follows_version_and_field(new_http1, version, field, form, keep_alive):
    """RFC 9112 9.3: 1.1 stays open unless told to close, 1.0 only if asked to."""
    (exchange,) = new_http1().receive(b"GET / HTTP/" + version + b"\r\nHost: a\r\n" + field + b"\r\n")
    assert exchange.form is form and exchange.keep_alive is keep_alive


@pytest.mark.parametrize(("method", "is_head"), [(b"HEAD", True), (b"GET", False), (b"head", False), (b"HEADS", False)])
def test_head_alone_has_no_response_body(new_http1, method, is_head):
    """RFC 9110 9.1: methods are case-sensitive."""
    exchanges = new_http1().receive(GET.replace(b"GET", method))
    assert [exchange.is_head for exchange in exchanges] == [is_head]


def test_head_with_a_body(new_http1):
    """A HEAD request may have a body; the next request is found behind."""
    first, second = new_http1().receive(POST.replace(b"POST", b"HEAD") + GET)
    assert first.is_head and body_of(first) == b"hello"
    assert not second.is_head


# Bodies


@pytest.mark.parametrize(
    ("raw", "body", "is_chunked"),
    [
        (POST, b"hello", False),
        (CHUNKED, b"hello!", True),
        (CHUNKED_HEAD + b"0\r\n\r\n", b"", True),
        (CHUNKED_HEAD + b"0005\r\nhello\r\n0\r\n\r\n", b"hello", True),
        (CHUNKED_HEAD + b"A\r\n0123456789\r\n0\r\n\r\n", b"0123456789", True),
        (CHUNKED_HEAD + b"a\r\n0123456789\r\n0\r\n\r\n", b"0123456789", True),
    ],
)
def test_bodies_come_deframed_once_and_complete(new_http1, raw, body, is_chunked):
    (exchange,) = new_http1().receive(raw)
    assert body_of(exchange) == body and exchange.body.length == len(body)
    assert exchange.body.is_chunked is is_chunked


def test_an_empty_body_is_none(new_http1):
    """Content-Length: 0 is a request without a body; nothing has to be waited for."""
    (exchange,) = new_http1().receive(POST[:-5].replace(b" 5", b" 0"))
    assert exchange.body is None
    assert ("CONTENT_LENGTH", "0") in vars_of(exchange)


def test_a_large_chunked_body(new_http1):
    """A chunk larger than one call of the decoder comes out whole."""
    content = bytes(range(256)) * 1024
    (exchange,) = new_http1().receive(CHUNKED_HEAD + b"40000\r\n" + content + b"\r\n0\r\n\r\n")
    assert body_of(exchange) == content


def test_chunked_data_over_several_decoder_calls_keeps_its_place(new_http1):
    """Octets behind a body of many decoder calls are the next request."""
    raw = CHUNKED_HEAD + b"".join(b"800\r\n" + b"x" * 2048 + b"\r\n" for _ in range(100))
    first, second = new_http1().receive(raw + b"0\r\n\r\n" + GET)
    assert first.body.length == 204800 and second.body is None


# Splits: RFC 9112 says nothing of segments, so segments must mean nothing

SMALL = {"max_body_bytes": 8, "max_line_bytes": 64, "max_head_bytes": 256, "max_fields": 4}
STREAMS = {
    "plain": GET,
    "1.0": b"GET / HTTP/1.0\r\n\r\n",
    "empty line first": b"\r\n" + GET,
    "length": POST,
    "chunked": CHUNKED,
    "bodies, then plain": POST + CHUNKED + GET,
    "plain, then bodies": GET + CHUNKED + POST,
    "HEAD, then close": GET.replace(b"GET", b"HEAD") + GET[:-2] + b"Connection: close\r\n\r\n",
    "unfinished": POST + GET[:-1],
    "good, then bad": GET + b"GET /\r\n\r\n" + GET,
    "bad chunk size": GET + CHUNKED_HEAD + b"5\r\nhello\r\nx\r\n" + GET,
    "bad chunk end": CHUNKED_HEAD + b"5\r\nhello!\r\n0\r\n\r\n" + GET,
    "length too large": POST.replace(b" 5", b" 9") + b"2345" + GET,
    "chunks too large": CHUNKED_HEAD + b"5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n" + GET,
    "line too long": GET + b"GET /" + b"x" * 64 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    "head too large": GET[:-2] + b"A: " + b"x" * 300 + b"\r\n\r\n",
    "too many fields": GET[:-2] + b"A: 1\r\n" * 4 + b"\r\n",
}


@pytest.mark.parametrize("name", STREAMS)
def test_splits_mean_nothing(new_http1, name):
    """Every two-way split, and octet by octet, gives the same exchanges as the whole."""
    raw = STREAMS[name]
    whole = [facts(exchange) for exchange in feed(new_http1(**SMALL), raw)]
    assert whole
    for cut in range(1, len(raw)):
        halves = feed(new_http1(**SMALL), raw[:cut], raw[cut:])
        assert [facts(exchange) for exchange in halves] == whole, cut
    octets = (raw[position : position + 1] for position in range(len(raw)))
    assert [facts(exchange) for exchange in feed(new_http1(**SMALL), *octets)] == whole


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("count", [1, 2])
def test_pipelining_limits_mean_nothing_either(new_http1, name, count):
    """However few exchanges are returned at a time, the sum is the same."""
    raw = STREAMS[name]
    whole = [facts(exchange) for exchange in feed(new_http1(**SMALL), raw)]
    some = feed(new_http1(**SMALL, max_pipelined=count), raw)
    assert [facts(exchange) for exchange in some] == whole


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("each", [pytest.param(1, marks=pytest.mark.long), 7])
@pytest.mark.parametrize("pair", desync.load(), ids=lambda pair: pair.name)
def test_splits_of_smuggled_requests_mean_nothing(new_http1, pair, each):
    """However the octets of tests/corpus/desync are cut, the requests inside do not change.

    In the brief run one pair is cut at every seventh place, the next pair beside those places: the heads are much alike, and STREAMS are cut at each.
    """
    limits = {"max_body_bytes": 10_000, "max_head_bytes": 16_384}
    raw = pair.raw
    whole = [facts(exchange) for exchange in feed(new_http1(**limits), raw)]
    step = each if len(raw) < 1000 else 997
    for cut in range(1 + zlib.crc32(pair.name.encode()) % each, len(raw), step):
        assert [facts(exchange) for exchange in feed(new_http1(**limits), raw[:cut], raw[cut:])] == whole, cut
    octets = [raw[at : at + 1] for at in range(len(raw))]
    assert [facts(exchange) for exchange in feed(new_http1(**limits), *octets)] == whole


def test_a_websocket_is_asked_for():
    """The following octets are kept unchanged, until known as HTTP."""
    raw = GET[:-2] + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    protocol = PROTOCOLS["http", "c"](Limits())()
    first, asking = protocol.receive(GET + raw + GET)
    assert asking.asks_websocket and asking.is_for_loop and not (first.asks_websocket or first.is_for_loop)
    assert protocol.receive(b"\0") == [] and protocol.unparsed == GET + b"\0" and not protocol.has_unparsed
    protocol.unparsed = GET + raw
    protocol.go_on()
    assert protocol.has_unparsed and [each.asks_websocket for each in protocol.receive(b"")] == [False, True]


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("name", [path.stem for path in sorted(REJECTED.glob("*.raw"))])
def test_an_error_waits_for_no_octet(name):
    """However the octets of a bad head are cut, the same octet brings the refusal."""

    def is_refused(*pieces):
        return any(exchange.refusal for exchange in feed(PROTOCOLS["http", "c"](Limits())(), *pieces))

    raw = (REJECTED / f"{name}.raw").read_bytes()[:9000]
    protocol = PROTOCOLS["http", "c"](Limits())()
    for count in range(len(raw)):
        if any(exchange.refusal for exchange in protocol.receive(raw[count : count + 1])):
            assert is_refused(raw[: count + 1]) and not is_refused(raw[:count])
            return


def test_splits_of_live_bodies_mean_nothing(new_http1):
    """A live body fed in two pieces, cut anywhere, reads like the whole."""
    raw = CHUNKED + POST
    for cut in range(1, len(raw)):
        first, second = feed(new_http1(is_live=True), raw[:cut], raw[cut:])
        assert (body_of(first), body_of(second)) == (b"hello!", b"hello"), cut


# Pipelining


def test_pipelined_requests_come_in_order(new_http1):
    """RFC 9112 9.3.2: several requests in one segment come out in order."""
    raw = b"".join(GET.replace(b"/ ", b"/%d " % number) for number in range(5))
    paths = [dict(vars_of(exchange))["PATH_INFO"] for exchange in new_http1().receive(raw)]
    assert paths == ["/0", "/1", "/2", "/3", "/4"]


def test_no_more_than_max_pipelined(new_http1):
    """The rest is kept, `receive(b"")` goes on, and says when the rest is done."""
    protocol = new_http1(max_pipelined=2)
    assert len(protocol.receive(LARGE * 5)) == 2 and protocol.has_unparsed
    assert len(protocol.receive(b"")) == 2 and protocol.has_unparsed
    assert len(protocol.receive(b"")) == 1 and not protocol.has_unparsed
    assert protocol.receive(b"") == [] and not protocol.is_mid_message


def test_new_octets_join_the_kept_ones(new_http1):
    """New octets go behind the kept ones."""
    protocol = new_http1(max_pipelined=1)
    assert len(protocol.receive(LARGE + LARGE[:4096])) == 1 and protocol.has_unparsed
    assert len(protocol.receive(LARGE[4096:] + POST)) >= 1
    assert not protocol.has_unparsed or body_of(protocol.receive(b"")[0]) == b"hello"
    assert not protocol.has_unparsed and not protocol.is_mid_message


def test_the_limit_reached_exactly_keeps_nothing(new_http1):
    """As many exchanges as allowed, and not an octet more: nothing is left to parse."""
    protocol = new_http1(max_pipelined=2)
    assert len(protocol.receive(GET + POST)) == 2
    assert not protocol.has_unparsed and not protocol.is_mid_message


def test_an_incomplete_rest_is_not_unparsed(new_http1):
    """A kept request found incomplete waits for the network, not for us."""
    protocol = new_http1(max_pipelined=1)
    protocol.receive(LARGE + LARGE[:-1])
    assert protocol.has_unparsed  # nobody has looked yet
    assert protocol.receive(b"") == []
    assert not protocol.has_unparsed and protocol.is_mid_message
    assert len(protocol.receive(LARGE[-1:])) == 1


# 100-continue


@pytest.mark.parametrize("raw", [EXPECT, EXPECT_CHUNKED])
def test_continue_is_due_until_the_body_comes(new_http1, raw):
    """RFC 9110 10.1.1: due once the head is complete; not when the client has gone on anyway."""
    protocol = new_http1()
    assert protocol.receive(raw[:-1]) == [] and not protocol.is_continue_due
    assert protocol.receive(raw[-1:]) == [] and protocol.is_continue_due
    protocol.receive(b"1")
    assert not protocol.is_continue_due


@pytest.mark.parametrize(
    "raw",
    [
        EXPECT + b"hel",  # octets of the body are in the head's own segment
        EXPECT.replace(b"1.1", b"1.0"),  # RFC 9110 10.1.1: ignored from HTTP/1.0
        GET[:-2] + b"Expect: 100-continue\r\n\r\n",  # there is no body to ask for
        POST[:-5],
    ],
)
def test_continue_is_not_due(new_http1, raw):
    """Nobody is told to continue without waiting for the word."""
    protocol = new_http1()
    protocol.receive(raw)
    assert not protocol.is_continue_due


def test_continue_can_be_answered(new_http1):
    """The sender of "100 Continue" takes the flag back; the body then comes as usual."""
    protocol = new_http1()
    protocol.receive(EXPECT)
    protocol.is_continue_due = False
    (exchange,) = protocol.receive(b"hello")
    assert body_of(exchange) == b"hello" and not protocol.is_continue_due


# Position


@pytest.mark.parametrize(
    ("raw", "is_mid_message", "is_mid_body"),
    [
        (b"", False, False),
        (b"G", True, False),
        (GET[:-1], True, False),
        (GET, False, False),
        (POST[:-5], True, True),
        (POST[:-1], True, True),
        (POST, False, False),
        (POST + b"G", True, False),
        (CHUNKED_HEAD, True, True),
        (CHUNKED[:-1], True, True),
        (CHUNKED, False, False),
        (b"GET /\r\n\r\n", False, False),
    ],
)
def test_where_it_stands(new_http1, raw, is_mid_message, is_mid_body):
    """Time-outs hang on two questions: has a request begun, is the head complete."""
    protocol = new_http1()
    protocol.receive(raw)
    assert (protocol.is_mid_message, protocol.is_mid_body) == (is_mid_message, is_mid_body)
    assert not protocol.has_unparsed


@pytest.mark.parametrize("raw", [b"", GET[:-1], POST[:-1], CHUNKED[:-1], EXPECT, GET])
def test_receive_eof_twice_completes_nothing(new_http1, raw):
    """The end may be told twice (a half-closed connection is lost later), and completes nothing."""
    protocol = new_http1()
    protocol.receive(raw)
    for _ in range(2):
        protocol.receive_eof()
        assert not protocol.has_unparsed and protocol.receive(b"") == []


def test_receive_eof_with_requests_kept(new_http1):
    """Octets before the end are still parsed (RFC 9112 9.6: a client may close one side)."""
    protocol = new_http1(max_pipelined=1)
    assert len(protocol.receive(LARGE * 3)) == 1
    protocol.receive_eof()
    assert [len(protocol.receive(b"")) for _ in range(2)] == [1, 1]


@pytest.mark.parametrize("end", ["eof", "bad chunk", "too large"])
def test_a_spooled_body_that_ends_early_is_closed(new_http1, end, files):
    """The file of a body never to be complete is closed at once, not by the collector."""
    protocol = new_http1(body_memory_bytes=2, max_body_bytes=6)
    protocol.receive(CHUNKED_HEAD + b"5\r\nhello\r\n")
    assert len(files) == 1 and not files[0].closed
    if end == "eof":
        protocol.receive_eof()
    else:
        protocol.receive(b"x\r\n" if end == "bad chunk" else b"5\r\nworld\r\n")
    assert files[0].closed


# Fields believed of proxies alone

CLIENT_FIELDS = (
    b"X-Forwarded-For: 1.2.3.4\r\nx-forwarded-for: 5.6.7.8\r\nForwarded: for=a\r\nX-Real-IP: b\r\n"
    b"X-FORWARDED-USER: c\r\nX_Forwarded_Host: twin\r\nX-Forwarded_Host: twin\r\nX_Real_IP: twin\r\nA: HTTP_X_FORWARDED_FOR\r\n"
)


@pytest.mark.parametrize("is_live", [False, True])
@pytest.mark.parametrize("raw", [GET, POST, CHUNKED, EXPECT + b"hello", GET.replace(b"1.1", b"1.0")])
def test_fields_of_proxies_are_stripped(new_http1, raw, is_live):
    """The fields are on the exchange and not among the vars, twins nowhere; the rest is as without fields."""
    (plain,) = feed(new_http1(is_live=is_live), raw)
    (exchange,) = feed(new_http1(is_live=is_live), raw.replace(b"Host: a\r\n", CLIENT_FIELDS + b"Host: a\r\n"))
    assert plain.forwarded is None
    assert exchange.forwarded == {
        "HTTP_X_FORWARDED_FOR": "1.2.3.4, 5.6.7.8",
        "HTTP_FORWARDED": "for=a",
        "HTTP_X_REAL_IP": "b",
        "HTTP_X_FORWARDED_USER": "c",
    }
    expected = list(facts(plain))
    expected[0] = expected[0].replace("HTTP_HOST", "HTTP_A\0HTTP_X_FORWARDED_FOR\0HTTP_HOST")
    assert facts(exchange) == tuple(expected)


def test_a_refusal_keeps_them(new_http1):
    """A request refused for the body may still be logged with the client's address."""
    raw = POST.replace(b"Host: a\r\n", b"X-Forwarded-For: 1.2.3.4\r\nHost: a\r\n")
    (refused,) = feed(new_http1(max_body_bytes=1), raw)
    assert refused.refusal.status == 413 and refused.forwarded == {"HTTP_X_FORWARDED_FOR": "1.2.3.4"}
    (refused,) = feed(new_http1(), b"BAD\r\n\r\n")
    assert refused.forwarded is None


def test_whether_they_are_stripped_is_a_choice(new_http1):
    """A listener may do more than take fields out: the listener is asked for each such request, and no more."""
    asked = []
    protocol = new_http1(strip_forwarded=asked.append)
    feed(protocol, GET, GET[:-2] + b"X-Forwarded-For: 1\r\n\r\n")
    assert [exchange.forwarded for exchange in asked] == [None]
