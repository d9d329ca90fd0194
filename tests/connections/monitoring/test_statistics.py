"""A server's own numbers: each is brought about by clients and apps."""

import pathlib
import threading
import time

import pytest

from aserve import Server, Statistics
from aserve.core.page import Field, new_page

NOTHING = Statistics(*[0] * len(Statistics._fields))._replace(is_draining=False, told_unready="")
DOCS = pathlib.Path(__file__).parents[3] / "docs"


def some(statistics: Statistics, *names: str) -> tuple:
    """Return some of the numbers."""
    return tuple(getattr(statistics, name) for name in names)


@pytest.fixture
def gated():
    """An app that waits for its gate: gated.app, gated.gate, gated.entered (a semaphore)."""

    class Gated:
        gate, entered = threading.Event(), threading.Semaphore(0)

        def app(self, environ, start_response):
            body = environ["wsgi.input"].read()
            self.entered.release()
            assert self.gate.wait(30)
            start_response("200 OK", [("Content-Length", str(len(body)))])
            return [body]

    gated = Gated()
    yield gated
    gated.gate.set()


async def test_before_the_start_and_after_the_end():
    """A server that does not serve has nothing; a stopped server drains."""
    server = Server(lambda *_: [], bind="127.0.0.1:0", threads=2)
    assert server.statistics() == NOTHING
    async with server:
        assert not server.is_draining and server.statistics().workers <= 2
    assert server.is_draining and server.statistics().is_draining
    assert server.statistics().connections_open == 0


def test_its_page_has_whole_numbers():
    """The shared page has seconds in milliseconds, a mean in thousandths, and the time and number of its writes."""
    page, before = new_page(), time.monotonic_ns()
    now = NOTHING._replace(
        requests=1, connections_open=2, connections_limit=3, connections_running=4, requests_waiting=5, workers=9, workers_idle=3,
        workers_busy_lately=7.2504, requests_stalled_seconds=8, requests_waiting_seconds=9.0105, connections_websocket=10, workers_stuck=11,
    )  # fmt: skip
    now.write_to(page)
    now.write_to(page)
    written = {field: page[field] for field in Field if page[field]}
    assert before <= written.pop(Field.TICKED_AT) <= time.monotonic_ns()
    assert written == {
        Field.TICK: 2, Field.REQUESTS: 1, Field.CONNECTIONS: 2, Field.CONNECTIONS_LIMIT: 3, Field.IN_FLIGHT: 4, Field.WAITING: 5,
        Field.THREADS_BUSY: 6, Field.THREADS_BUSY_LATELY: 7250, Field.STALLED_SECONDS: 8, Field.WAITING_MILLISECONDS: 9010,
        Field.WEBSOCKETS: 10, Field.THREADS_STUCK: 11,
    }  # fmt: skip


@pytest.mark.any_parser
@pytest.mark.also_inline
def test_connections_are_counted_by_state(server, raw_client, wait_until, way):
    """Idle, new or kept, connections are counted, and slow senders."""
    names = ("connections_open", "connections_idle", "connections_receiving", "connections_running")
    assert some(server.statistics(), *names) == (0, 0, 0, 0)
    kept, slow = raw_client(server), raw_client(server)
    kept.fetch()
    wait_until(lambda: some(server.statistics(), *names) == (2, 2, 0, 0))
    assert server.statistics().connections_in_lane == (2 if way.lane == "auto" else 0)
    slow.send(b"GET / HTTP/1.1\r\nHo")
    wait_until(lambda: some(server.statistics(), *names) == (2, 1, 1, 0))
    slow.send(b"st: a\r\nConnection: close\r\n\r\n")
    assert slow.recv_response().status == 200
    slow.close()
    wait_until(lambda: some(server.statistics(), *names) == (1, 1, 0, 0))


@pytest.mark.any_parser
@pytest.mark.also_inline
def test_a_body_that_is_received(start_server, raw_client, wait_until, gated):
    """The received octets of a body are counted, and its file."""
    gated.gate.set()
    server = start_server(gated.app, body_memory_bytes=1000)
    names = ("connections_receiving", "bodies_incomplete", "bodies_incomplete_bytes", "bodies_spooled")
    client, other = raw_client(server), raw_client(server)
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3000\r\n\r\n" + bytes(900))
    wait_until(lambda: some(server.statistics(), *names) == (1, 1, 900, 0))
    other.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n" + bytes(100))
    wait_until(lambda: some(server.statistics(), *names) == (2, 2, 1000, 0))
    client.send(bytes(1100))
    wait_until(lambda: some(server.statistics(), *names) == (2, 2, 2100, 1))
    client.send(bytes(1000))
    other.send(bytes(400))
    assert len(client.recv_response().body) == 3000 and len(other.recv_response().body) == 500
    wait_until(lambda: some(server.statistics(), *names) == (0, 0, 0, 0))


@pytest.mark.any_parser
def test_requests_and_workers(start_server, raw_client, wait_until, gated):
    """Running and unbegun requests are counted; a spooled body, while the app has it."""
    server = start_server(gated.app, threads=2, body_memory_bytes=1000)
    server.hold_clock()  # a second that passes before the look would count
    names = ("connections_running", "requests_waiting", "workers", "workers_idle")
    clients = [raw_client(server) for _ in range(5)]
    for client in clients:
        client.request(method="POST", body=bytes(200_000))
    assert gated.entered.acquire(timeout=30) and gated.entered.acquire(timeout=30)
    wait_until(lambda: some(server.statistics(), *names) == (5, 3, 2, 0))
    assert server.statistics().bodies_spooled == 5
    server.pass_seconds(5)
    assert server.statistics().requests_stalled_seconds == 4
    gated.gate.set()
    for client in clients:
        client.recv_response()
    wait_until(lambda: some(server.statistics(), *names) == (0, 0, 2, 2))
    server.pass_seconds(1)
    assert some(server.statistics(), "bodies_spooled", "requests_stalled_seconds") == (0, 0)


@pytest.mark.any_parser
@pytest.mark.also_inline
def test_large_responses_in_memory_are_counted(start_server, raw_client, wait_until):
    size = 5_000_000

    def app(environ, start_response):
        start_response("200 OK", [("Content-Length", str(size))])
        return [bytes(size)]

    server = start_server(app)
    client = raw_client(server, receive_buffer_bytes=4096)
    client.request()
    wait_until(lambda: 0 < server.statistics().responses_memory_bytes <= size)
    assert some(server.statistics(), "connections_running", "connections_idle") == (1, 0)
    assert len(client.recv_response().body) == size
    wait_until(lambda: some(server.statistics(), "responses_memory_bytes", "connections_idle") == (0, 1))


@pytest.mark.any_parser
def test_a_response_that_outruns_its_reader(start_server, raw_client, wait_until):
    """The response is in a file, and its worker has yielded its slot until the end."""
    gate = threading.Event()

    def app(environ, start_response):
        start_response("200 OK", [])
        for _ in range(100):
            yield bytes(100_000)
        assert gate.wait(30)

    names = ("responses_spooled", "workers_compensated")
    server = start_server(app, threads=2)
    client = raw_client(server, receive_buffer_bytes=4096)
    client.request()
    wait_until(lambda: some(server.statistics(), *names) == (1, 1))
    gate.set()
    assert len(client.recv_response().body) == 10_000_000
    wait_until(lambda: some(server.statistics(), *names) == (0, 0))


@pytest.mark.any_parser
def test_a_stuck_worker(start_server, raw_client, wait_until):
    """A written-off worker is counted as long as it hangs, and since the start."""
    gate = threading.Event()

    def app(environ, start_response):
        gate.wait(20)
        start_response("204 No Content", [])
        return []

    names = ("workers_stuck", "workers_written_off")
    server = start_server(app, threads=2, request_seconds=0.1)
    client = raw_client(server)
    client.request()
    server.pass_seconds_until(lambda: some(server.statistics(), *names) == (1, 1))
    assert client.recv_response().status == 504
    gate.set()
    wait_until(lambda: some(server.statistics(), *names) == (0, 1))


@pytest.mark.any_parser
@pytest.mark.plain
def test_the_end_of_a_connection(start_server, raw_client, wait_until):
    """A connection past its last response is ending, while its client still sends."""
    server = start_server(lambda environ, start_response: start_response("200 OK", []) and [], is_checked=False)
    client = raw_client(server)
    client.send(b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n")
    assert client.recv_response().status == 400
    wait_until(lambda: server.statistics().connections_ending == 1)


@pytest.mark.any_parser
def test_a_handshake_is_counted(start_server, raw_client, wait_until, tls_settings):
    """A client of an https bind without a word is in its handshake."""
    server = start_server(lambda *_: [], is_checked=False, **tls_settings)
    client = raw_client(server.address)
    wait_until(lambda: server.statistics().connections_in_handshake == 1)
    assert server.statistics().connections_open == 1
    client.close()
    wait_until(lambda: server.statistics().connections_open == 0)


@pytest.mark.any_parser
def test_a_drain_is_told_from_its_beginning(start_server, raw_client, wait_until, gated):
    server = start_server(gated.app)
    client = raw_client(server)
    client.request()
    assert gated.entered.acquire(timeout=30)
    assert not server.statistics().is_draining
    server.begin_drain()
    assert server.statistics().is_draining and server.statistics().connections_running == 1
    gated.gate.set()
    assert client.recv_response().status == 200


@pytest.mark.checkout
def test_each_number_is_documented():
    """docs/embedding.md explains each number."""
    text = (DOCS / "embedding.md").read_text()
    assert [name for name in Statistics._fields if f"`{name}`" not in text] == []


def test_ongoing_requests_come_oldest_first(start_server, raw_client, gated, wait_until, tmp_path):
    server = start_server(gated.app, threads=1, metrics=f"unix:{tmp_path}/m")
    assert server.ongoing(10) == []
    first, second = raw_client(server), raw_client(server)
    first.send(b"GET /first?a=1 HTTP/1.1\r\nHost: a\r\n\r\n")
    assert gated.entered.acquire(timeout=30)
    second.send(b"GET /second HTTP/1.1\r\nHost: a\r\n\r\n")
    wait_until(lambda: len(server.ongoing(10)) == 2)
    (older, one), (newer, other) = server.ongoing(10)
    assert (one, other) == ("GET /first?...", "GET /second") and older >= newer > 0
    assert [text for _, text in server.ongoing(1)] == [one]
    gated.gate.set()
    assert first.recv_response().status == second.recv_response().status == 200
    wait_until(lambda: server.ongoing(10) == [])


def test_ongoing_without_times(start_server, raw_client, gated):
    """A request whose time nobody takes is not told."""
    server = start_server(gated.app)
    client = raw_client(server)
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert gated.entered.acquire(timeout=30)
    assert server.ongoing(10) == []
    gated.gate.set()
    assert client.recv_response().status == 200


@pytest.mark.any_parser
def test_how_long_threads_are_busy(start_server, raw_client, gated, wait_until, tmp_path):
    """A busy thread has a request under way and its begin; a waiting thread has none."""
    server = start_server(gated.app, threads=1, metrics=f"unix:{tmp_path}/m")
    assert server.server._inner.thread_seconds(time.monotonic()) == 0
    clients = [raw_client(server) for _ in range(2)]
    for client in clients:
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert gated.entered.acquire(timeout=30)
    wait_until(lambda: some(server.statistics(), "requests_waiting", "workers_busy") == (1, 1))
    now = time.monotonic()
    assert server.server._inner.thread_seconds(now + 100) - server.server._inner.thread_seconds(now) == pytest.approx(
        100
    )
    gated.gate.set()
    for client in clients:
        client.recv_response()
    wait_until(lambda: server.server._inner.thread_seconds(now) == 0)
