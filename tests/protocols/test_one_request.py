"""Common rules of uwsgi and SCGI: one request on a connection, a body by length, then nothing."""

import gc
import struct
import weakref

import pytest
from harness.http1 import body_of

from aserve.core.budgets import BodySpace, Budget
from aserve.core.errors import ClientDisconnected
from aserve.core.exchange import SCGI_STATUS_FIELD, UWSGI
from aserve.protocols import PROTOCOLS
from aserve.protocols.base import Limits
from aserve.protocols.one_request import OneRequest, is_head_request


def uwsgi_head(*pairs):
    """A packet of a request, as sent by nginx."""
    items = [text.encode("latin-1") for pair in pairs for text in pair]
    data = b"".join(struct.pack("<H", len(item)) + item for item in items)
    return struct.pack("<BHB", 0, len(data), 0) + data


def scgi_head(*pairs):
    """The same as SCGI."""
    vars = dict([("CONTENT_LENGTH", "0"), ("SCGI", "1"), *pairs])
    data = b"".join(f"{name}\0{value or '0'}\0".encode("latin-1") for name, value in vars.items())
    return b"%d:%s," % (len(data), data)


HEADS = {"uwsgi": uwsgi_head, "scgi": scgi_head}
FORMS = {"uwsgi": UWSGI, "scgi": SCGI_STATUS_FIELD}


class Kind:
    """One of the two protocols."""

    def __init__(self, name):
        self.name, self.form = name, FORMS[name]

    def new(self, **limits):
        return PROTOCOLS[self.name, "c"](Limits(**limits))()

    def request(self, body=b"", method="GET", length=None):
        length = str(len(body)) if length is None else length
        return HEADS[self.name](("REQUEST_METHOD", method), ("CONTENT_LENGTH", length), ("PATH_INFO", "/p")) + body


@pytest.fixture(params=HEADS)
def kind(request):
    return Kind(request.param)


def facts(exchanges):
    """The words of exchanges, comparable."""
    return [
        (
            item.vars,
            item.own_count,
            item.form,
            item.keep_alive,
            item.is_head,
            body_of(item),
            item.is_from_front,
            item.refusal,
        )
        for item in exchanges
    ]


def test_a_request_is_the_last_of_its_connection(kind):
    """A request is an exchange from a front server, never chunked, and the last of its connection."""
    (exchange,) = kind.new().receive(kind.request())
    assert exchange.form is kind.form and not exchange.form.may_chunk and not exchange.form.may_inform
    assert exchange.is_from_front and not exchange.keep_alive and not exchange.is_head
    assert exchange.body is None and exchange.refusal is None and not exchange.is_for_loop
    assert "PATH_INFO\0/p" in exchange.vars


def test_the_body_is_as_long_as_content_length(kind):
    """The exchange comes when the body is complete."""
    protocol = kind.new()
    assert protocol.receive(kind.request(b"hello", "POST")[:-1]) == []
    (exchange,) = protocol.receive(b"o")
    assert body_of(exchange) == b"hello" and not exchange.body.is_chunked


def test_what_comes_behind_is_not_read(kind):
    """There is no second request on a connection: octets behind the first are nobody's."""
    for raw in (kind.request(), kind.request(b"hello", "POST")):
        protocol = kind.new()
        (exchange,) = protocol.receive(raw + raw)
        assert body_of(exchange) in (None, b"hello")
        assert protocol.receive(raw) == protocol.receive(b"") == []
        assert not protocol.is_mid_message and not protocol.has_unparsed and protocol.unparsed == b""


def test_the_end_may_be_told(kind):
    """A server done with the request says so: later octets are dropped."""
    protocol = kind.new()
    protocol.drop_further()
    assert protocol.receive(kind.request()) == [] and not protocol.is_mid_message


@pytest.mark.parametrize("body", [b"", b"hello"])
def test_splits_never_change_the_exchange(kind, body):
    raw = kind.request(body, "HEAD")
    whole = facts(kind.new().receive(raw))
    assert whole[0][4] is True
    for position in range(1, len(raw)):
        protocol = kind.new()
        assert facts(protocol.receive(raw[:position]) + protocol.receive(raw[position:])) == whole
    protocol = kind.new()
    assert facts([item for octet in raw for item in protocol.receive(bytes([octet]))]) == whole


@pytest.mark.parametrize(
    ("pairs", "is_head"),
    [
        ([("REQUEST_METHOD", "HEAD")], True),
        ([("A", "1"), ("REQUEST_METHOD", "HEAD"), ("B", "2")], True),
        ([("REQUEST_METHOD", "HEADS")], False),
        ([("REQUEST_METHOD", "head")], False),
        ([("REQUEST_METHOD", "GET"), ("HTTP_A", "HEAD")], False),
        ([("HTTP_A", "REQUEST_METHOD"), ("HEAD", "1")], False),
        ([("X_REQUEST_METHOD", "HEAD"), ("REQUEST_METHOD", "GET")], False),
        ([("REQUEST_METHOD", "HEAD"), ("REQUEST_METHOD", "GET")], False),  # the last counts, as in the environ
    ],
)
def test_head_is_known_wherever_it_stands(pairs, is_head):
    """RFC 9110 9.3.2: HEAD is known anywhere in the vars, and by nothing else."""
    assert is_head_request("\0".join(text for pair in pairs for text in pair)) is is_head


@pytest.mark.parametrize("is_live", [False, True])
def test_a_body_over_the_limit(kind, is_live):
    """A body over the limit is refused by the length, in a form readable for a front server."""
    assert kind.new(max_body_bytes=5, is_live=is_live).receive(kind.request(b"hello", "POST"))[0].refusal is None
    protocol = kind.new(max_body_bytes=4, is_live=is_live)
    (refused,) = protocol.receive(kind.request(b"hello", "HEAD")[:-5])
    assert refused.refusal.status == 413 and "--max-body" in str(refused.refusal)
    assert refused.form is kind.form and refused.is_head and refused.is_for_loop and not refused.is_silent
    assert "PATH_INFO\0/p" in refused.vars and not refused.keep_alive
    assert protocol.receive(b"hello") == [] and not protocol.is_mid_message and not protocol.is_mid_body


def test_where_it_stands(kind):
    """Time-outs hang on two questions: has a request begun, is the head complete."""
    raw = kind.request(b"hello", "POST")
    protocol = kind.new()
    assert protocol.is_single and not protocol.is_continue_due
    stands = []
    for piece in (raw[:1], raw[1:-6], raw[-6:-5], raw[-5:-1], raw[-1:]):
        protocol.receive(piece)
        stands.append((protocol.is_mid_message, protocol.is_mid_body))
    assert stands == [(True, False), (True, False), (True, True), (True, True), (False, False)]


def test_a_live_body(kind):
    """--body stream: the exchange is there with the head, and the body grows."""
    raw = kind.request(b"hello", "POST")
    protocol = kind.new(is_live=True)
    (exchange,) = protocol.receive(raw[:-3])
    assert protocol.live_body is exchange.body and exchange.body.length == 2
    assert protocol.is_mid_body and not exchange.body.is_complete
    assert protocol.receive(b"llo!") == []
    assert exchange.body.is_complete and protocol.live_body is None and not protocol.is_mid_message
    assert body_of(exchange) == b"hello"
    (at_once,) = kind.new(is_live=True).receive(raw)
    assert at_once.body.is_complete and body_of(at_once) == b"hello"


def test_a_live_body_cut_off(kind):
    """The end of a front server within a live body is told to the reader."""
    protocol = kind.new(is_live=True)
    (exchange,) = protocol.receive(kind.request(b"hello", "POST")[:-1])
    protocol.receive_eof()
    with pytest.raises(ClientDisconnected, match="before the end of the request body"):
        exchange.body.read()


def test_a_spooled_body_that_ends_early_is_closed(kind, files):
    """The file of a body never to be complete is closed at once, not by the collector."""
    protocol = kind.new(body_memory_bytes=2)
    assert protocol.receive(kind.request(b"hello", "POST")[:-1]) == []
    assert not files[0].closed and protocol.live_body is None
    for _ in range(2):  # a half-closed connection is lost later
        protocol.receive_eof()
    assert files[0].closed


@pytest.mark.parametrize(("limit", "taken", "status"), [(4, 0, 413), (5, 1, 503)])
def test_a_body_without_room_on_the_disk(kind, limit, taken, status):
    """The body is refused at the head; later octets are dropped."""
    space = BodySpace(Budget(limit), Budget(9), "aserve-body-")
    space.octets.reserve(taken)
    protocol = kind.new(body_memory_bytes=2, body_space=space)
    (refused,) = protocol.receive(kind.request(b"hello", "POST")[:-3])
    assert refused.refusal.status == status and space.octets.count == taken
    assert protocol.receive(b"llo") == []


def test_the_room_is_gone_as_a_body_comes(kind):
    """Somebody else has taken the room since the head came."""
    space = BodySpace(Budget(5), Budget(9), "aserve-body-")
    protocol = kind.new(body_memory_bytes=2, body_space=space)
    assert protocol.receive(kind.request(b"hello", "POST")[:-4]) == []
    space.octets.reserve(1)
    (refused,) = protocol.receive(b"ello")
    assert refused.refusal.status == 503 and space.octets.count == 1


@pytest.mark.parametrize("end", [0, 1, -1, None])
def test_the_end_without_a_body(kind, end):
    """The end completes nothing, and is no error by itself."""
    protocol = kind.new()
    protocol.receive(kind.request()[:end])
    protocol.receive_eof()
    assert protocol.receive(b"") == []


def test_connections_share_nothing_but_scratch(kind):
    """Two connections of one factory, fed in turns, do not disturb each other."""
    factory = PROTOCOLS[kind.name, "c"](Limits())
    one, two = factory(), factory()
    raw = kind.request(b"hello", "POST")
    one.receive(raw[:-3])
    (other,) = two.receive(kind.request(b"world", "POST"))
    assert body_of(one.receive(raw[-3:])[0]) == b"hello" and body_of(other) == b"world"


@pytest.mark.skipif(not hasattr(gc, "freeze"), reason="PyPy collects everything by tracing")
def test_a_connection_is_no_cycle(kind, no_collector):
    """A connection for each request must not be a piece of garbage for each request."""

    class Watched(type(kind.new())):
        __slots__ = ("__weakref__",)

    protocol = Watched(PROTOCOLS[kind.name, "c"](Limits()).args[0])
    protocol.receive(kind.request(b"hello", "POST"))
    watch = weakref.ref(protocol)
    del protocol
    assert watch() is None


def test_the_head_is_for_the_protocol():
    """The form of a head is not known here."""
    with pytest.raises(NotImplementedError):
        OneRequest(Limits(), UWSGI).receive(b"x")
