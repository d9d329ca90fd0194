"""HTTP behind nginx, HAProxy and Apache: early answers and cut bodies reach the client."""

import http.client

import pytest
from harness import apps
from harness.combining import long
from harness.front import HTTP_FRONTS, octets, site
from harness.rules import rule

pytestmark = [pytest.mark.checkout, pytest.mark.one_way, pytest.mark.plain, pytest.mark.long_on_pypy]

FRONTS = [next(iter(HTTP_FRONTS)), *map(long, [*HTTP_FRONTS][1:])]


@pytest.fixture(params=FRONTS)
def behind(request, start_server, fronts):
    """Start aserve and a front server: behind(app, **settings) -> the front server."""

    def start(app, **settings):
        address = "%s:%d" % start_server(app, **settings).address
        block, _ = HTTP_FRONTS[request.param]
        return getattr(fronts, request.param)(block.replace("{address}", address))

    return start


@rule(
    "RFC 9112 9.6",
    "a server that closes reads on, lest its last answer be lost",
    "what a client still sends is read and dropped: until 2 s pass without an octet, for 30 s or 64 MiB",
)
@pytest.mark.parametrize("size", [200_000, 20_000_000])
def test_an_early_answer(behind, size):
    """The client sees our 413 for a body over the limit, and no 502, however much is on its way."""
    front = behind(apps.echo, max_body_bytes=100_000)
    for _ in range(3):
        status, _, body = front.fetch("/", "POST", octets(size))
        assert status == 413 and b"--max-body" in body


@pytest.mark.parametrize("size", [200_000, 20_000_000])
def test_a_body_that_nobody_reads(behind, size):
    """--body stream with an app that answers at once: the client sees the answer."""
    front = behind(apps.no_reading, body="stream")
    for _ in range(3):
        status, _, body = front.fetch("/", "POST", octets(size))
        assert (status, body) == (200, b"unread")


@pytest.mark.parametrize("target", ["/cut", "/cut-pieces"])
def test_a_cut_body_is_seen_behind_the_front(behind, target):
    """The client behind the front server sees that an app died within its body."""
    front = behind(site)
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        front.fetch(target)


def test_bodies_and_kept_connections(behind):
    """Bodies in either direction, with and without a length, one after another."""
    front = behind(site)
    connection = front.connect()
    for size in (0, 5, 71_453):
        data = octets(size)
        connection.request("POST", "/echo", body=data)
        assert connection.getresponse().read() == data
        connection.request("POST", "/echo", body=iter([data[:3], data[3:]]) if size else None)
        assert connection.getresponse().read() == data
        for target in (f"/octets?{size}", f"/pieces?{size}"):
            connection.request("GET", target)
            assert connection.getresponse().read() == data
            connection.request("HEAD", target)
            assert connection.getresponse().read() == b""
    connection.close()
