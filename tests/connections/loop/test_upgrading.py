"""Which requests may become a WebSocket, and the requests beside them."""

import asyncio
import mmap

import pytest
from harness import apps
from harness.websockets import ASKING, Switching, begin
from harness.wires import GET

from aserve import Server
from aserve.connections.in_flight import TABLE_BYTES, read_in_flight
from aserve.server.arguments import Processes

ASKING_HEAD = "\r\n".join(["GET / HTTP/1.1", "Host: a", *ASKING, "", ""]).encode()


@pytest.mark.parametrize(
    "request_line_and_fields",
    [
        "GET / HTTP/1.0\r\nConnection: upgrade, keep-alive\r\nUpgrade: websocket",
        "POST / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket",
        "HEAD / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket",
        "GET / HTTP/1.1\r\nUpgrade: websocket",
        "GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: h2c",
    ],
)
def test_other_requests_are_offered_no_websocket(start_server, raw_client, request_line_and_fields):
    app = Switching()
    client = raw_client(start_server(app, is_checked=False))
    for _ in range(2):
        client.send(f"{request_line_and_fields}\r\nHost: a\r\n\r\n".encode())
        assert client.recv_response(is_head=request_line_and_fields.startswith("HEAD")).status == 200
    assert not any("werkzeug.socket" in environ for environ in app.environs)


@pytest.mark.any_parser
def test_pipelined_behind_it(start_server, raw_client):
    """If the app answers over HTTP, octets behind the request are the next request."""
    app = Switching()
    client = raw_client(start_server(app, is_checked=False))
    asking = "\r\n".join(["GET /plain HTTP/1.1", "Host: a", *ASKING, "", ""]).encode()
    client.send(asking * 2 + b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" + asking)
    assert [client.recv_response().body for _ in range(4)] == [b"hello\n"] * 4
    begin(client)
    client.send(b"abc")
    assert client.recv_exactly(3) == b"abc"


def test_octets_behind_one_that_waits(new):
    """While a request for a WebSocket waits, no more is read: nothing limits the octets behind it."""
    _, connection, transport = new()
    connection.data_received(GET)
    connection.data_received(ASKING_HEAD + b"early")
    assert transport.calls == ["pause_reading"]


@pytest.mark.any_parser
def test_a_health_check(start_server, raw_client):
    """A health check is answered without the app, whatever it asks for."""
    server = start_server(Switching(), is_checked=False, healthcheck_path="/-/health")
    client = raw_client(server)
    assert client.fetch("/-/health/live", *ASKING).status == 200
    assert server.statistics().requests == 0


@pytest.mark.one_way
def test_a_client_that_has_half_closed(start_server, raw_client):
    """A half-closed client gets the app's octets; the app reads the end."""
    server = start_server(Switching(lambda sock: sock.sendall(b"[" + sock.recv(9) + b"]")), is_checked=False)
    client = raw_client(server)
    client.request("/", *ASKING)
    client.end_sending()
    assert client.recv_head().status == 101 and client.recv_to_end() == b"[]"


@pytest.mark.one_way
def test_requests_are_counted(start_server, raw_client):
    """A WebSocket is counted as a request, and takes no place in the lists of running ones."""
    server = start_server(Switching(), is_checked=False, stats="127.0.0.1:0")
    begin(raw_client(server))
    now = server.statistics()
    assert (now.requests, now.connections_running, now.connections_websocket) == (1, 0, 1)
    assert server.ongoing(10) == []


@pytest.mark.one_way
def test_a_client_that_has_half_closed_before_http(start_server, raw_client):
    """If the app answers over HTTP, the response is the last."""
    client = raw_client(start_server(Switching(), is_checked=False))
    client.request("/plain", *ASKING)
    client.end_sending()
    assert client.recv_to_end().endswith(b"hello\n")


async def test_what_a_worker_is_at():
    """A request for a WebSocket stands in the table of its process as long as it is one."""
    memory = mmap.mmap(-1, TABLE_BYTES)
    seen = []

    def app(environ, start_response):
        seen.append(read_in_flight(memory))
        return apps.hello(environ, start_response)

    async with Server(app, bind="127.0.0.1:0", threads=2, processes=Processes(in_flight=memory)) as server:
        reader, writer = await asyncio.open_connection(*server.addresses[0])
        writer.write(ASKING_HEAD)
        assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200 ")
        writer.close()
    assert [[text for _, text in found] for found in seen] == [["GET /"]] and read_in_flight(memory) == []
