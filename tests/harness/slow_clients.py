"""A worker that answers a client which reads slowly, or not at all; the test moves loop and client."""

import socket
import threading
import time

from .replies import POST


def small_socket_buffer(transport):
    transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)


def numbered(count, first=0):
    """Return pieces of 1000 different octets."""
    return [b"%04d" % number * 250 for number in range(first, first + count)]


def through_transports(harness):
    """Let large bodies go through transports, which can be stuck, as without a descriptor to send them by."""
    harness.service.budgets.watched.limit = 0


def start_stuck(new, app, raw=POST, is_inside=False, **settings):
    """Let a worker answer a client that does not read; return when the worker is done, or waits for good."""
    settings.setdefault("write_buffer_bytes", 2048)
    harness, connection, transport = new(app, **settings)
    harness.service.ends = harness.log
    transport.high, transport.is_stuck = 500, True
    connection.data_received(raw)
    worker = threading.Thread(target=harness.executor.run_job, daemon=True)
    worker.start()
    go_on(
        harness,
        worker,
        lambda: is_inside and connection._outbox._waiter is not None and connection._outbox.is_write_paused,
    )
    return harness, connection, transport, worker


def go_on(harness, worker, is_enough=lambda: False):
    """Turn the loop until the worker is done, or this is enough."""
    deadline = time.monotonic() + 30
    while True:
        is_over = not worker.is_alive() or (is_enough() and not harness.executor.posts)
        harness.executor.flush()
        harness.loop.turn()
        if is_over:
            return
        assert time.monotonic() < deadline, "the worker hangs"


def read_all(harness, transport):
    """The client reads on until nothing more comes."""
    transport.unstick()
    octets = b""
    while True:
        harness.executor.flush()
        harness.loop.turn()
        more = transport.received()
        if not more and not harness.executor.posts and not harness.loop.soon:
            return octets
        octets += more


def read_to_the_end(harness, transport, worker):
    """The client reads until the app is done, and then the rest."""
    octets = b""
    while worker.is_alive():
        octets += read_all(harness, transport)
    return octets + read_all(harness, transport)
