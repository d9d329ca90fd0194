"""Clients whose octets a read does not reach: behind urgent data (TCP), or a passed descriptor (unix sockets)."""

import socket
import struct

import pytest
from harness import apps

GET = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n"
COUNT = 10


@pytest.fixture(params=["tcp", "unix"])
def connect(request, start_server, raw_client, tmp_path):
    """connect() -> a client; connect.server; connect.send(client): two requests with an early end of a read between."""
    bind = "127.0.0.1:0" if request.param == "tcp" else f"unix:{tmp_path / 'socket'}"
    connect.server = start_server(apps.hello, bind=bind, keep_alive_seconds=5, drain_seconds=60)

    def send(client):
        if request.param == "tcp":
            client.sock.send(GET + b"!", socket.MSG_OOB)
        else:
            passed = struct.pack("i", client.sock.fileno())
            client.sock.sendmsg([GET], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)])
        client.send(GET)

    def make():
        return raw_client(connect.server)

    make.send, make.server = send, connect.server
    return make


@pytest.mark.plain
@pytest.mark.also_inline
def test_both_requests_are_answered(connect):
    """Nobody waits for ever for an answer, and the connection goes on."""
    clients = [connect() for _ in range(COUNT)]
    for client in clients:
        client.fetch()
        connect.send(client)
    for client in clients:
        assert client.recv_response().body == client.recv_response().body == b"hello\n"
        assert client.fetch().body == b"hello\n"


@pytest.mark.plain
@pytest.mark.also_inline
def test_they_do_not_idle_for_ever(connect, wait_until):
    """--keep-alive ends such connections, and so does a drain, at once."""
    clients = [connect() for _ in range(COUNT)]
    for client in clients:
        connect.send(client)
        client.recv_response()
        client.recv_response()
        connect.send(client)
        client.recv_response()
        client.recv_response()
    connect.server.wait_until_waiting(COUNT)  # no time passes for a connection still with the app
    connect.server.pass_seconds(7)
    for client in clients:
        assert client.is_closed()
    connect.server.wait_until_idle()
    last = connect()
    connect.send(last)
    connect.server.begin_drain()
    assert last.recv_response().body == b"hello\n"
    last.close()
    wait_until(lambda: connect.server.is_clean is not None)
    assert connect.server.is_clean
