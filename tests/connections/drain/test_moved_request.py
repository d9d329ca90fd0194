"""A request on its way to another process stays the same, and is not parsed a second time."""

import pytest

from aserve.connections.drain.moved_request import may_move, read_request, write_request
from aserve.core.body import BufferedBody, LiveBody
from aserve.core.exchange import HTTP_1_0, SCGI_STATUS_FIELD, UWSGI, Exchange, RpcCall

VARS = "REQUEST_METHOD\0GET\0REQUEST_URI\0/\xe9t\xe9?a=\xff\0HTTP_X\0line\xa0\0"


def new_exchange(**attributes):
    exchange = Exchange(VARS, 2)
    for name, value in attributes.items():
        setattr(exchange, name, value)
    return exchange


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"form": HTTP_1_0, "keep_alive": False, "is_head": True, "arrived_at": 1.25},
        {"form": UWSGI, "is_from_front": True, "is_mounted": True},
        {"form": SCGI_STATUS_FIELD.with_line(b"X: \xff\r\n"), "is_from_front": True},
        {"forwarded": {"HTTP_X_FORWARDED_FOR": "\xe9t\xe9"}, "underscored": {"HTTP_A_B": "1"}},
    ],
)
def test_all_that_parsing_has_found_out(attributes):
    """All parsed parts arrive, octets above ASCII too."""
    exchange = new_exchange(**attributes)
    assert may_move(exchange)
    assert vars(read_request(write_request(exchange))) == {
        **vars(Exchange("")), "is_mounted": False, "forwarded": None, "underscored": None, "arrived_at": 0.0, **vars(exchange),
    }  # fmt: skip


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("octets", [b"", b"a\nb\n{}\xff" * 50_000])
def test_its_body_arrives_whole(octets, is_chunked):
    """A body of any size in memory arrives octet by octet; the app sees whether it was chunked."""
    body = BufferedBody(1 << 20, is_chunked)
    body.feed(octets)
    read = read_request(write_request(new_exchange(body=body))).body
    assert (read.open().read(), read.length, read.is_chunked) == (octets, len(octets), is_chunked)


def test_requests_beyond_memory_stay():
    """Requests that are not the app's, or not whole in memory, stay."""
    spooled = BufferedBody(1, False)
    spooled.feed(b"more than one")
    others = {
        "body": [LiveBody(1, False), spooled],
        "asks_websocket": [True],
        "is_for_loop": [True],
        "is_probe": [True],
        "rpc": [RpcCall(0, [b"f"], "")],
    }
    for name, values in others.items():
        for value in values:
            assert not may_move(new_exchange(**{name: value})), name
    spooled.close()
