"""A load of full handshakes: each request on a TLS connection of its own, which the server closes.

Use:      python tls_load.py PORT CLIENTS SECONDS FOLDER    FOLDER holds `request` and `end`, the octets of clients.Call
Prints:   a line as close_load does: good, connect, reset, wrong and timeout, seconds, p50_us, p99_us
Rules:    no session is resumed. A reply counts as good if its status is 200, and it ends as it must when the server closes.
Not here: whom it loads, and what is done with the figures (clients.py).
"""

from __future__ import annotations

import collections
import pathlib
import re
import socket
import ssl
import sys
import threading
import time

import tls

PATIENCE_SECONDS = 20.0  # Guess: for one request on a busy machine
GOOD_STATUS = re.compile(rb"HTTP/1\.[01] 200 ")


def ask(port: int, context: ssl.SSLContext, request: bytes) -> bytes:
    """
    Send a request on a connection of its own; return all that comes.

    Raises:
        OSError: it ended otherwise than by a reply and a close.
    """
    plain = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)
    with plain, context.wrap_socket(plain) as connection:
        connection.sendall(request)
        reply = b""
        while data := connection.recv(65536):
            reply += data
    return reply


def kind_of(reply: bytes, end: bytes) -> str:
    """Return what a reply counts as."""
    return "good" if GOOD_STATUS.match(reply) and reply.endswith(end) else "wrong"


def kind_of_fault(fault: OSError) -> str:
    """Return what an exception counts as."""
    if isinstance(fault, socket.timeout):
        return "timeout"
    return "connect" if isinstance(fault, ConnectionRefusedError) else "reset"


def load(port: int, count: int, seconds: float, request: bytes, end: bytes) -> str:
    """Load a server with so many clients for this long, each to the end of its last request; return the line of figures."""
    counts: collections.Counter[str] = collections.Counter()
    times: list[float] = []
    lock = threading.Lock()
    context = tls.client_context()
    began = time.perf_counter()

    def run() -> None:
        is_over = False
        while not is_over:  # at least one request each
            started = time.perf_counter()
            try:
                kind = kind_of(ask(port, context, request), end)
            except OSError as fault:
                kind = kind_of_fault(fault)
            now = time.perf_counter()
            is_over = now - began >= seconds
            with lock:
                counts[kind] += 1
                times.extend([now - started] * (kind == "good"))

    clients = [threading.Thread(target=run) for _ in range(count)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    took = time.perf_counter() - began
    times.sort()
    p50, p99 = (times[int(len(times) * share)] * 1e6 if times else 0 for share in (0.5, 0.99))
    kinds = " ".join(f"{kind} {counts[kind]}" for kind in ("good", "connect", "reset", "wrong", "timeout"))
    return f"{kinds} seconds {took:.6f} p50_us {p50:.0f} p99_us {p99:.0f}"


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[4])
    octets = {name: (folder / name).read_bytes() for name in ("request", "end")}
    print(load(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), **octets))
