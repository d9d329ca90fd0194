"""HTTP/1.1, pure: octets in, exchanges out, however they are cut; over every parser."""

from __future__ import annotations

import importlib.util
import pathlib
import tempfile

import pytest
from harness import desync

from aserve.budgets import BodySpace, Budget
from aserve.errors import ClientDisconnected
from aserve.exchange import HTTP_1_0, HTTP_1_1
from aserve.protocols import PROTOCOLS
from aserve.protocols.base import Limits

REJECTED = pathlib.Path(__file__).parent.parent / "corpus" / "http1" / "reject"
PARSERS = [parser for name, parser in PROTOCOLS if name == "http"]
if importlib.util.find_spec("httptools") is None:  # as on PyPy
    PARSERS.remove("httptools")
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
# llhttp is fed 4 KiB at a time: requests so large that the limit of the pipeline is exact.
LARGE = GET[:-2] + b"A: " + b"x" * 5000 + b"\r\n\r\n"
POST = b"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED_HEAD = b"POST /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKED = CHUNKED_HEAD + b"5;ext=1\r\nhello\r\n1\r\n!\r\n0\r\nX-Trailer: 1\r\n\r\n"
EXPECT = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
EXPECT_CHUNKED = CHUNKED_HEAD[:-2] + b"Expect: 100-continue\r\n\r\n"


@pytest.fixture(params=PARSERS)
def new(request):
    """Make a protocol: new(**limits)."""
    return lambda **limits: PROTOCOLS["http", request.param](Limits(**limits))()


def body_of(exchange):
    return None if exchange.body is None else exchange.body.open().read()


def facts(exchange):
    """Everything that an exchange says, comparable."""
    refusal = exchange.refusal
    return (
        exchange.vars,
        exchange.nvars,
        exchange.form,
        exchange.keep_alive,
        exchange.is_head,
        None if refusal else body_of(exchange),
        exchange.body is not None and exchange.body.is_chunked,
        refusal and (refusal.status, str(refusal)),
    )


def feed(protocol, *pieces):
    """Return all exchanges that these pieces complete, the kept ones too."""
    exchanges = []
    for piece in pieces:
        exchanges += protocol.receive(piece)
        while protocol.has_unparsed:
            exchanges += protocol.receive(b"")
    return exchanges


def vars_of(exchange):
    parts = iter(exchange.vars.split("\0"))
    return list(zip(parts, parts))


# Heads


def test_a_plain_request(new):
    """A GET without surprises is a plain exchange: HTTP/1.1, kept alive, without a body."""
    (exchange,) = new().receive(GET)
    assert facts(exchange)[2:] == (HTTP_1_1, True, False, None, False, None)
    assert vars_of(exchange) == [
        ("REQUEST_METHOD", "GET"),
        ("REQUEST_URI", "/"),
        ("PATH_INFO", "/"),
        ("QUERY_STRING", ""),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("HTTP_HOST", "a"),
    ]
    assert exchange.nvars == 6


def test_octets_become_latin_1(new):
    """PEP 3333 "Unicode Issues": a decoded path and field values are octets as latin-1."""
    raw = b"GET /%C3%A9?%C3 HTTP/1.1\r\nHost: a\r\nX: \xc3\xa9\r\n\r\n"
    (exchange,) = new().receive(raw)
    found = dict(vars_of(exchange))
    assert found["PATH_INFO"] == "/\xc3\xa9" and found["QUERY_STRING"] == "%C3"
    assert found["HTTP_X"] == "\xc3\xa9" and found["REQUEST_URI"] == "/%C3%A9?%C3"


def test_repeated_fields_are_kept_apart(new):
    """Repeats stay two pairs, so that wsgi/environ.py can join them (RFC 9110 5.2)."""
    raw = GET[:-2] + b"A: 1\r\nB: 2\r\nA: 3\r\n\r\n"
    (exchange,) = new().receive(raw)
    assert vars_of(exchange)[-3:] == [("HTTP_A", "1"), ("HTTP_B", "2"), ("HTTP_A", "3")]
    assert exchange.nvars == 9


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
def test_keep_alive(new, version, field, form, keep_alive):
    """RFC 9112 9.3: 1.1 stays open unless told to close, 1.0 only if asked to."""
    (exchange,) = new().receive(b"GET / HTTP/" + version + b"\r\nHost: a\r\n" + field + b"\r\n")
    assert exchange.form is form and exchange.keep_alive is keep_alive


@pytest.mark.parametrize(("method", "is_head"), [(b"HEAD", True), (b"GET", False), (b"head", False), (b"HEADS", False)])
def test_head(new, method, is_head):
    """RFC 9110 9.1: methods are case-sensitive; HEAD alone has no body in its response."""
    exchanges = new().receive(GET.replace(b"GET", method))
    assert [exchange.is_head for exchange in exchanges] == [is_head]


def test_head_with_a_body(new):
    """A HEAD request may have a body of its own; the next request is found behind it."""
    first, second = new().receive(POST.replace(b"POST", b"HEAD") + GET)
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
def test_bodies(new, raw, body, is_chunked):
    """A body comes de-framed, once, and complete."""
    (exchange,) = new().receive(raw)
    assert body_of(exchange) == body and exchange.body.length == len(body)
    assert exchange.body.is_chunked is is_chunked


def test_an_empty_body_is_none(new):
    """Content-Length: 0 is a request without a body; nothing has to be waited for."""
    (exchange,) = new().receive(POST[:-5].replace(b" 5", b" 0"))
    assert exchange.body is None
    assert ("CONTENT_LENGTH", "0") in vars_of(exchange)


def test_a_large_chunked_body(new):
    """A chunk larger than one call of the decoder takes comes out whole."""
    content = bytes(range(256)) * 1024
    (exchange,) = new().receive(CHUNKED_HEAD + b"40000\r\n" + content + b"\r\n0\r\n\r\n")
    assert body_of(exchange) == content


def test_chunked_data_over_several_decoder_calls_keeps_its_place(new):
    """What follows a body of many decoder calls is the next request."""
    raw = CHUNKED_HEAD + b"".join(b"800\r\n" + b"x" * 2048 + b"\r\n" for _ in range(100))
    first, second = new().receive(raw + b"0\r\n\r\n" + GET)
    assert first.body.length == 204800 and second.body is None


# Splits: RFC 9112 says nothing of segments, so they must mean nothing

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
def test_splits_mean_nothing(new, name):
    """Every two-way split, and octet by octet, gives the same exchanges as the whole."""
    raw = STREAMS[name]
    whole = [facts(exchange) for exchange in feed(new(**SMALL), raw)]
    assert whole
    for cut in range(1, len(raw)):
        halves = feed(new(**SMALL), raw[:cut], raw[cut:])
        assert [facts(exchange) for exchange in halves] == whole, cut
    octets = (raw[position : position + 1] for position in range(len(raw)))
    assert [facts(exchange) for exchange in feed(new(**SMALL), *octets)] == whole


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("count", [1, 2])
def test_pipelining_limits_mean_nothing_either(new, name, count):
    """However few exchanges are returned at a time, they are the same in the end."""
    raw = STREAMS[name]
    whole = [facts(exchange) for exchange in feed(new(**SMALL), raw)]
    some = feed(new(**SMALL, max_pipelined=count), raw)
    assert [facts(exchange) for exchange in some] == whole


@pytest.mark.parametrize("pair", desync.load(), ids=lambda pair: pair.name)
def test_splits_of_smuggled_requests_mean_nothing(new, pair):
    """However the octets of tests/corpus/desync are cut, what is a request in them does not change."""
    limits = {"max_body_bytes": 10_000, "max_head_bytes": 16_384}
    raw = pair.raw
    whole = [facts(exchange) for exchange in feed(new(**limits), raw)]
    step = 1 if len(raw) < 1000 else 997
    for cut in range(1, len(raw), step):
        assert [facts(exchange) for exchange in feed(new(**limits), raw[:cut], raw[cut:])] == whole, cut
    octets = [raw[at : at + 1] for at in range(len(raw))]
    assert [facts(exchange) for exchange in feed(new(**limits), *octets)] == whole


@pytest.mark.parametrize("name", [path.stem for path in sorted(REJECTED.glob("*.raw"))])
def test_an_error_waits_for_no_octet(name):
    """However the octets of a bad head are cut, it is refused at the same one of them."""

    def is_refused(*pieces):
        return any(exchange.refusal for exchange in feed(PROTOCOLS["http", "c"](Limits())(), *pieces))

    raw = (REJECTED / f"{name}.raw").read_bytes()[:9000]
    protocol = PROTOCOLS["http", "c"](Limits())()
    for count in range(len(raw)):
        if any(exchange.refusal for exchange in protocol.receive(raw[count : count + 1])):
            assert is_refused(raw[: count + 1]) and not is_refused(raw[:count])
            return


def test_splits_of_live_bodies_mean_nothing(new):
    """A live body fed in two pieces, cut anywhere, reads like the whole."""
    raw = CHUNKED + POST
    for cut in range(1, len(raw)):
        first, second = feed(new(is_live=True), raw[:cut], raw[cut:])
        assert (body_of(first), body_of(second)) == (b"hello!", b"hello"), cut


# Pipelining


def test_pipelined_requests_come_in_order(new):
    """RFC 9112 9.3.2: several requests in one segment come out in their order."""
    raw = b"".join(GET.replace(b"/ ", b"/%d " % number) for number in range(5))
    paths = [dict(vars_of(exchange))["PATH_INFO"] for exchange in new().receive(raw)]
    assert paths == ["/0", "/1", "/2", "/3", "/4"]


def test_no_more_than_max_pipelined(new):
    """The rest is kept, `receive(b"")` goes on with it, and says when it is done."""
    protocol = new(max_pipelined=2)
    assert len(protocol.receive(LARGE * 5)) == 2 and protocol.has_unparsed
    assert len(protocol.receive(b"")) == 2 and protocol.has_unparsed
    assert len(protocol.receive(b"")) == 1 and not protocol.has_unparsed
    assert protocol.receive(b"") == [] and not protocol.is_mid_message


def test_new_octets_join_the_kept_ones(new):
    """Octets that come while some are kept go behind them."""
    protocol = new(max_pipelined=1)
    assert len(protocol.receive(LARGE + LARGE[:4096])) == 1 and protocol.has_unparsed
    assert len(protocol.receive(LARGE[4096:] + POST)) >= 1
    assert not protocol.has_unparsed or body_of(protocol.receive(b"")[0]) == b"hello"
    assert not protocol.has_unparsed and not protocol.is_mid_message


def test_the_limit_reached_exactly_keeps_nothing(new):
    """As many exchanges as allowed, and not an octet more: nothing is left to parse."""
    protocol = new(max_pipelined=2)
    assert len(protocol.receive(GET + POST)) == 2
    assert not protocol.has_unparsed and not protocol.is_mid_message


def test_an_incomplete_rest_is_not_unparsed(new):
    """A kept request that turns out incomplete waits for the network, not for us."""
    protocol = new(max_pipelined=1)
    protocol.receive(LARGE + LARGE[:-1])
    assert protocol.has_unparsed  # nobody has looked yet
    assert protocol.receive(b"") == []
    assert not protocol.has_unparsed and protocol.is_mid_message
    assert len(protocol.receive(LARGE[-1:])) == 1


# Refusals

REFUSED = [
    (400, b"GET / HTTP/1.1\r\n\r\n"),  # RFC 9112 3.2: no Host
    (400, b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),  # RFC 9112 3.2
    (400, b"GET / HTTP/1.1\nHost: a\n\n"),  # RFC 9112 2.2: bare LF
    (400, b"GET / HTTP/1.1\r\nHost: a\r\nA : 1\r\n\r\n"),  # RFC 9112 5.1
    (400, b"GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\n 2\r\n\r\n"),  # RFC 9112 5.2: obs-fold
    (400, b"GET / HTTP/1.1\r\nHost: a\r\nA: \x01\r\n\r\n"),  # RFC 9110 5.5
    (400, b"GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n"),  # a NUL would end its value in the vars
    (400, POST.replace(b" 5", b" 5, 5")),  # RFC 9112 6.3
    (400, POST.replace(b" 5", b" +5")),  # RFC 9110 8.6
    (400, CHUNKED.replace(b"Host", b"Content-Length: 5\r\nHost")),  # RFC 9112 6.1
    (400, CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0")),  # RFC 9112 6.1
    (400, CHUNKED.replace(b" chunked", b" gzip")),  # RFC 9112 6.3: chunked is not the last
    (501, CHUNKED.replace(b" chunked", b" gzip, chunked")),  # RFC 9112 6.1
    (400, CHUNKED_HEAD + b"0x5\r\nhello\r\n0\r\n\r\n"),  # RFC 9112 7.1
    (400, CHUNKED_HEAD + b"-5\r\nhello\r\n0\r\n\r\n"),  # RFC 9112 7.1
    (400, CHUNKED_HEAD + b"fffffffffffffffff\r\n"),  # RFC 9112 7.1: overflow
    (400, CHUNKED_HEAD + b"5\r\nhello0\r\n\r\n"),  # RFC 9112 7.1: no CRLF behind the data
    (505, GET.replace(b"1.1", b"2.0")),  # RFC 9110 15.6.6
    (501, b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n"),  # RFC 9110 9.3.6: no proxy here
    (417, EXPECT.replace(b"100-continue", b"miracles")),  # RFC 9110 10.1.1
    (414, GET.replace(b"/", b"/" + b"x" * 8200, 1)),  # RFC 9110 15.5.15
    (431, GET[:-2] + b"A: " + b"x" * 66000 + b"\r\n\r\n"),  # RFC 6585 5
    (431, GET[:-2] + b"A: 1\r\n" * 100 + b"\r\n"),  # RFC 6585 5
    (413, POST.replace(b" 5", b" 1073741825")),  # RFC 9110 15.5.14
]
# Where llhttp has another answer, or no limit: docs/parser-differences.md
REFUSED_BY_OURS = [
    (400, b"GET /\r\n\r\n"),  # RFC 9112 3: no version
    (400, CHUNKED_HEAD + b"5;" + b"x" * 9000 + b"\r\nhello\r\n0\r\n\r\n"),  # RFC 9112 7.1.1
    (431, CHUNKED_HEAD + b"0\r\nA: " + b"x" * 9000 + b"\r\n\r\n"),  # RFC 6585 5
]


@pytest.mark.parametrize(("status", "raw"), REFUSED, ids=lambda value: repr(value)[:60])
def test_refusals(new, status, raw):
    """A client's fault is the last exchange, behind the good ones; nothing is parsed after it."""
    check_refusal(new(), status, raw)


@pytest.mark.parametrize(("status", "raw"), REFUSED_BY_OURS)
def test_refusals_of_our_own_parser(status, raw):
    """What llhttp does not judge, or otherwise, is the last exchange, too."""
    check_refusal(PROTOCOLS["http", "c"](Limits())(), status, raw)


def check_refusal(protocol, status, raw):
    exchanges = protocol.receive(GET + raw + GET)
    assert len(exchanges) == 2 and exchanges[0].refusal is None
    refused = exchanges[1]
    assert refused.refusal.status == status and str(refused.refusal)
    assert not refused.keep_alive
    assert not protocol.has_unparsed and not protocol.is_mid_message
    assert not protocol.is_mid_body and not protocol.is_continue_due
    assert protocol.receive(GET) == [] == protocol.receive(b"")


def test_a_refusal_of_a_body_knows_its_head(new):
    """A refusal after a good head keeps what is known of the request, for the log and for HEAD."""
    raw = POST.replace(b"POST", b"HEAD")
    (refused,) = new(max_body_bytes=4).receive(raw)
    assert refused.refusal.status == 413 and refused.is_head
    assert dict(vars_of(refused))["PATH_INFO"] == "/p" and refused.nvars == len(vars_of(refused))


def test_body_limit_by_length(new):
    """RFC 9110 15.5.14: exactly the limit is taken; one octet over is refused at the head."""
    assert new(max_body_bytes=5).receive(POST)[0].refusal is None
    (refused,) = new(max_body_bytes=4).receive(POST[:-5])
    assert refused.refusal.status == 413


def test_body_limit_of_chunks(new):
    """A chunked body is refused as soon as it flows over the limit, not at its end."""
    protocol = new(max_body_bytes=5)
    assert protocol.receive(CHUNKED_HEAD + b"5\r\nhello\r\n") == []
    (refused,) = protocol.receive(b"5\r\nw")
    assert refused.refusal.status == 413
    assert protocol.receive(b"orld\r\n0\r\n\r\n" + GET) == []
    (exchange,) = new(max_body_bytes=6).receive(CHUNKED)
    assert exchange.refusal is None


@pytest.mark.parametrize(
    ("limit", "head", "rest", "status"),
    [
        (4, POST[:-5], b"", 413),  # it would never fit
        (5, POST[:-5], b"hel", 503),  # others have the room, as its head comes
        (4, CHUNKED_HEAD, b"5\r\nhello\r\n", 413),
        (5, CHUNKED_HEAD, b"5\r\nhello\r\n", 503),  # or as it comes itself
    ],
)
@pytest.mark.parametrize("parts", [1, 2])
def test_a_body_without_room_on_the_disk(new, limit, head, rest, status, parts):
    """RFC 9110 15.6.4: refused as soon as that is known, and what still comes of it is dropped."""
    space = BodySpace(Budget(limit), Budget(9), "aserve-body-")
    space.octets.take(1)
    protocol = new(body_memory_bytes=2, body_space=space)
    (refused,) = feed(protocol, *([head + rest] if parts == 1 else [head, rest]))
    assert refused.refusal.status == status
    assert feed(protocol, b"x" * 9, GET) == [] and space.octets.count == 1 and not space.files.count


def test_the_room_is_gone_as_a_body_comes(new):
    """Somebody else has taken it since its head came."""
    space = BodySpace(Budget(5), Budget(9), "aserve-body-")
    protocol = new(body_memory_bytes=2, body_space=space)
    assert protocol.receive(POST[:-5]) == []
    space.octets.take(1)
    (refused,) = protocol.receive(b"hello")
    assert refused.refusal.status == 503 and space.octets.count == 1


def test_an_expectation_of_a_body_too_large(new):
    """RFC 9110 10.1.1: a body that would be refused is not asked for."""
    protocol = new(max_body_bytes=4)
    (refused,) = protocol.receive(EXPECT)
    assert refused.refusal.status == 413 and not protocol.is_continue_due


# 100-continue


@pytest.mark.parametrize("raw", [EXPECT, EXPECT_CHUNKED])
def test_continue_is_due_until_the_body_comes(new, raw):
    """RFC 9110 10.1.1: due once the head is complete; not when the client has gone on anyway."""
    protocol = new()
    assert protocol.receive(raw[:-1]) == [] and not protocol.is_continue_due
    assert protocol.receive(raw[-1:]) == [] and protocol.is_continue_due
    protocol.receive(b"1")
    assert not protocol.is_continue_due


def test_continue_is_not_due_when_the_body_came_along(new):
    """Octets of the body in the head's own segment: nobody waits."""
    protocol = new()
    protocol.receive(EXPECT + b"hel")
    assert not protocol.is_continue_due


@pytest.mark.parametrize(
    "raw",
    [
        EXPECT.replace(b"1.1", b"1.0"),  # RFC 9110 10.1.1: ignored from HTTP/1.0
        GET[:-2] + b"Expect: 100-continue\r\n\r\n",  # there is no body to ask for
        POST[:-5],
    ],
)
def test_continue_is_not_due(new, raw):
    """Nobody is told to continue who does not wait for it."""
    protocol = new()
    protocol.receive(raw)
    assert not protocol.is_continue_due


def test_continue_can_be_answered(new):
    """Who sends "100 Continue" takes the flag back; the body then comes as usual."""
    protocol = new()
    protocol.receive(EXPECT)
    protocol.is_continue_due = False
    (exchange,) = protocol.receive(b"hello")
    assert body_of(exchange) == b"hello" and not protocol.is_continue_due


# Where it stands


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
def test_where_it_stands(new, raw, is_mid_message, is_mid_body):
    """Time-outs hang on these two: has a request begun, is its head complete."""
    protocol = new()
    protocol.receive(raw)
    assert (protocol.is_mid_message, protocol.is_mid_body) == (is_mid_message, is_mid_body)
    assert not protocol.has_unparsed


@pytest.mark.parametrize("raw", [b"", GET[:-1], POST[:-1], CHUNKED[:-1], EXPECT, GET])
def test_receive_eof(new, raw):
    """The end may be told twice (a half-closed connection is lost later), and completes nothing."""
    protocol = new()
    protocol.receive(raw)
    for _ in range(2):
        protocol.receive_eof()
        assert not protocol.has_unparsed and protocol.receive(b"") == []


def test_receive_eof_with_requests_kept(new):
    """What came before the end is still parsed (RFC 9112 9.6: a client may close its side)."""
    protocol = new(max_pipelined=1)
    assert len(protocol.receive(LARGE * 3)) == 1
    protocol.receive_eof()
    assert [len(protocol.receive(b"")) for _ in range(2)] == [1, 1]


@pytest.mark.parametrize("end", ["eof", "bad chunk", "too large"])
def test_a_spooled_body_that_ends_early_is_closed(new, end, monkeypatch):
    """The file of a body that will never be complete is closed at once, not when it is collected."""
    files, temporary_file = [], tempfile.TemporaryFile

    def remember(**kwargs):
        files.append(temporary_file(**kwargs))
        return files[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", remember)
    protocol = new(body_memory_bytes=2, max_body_bytes=6)
    protocol.receive(CHUNKED_HEAD + b"5\r\nhello\r\n")
    assert len(files) == 1 and not files[0].closed
    if end == "eof":
        protocol.receive_eof()
    else:
        protocol.receive(b"x\r\n" if end == "bad chunk" else b"5\r\nworld\r\n")
    assert files[0].closed


# Live bodies


@pytest.mark.parametrize("head", [POST[:-5], CHUNKED_HEAD])
def test_a_live_exchange_comes_with_its_head(new, head):
    """--body stream: the exchange is there when the head is, and its body is still open."""
    protocol = new(is_live=True)
    (exchange,) = protocol.receive(head)
    assert exchange.body.is_live and not exchange.body.is_complete
    assert protocol.live_body is exchange.body
    assert protocol.is_mid_message and protocol.is_mid_body


@pytest.mark.parametrize("raw", [POST, CHUNKED])
def test_a_live_body_ends(new, raw):
    """Octets that come later go to the same body; at its end the next request begins."""
    protocol = new(is_live=True)
    (exchange,) = protocol.receive(raw[:-2])
    assert protocol.receive(raw[-2:] + GET)[0].body is None
    assert exchange.body.is_complete and protocol.live_body is None
    assert body_of(exchange).startswith(b"hello") and not protocol.is_mid_message


@pytest.mark.parametrize("raw", [POST, CHUNKED])
def test_a_live_body_does_not_wait_for_the_pipeline(new, raw):
    """The limit of pipelined exchanges never keeps back the body of one that is already out."""
    protocol = new(is_live=True, max_pipelined=1)
    (exchange,) = protocol.receive(raw + LARGE)
    assert exchange.body.is_complete and body_of(exchange).startswith(b"hello")
    assert len(protocol.receive(b"")) == 1


def test_a_live_body_over_the_limit_in_chunks(new):
    """The app has the exchange already: it meets the refusal where it reads."""
    protocol = new(is_live=True, max_body_bytes=5)
    (exchange,) = protocol.receive(CHUNKED_HEAD + b"5\r\nhello\r\n")
    assert exchange.keep_alive
    assert protocol.receive(b"1\r\n!\r\n0\r\n\r\n" + GET) == []
    assert not exchange.keep_alive and protocol.live_body is None
    assert exchange.body.read(5) == b"hello"
    with pytest.raises(ClientDisconnected, match="over the limit of 5 octets"):
        exchange.body.read(1)


def test_a_live_body_too_large_by_length(new):
    """A length over the limit is refused before there is an exchange."""
    (refused,) = new(is_live=True, max_body_bytes=4).receive(POST)
    assert refused.refusal.status == 413 and refused.body is None


def test_a_live_body_with_broken_framing(new):
    """A bad chunk within a live body is the reader's error, not a second response."""
    protocol = new(is_live=True)
    (exchange,) = protocol.receive(CHUNKED_HEAD + b"5\r\nhello\r\nx\r\n" + GET)
    assert not exchange.keep_alive and exchange.refusal is None
    with pytest.raises(ClientDisconnected, match=r"RFC 9112|llhttp"):
        exchange.body.read()
    assert protocol.receive(GET) == []


def test_a_live_body_cut_off(new):
    """A client that leaves within a live body is told to the reader."""
    protocol = new(is_live=True)
    (exchange,) = protocol.receive(POST[:-1])
    protocol.receive_eof()
    with pytest.raises(ClientDisconnected, match="before the end of the request body"):
        exchange.body.read()


def test_continue_for_a_live_body(new):
    """The flag stays until the app wants the body, or the client sends it unasked."""
    protocol = new(is_live=True)
    (exchange,) = protocol.receive(EXPECT)
    assert protocol.is_continue_due and protocol.live_body is exchange.body
    protocol.receive(b"h")
    assert not protocol.is_continue_due


def test_connections_share_nothing_but_scratch():
    """Two connections of one factory, fed in turns, do not disturb one another."""
    for parser in PARSERS:
        factory = PROTOCOLS["http", parser](Limits())
        one, two = factory(), factory()
        one.receive(CHUNKED[:70])
        two.receive(POST[:30])
        assert body_of(one.receive(CHUNKED[70:])[0]) == b"hello!"
        assert body_of(two.receive(POST[30:])[0]) == b"hello"


# What only a proxy is believed

CLIENT_FIELDS = (
    b"X-Forwarded-For: 1.2.3.4\r\nx-forwarded-for: 5.6.7.8\r\nForwarded: for=a\r\nX-Real-IP: b\r\n"
    b"X-FORWARDED-USER: c\r\nX_Forwarded_Host: twin\r\nX-Forwarded_Host: twin\r\nX_Real_IP: twin\r\nA: HTTP_X_FORWARDED_FOR\r\n"
)


@pytest.mark.parametrize("is_live", [False, True])
@pytest.mark.parametrize("raw", [GET, POST, CHUNKED, EXPECT + b"hello", GET.replace(b"1.1", b"1.0")])
def test_fields_of_proxies_are_stripped(new, raw, is_live):
    """They are on the exchange and not among its vars, their twins nowhere; the rest is as without them."""
    (plain,) = feed(new(is_live=is_live), raw)
    (exchange,) = feed(new(is_live=is_live), raw.replace(b"Host: a\r\n", CLIENT_FIELDS + b"Host: a\r\n"))
    assert plain.forwarded is None
    assert exchange.forwarded == {
        "HTTP_X_FORWARDED_FOR": "1.2.3.4, 5.6.7.8",
        "HTTP_FORWARDED": "for=a",
        "HTTP_X_REAL_IP": "b",
        "HTTP_X_FORWARDED_USER": "c",
    }
    expected = list(facts(plain))
    expected[0] = expected[0].replace("HTTP_HOST", "HTTP_A\0HTTP_X_FORWARDED_FOR\0HTTP_HOST")
    expected[1] += 1
    assert facts(exchange) == tuple(expected)


def test_a_refusal_keeps_them(new):
    """A request that is refused for its body may still be logged as its client's."""
    raw = POST.replace(b"Host: a\r\n", b"X-Forwarded-For: 1.2.3.4\r\nHost: a\r\n")
    (refused,) = feed(new(max_body_bytes=1), raw)
    assert refused.refusal.status == 413 and refused.forwarded == {"HTTP_X_FORWARDED_FOR": "1.2.3.4"}
    (refused,) = feed(new(), b"BAD\r\n\r\n")
    assert refused.forwarded is None


def test_who_sets_them_aside_is_a_choice(new):
    """A listener may do more than take them out: it is asked for each such request, and no other."""
    asked = []
    protocol = new(strip_forwarded=asked.append)
    feed(protocol, GET, GET[:-2] + b"X-Forwarded-For: 1\r\n\r\n")
    assert [exchange.forwarded for exchange in asked] == [None]
