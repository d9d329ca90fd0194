"""Requests of every kind leave no reference behind, whether C serves them to the end or Python goes on."""

import gc
import logging
import socket
import struct
import sys

import pytest
from harness import apps
from harness.waiting import PATIENCE_SECONDS

SITE = {
    "hello": apps.hello,
    "several_chunks": apps.several_chunks,
    "echo": apps.echo,
    "tuple_of_chunks": apps.tuple_of_chunks,
    "lazy_generator": apps.lazy_generator,
    "written": apps.written,
    "raises": apps.raises,
    "started_twice": apps.started_twice,
}
pytestmark = [pytest.mark.any_parser, pytest.mark.one_way]

LINGER = struct.pack("ii", 1, 0)  # close() resets the connection


class Site:
    """The app of the path; each app is the same object to all requests."""

    def __call__(self, environ, start_response):
        return SITE[environ["PATH_INFO"][1:]](environ, start_response)


def ask(address, name):
    """Ask by three connections at once; the last does not wait for an answer."""
    body = b"Content-Length: 3\r\n\r\nabc" if name == "echo" else b"\r\n"
    method = b"POST" if name == "echo" else b"GET"
    clients = [socket.create_connection(address, timeout=PATIENCE_SECONDS) for _ in range(3)]
    for client in clients:
        client.sendall(b"%b /%b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n%b" % (method, name.encode(), body))
    clients[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
    clients.pop(0).close()
    for client in clients:
        while client.recv(1 << 16):
            pass
        client.close()


@pytest.fixture
def no_records():
    """No record of the log keeps an exception, whose frames keep the app."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", SITE)
def test_nothing_is_left(native, start_server, wait_until, no_records, name):
    """As many references to the common objects of all requests, before and after."""
    app = Site()
    server = start_server(app, is_checked=False, native="auto", threads=1)
    shared = [
        app,
        server.server._listening.lane.native.engine,
        server.server._listening.lane.native,
        server.server._listening.lane.services[0].base_environ,
    ]

    def references():
        gc.collect()
        return [sys.getrefcount(each) for each in shared]

    def serve(times):
        for _ in range(times):
            ask(server.address, name)
        wait_until(
            lambda: server.call(
                lambda: server.server._listening.lane.count == 0 and server.server._threads.executor.is_quiet
            )
        )

    serve(3)
    before = references()
    serve(20)
    wait_until(lambda: references() == before)
