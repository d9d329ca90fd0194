"""Children that the app forks where C serves: whatever forks, and whenever, they serve nothing."""

from __future__ import annotations

import signal
import socket

import pytest
from harness.waiting import PATIENCE_SECONDS

pytest.importorskip("aserve._native", reason="aserve._native is not built here")
pytestmark = [pytest.mark.any_parser, pytest.mark.one_way]

FORKING_APP = """
import contextvars, os
calls = os.open("calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
server = os.getpid()
last = contextvars.ContextVar("last")

class Forking:
    def __del__(self):
        if os.getpid() == server:
            child = os.fork()
            if child:
                os.waitpid(child, 0)

def app(environ, start_response):
    path = environ["PATH_INFO"]
    os.write(calls, f"{path} {'server' if os.getpid() == server else 'child'}\\n".encode())
    start_response("200 OK", [("Content-Type", "text/plain")])
    if path == "/context":
        last.set(Forking())
    if path == "/environ":
        environ["app.last"] = Forking()
    return [b"served"]
"""


@pytest.mark.provokes("which the app forked, ends")
@pytest.mark.parametrize("path", ["context", "environ"])
def test_a_child_of_a_finalizer(start_process, tmp_path, path):
    """It is born behind a response, in the middle of a batch: the next request of that is its parent's."""
    (tmp_path / "forking_app.py").write_text(FORKING_APP)
    server = start_process(f"{tmp_path}/forking_app.py:app", "--threads", "1", "--native", "auto")
    clients = [socket.create_connection(server.address, timeout=PATIENCE_SECONDS) for _ in range(3)]
    for client in clients:
        exchange(client, "/first")
    server.process.send_signal(signal.SIGSTOP)
    for client, target in zip(clients, (f"/{path}", "/second", "/third")):
        send(client, target)
    server.process.send_signal(signal.SIGCONT)
    for client in clients:
        assert receive(client).endswith(b"served")
        client.close()
    said = (tmp_path / "calls").read_text().split("\n")[3:-1]
    assert sorted(said) == sorted([f"/{path} server", "/second server", "/third server"])


def send(client, target):
    client.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())


def receive(client):
    octets = b""
    while not octets.endswith(b"served"):
        piece = client.recv(1 << 16)
        assert piece, octets
        octets += piece
    return octets


def exchange(client, target):
    send(client, target)
    receive(client)
