"""How many clients wait in the kernel, by real sockets."""

import socket
import sys

import pytest

from aserve.connections import listen_queue as module
from aserve.connections.listen_queue import listen_queue

needs_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel does not tell")


@needs_linux
def test_clients_that_wait():
    """Connected, not accepted clients are counted; the limit is the backlog's."""
    with socket.create_server(("127.0.0.1", 0), backlog=7) as listener:
        assert listen_queue(listener) == (0, 7)
        clients = [socket.create_connection(listener.getsockname()) for _ in range(3)]
        assert listen_queue(listener) == (3, 7)
        for _ in clients:
            listener.accept()[0].close()
        assert listen_queue(listener) == (0, 7)
        for client in clients:
            client.close()


def test_what_is_not_known(monkeypatch, tmp_path):
    """The queue of a unix socket, of a deaf or closed one, and on other systems is unknown."""
    with socket.socket(socket.AF_UNIX) as unix:
        assert listen_queue(unix) is None
    with socket.socket() as sock:
        assert listen_queue(sock) is None
    assert listen_queue(sock) is None
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setattr(module.sys, "platform", "darwin")
        assert listen_queue(listener) is None
