"""A lane without a server, for the tests of the C alone: the test's own listeners, connections and memory.

So events that race in a server happen in the test's order.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Any, NamedTuple

from aserve._cparsers import ffi, lib

from . import sidecars

PATIENCE_SECONDS = 20.0
PATIENCE_MS = 5000
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
LAST_GET = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
PROTOCOLS = {"http": lib.LANE_HTTP, "uwsgi": lib.LANE_UWSGI, "scgi": lib.LANE_SCGI}
FREE, IDLE, BUSY, MORE, BODY = lib.LANE_FREE, lib.LANE_IDLE, lib.LANE_BUSY, lib.LANE_MORE, lib.LANE_BODY
LEFT, WHOLE, BEGUN, PART, DONE, GONE, SHAKEN = range(7)


class Arrival(NamedTuple):
    """One arrival of a poll."""

    fd: int
    consumed: int
    input: bytes
    vars: dict[str, str]
    peer: str
    content_length: int
    listener: int
    kind: int
    is_first: bool
    modifier1: int
    flags: int


class Lane:
    """A lane and its memory."""

    def __init__(self, *binds: str, **settings: int) -> None:
        self.clients: list[socket.socket] = []
        self.listeners = [new_listener(bind.partition(" ")[2] or "tcp") for bind in binds]
        caps = {
            "conns_cap": 1024, "input_cap": 1 << 20, "read_cap": 1 << 17, "vars_cap": 1 << 19, "arrivals_cap": 64,
            "max_head_len": 65536, "max_line_len": 8190, "max_fields": 100, "max_vars": 164, "max_body_len": 1 << 20,
            "stall_us": 0, "max_conns": 1 << 30, **settings,
        }  # fmt: skip
        set = self.set = ffi.new("lane *", caps)
        self.owned = {
            "listeners": ffi.new("lane_listener[]", len(self.listeners)),
            "conns": ffi.new("lane_conn[]", set.conns_cap),
            "known": ffi.new("known_section[]", lib.LANE_KNOWN),
            "input": ffi.new("char[]", set.input_cap),
            "vars": ffi.new("char[]", set.vars_cap),
            "arrivals": ffi.new("lane_arrival[]", set.arrivals_cap),
        }
        for name, memory in self.owned.items():
            setattr(set, name, memory)
        set.nlisteners = len(self.listeners)
        for number, (bind, listener) in enumerate(zip(binds, self.listeners)):
            set.listeners[number].fd = listener.fileno()
            set.listeners[number].protocol = PROTOCOLS[bind.partition(" ")[0]]
            set.listeners[number].is_tcp = listener.family != socket.AF_UNIX
        assert lib.lane_open(set) == 0

    def connect(self, octets: bytes = b"", number: int = 0, client: socket.socket | None = None) -> socket.socket:
        """A client connects, and sends something."""
        listener = self.listeners[number]
        client = client or socket.socket(listener.family)
        client.settimeout(PATIENCE_SECONDS)
        client.connect(listener.getsockname())
        if listener.family != socket.AF_UNIX:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(octets)
        self.clients.append(client)
        return client

    def poll(self, milliseconds: int = PATIENCE_MS) -> list[Arrival]:
        count = lib.lane_poll(self.set, milliseconds)
        return [self._read(self.set.arrivals[number]) for number in range(count)]

    def poll_one(self) -> Arrival:
        """Return the one arrival of the next polls."""
        return self.poll_all(1)[0]

    def poll_all(self, count: int) -> list[Arrival]:
        """Poll until `count` requests have arrived."""
        found: list[Arrival] = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(found) < count and time.monotonic() < deadline:
            found += self.poll()
        assert len(found) == count, found
        return found

    def accept(self, client: socket.socket | None = None) -> int:
        """Return the descriptor of an IDLE connection with a past request."""
        client = client or self.connect()
        client.sendall(GET)
        arrival = self.poll_one()
        assert self.reply(arrival.fd) == 2 and client.recv(9) == b"ok"
        assert self.state(arrival.fd) == IDLE
        return arrival.fd

    def reply(self, fd: int, octets: bytes = b"ok", keep: bool = True, body: bytes = b"") -> int:
        return lib.lane_reply(self.set, fd, octets, len(octets), body, len(body), keep)

    def release_idle(self, cap: int = 99) -> list[tuple[int, int, int]]:
        """Return the left connections: descriptor, listener, whether used."""
        out = ffi.new("lane_released[]", cap)
        count = lib.lane_release_idle(self.set, out, cap)
        return [(each.fd, each.listener, each.is_used) for each in out[0:count]]

    def state(self, fd: int) -> int:
        return self.set.conns[fd].state

    def close(self) -> None:
        busy = [fd for fd in range(self.set.top) if self.state(fd) in (BUSY, MORE)]  # the caller's
        lib.lane_close(self.set)
        for sock in (*self.clients, *self.listeners):
            sock.close()
        for fd in busy:
            os.close(fd)

    def _read(self, arrival: Any) -> Arrival:
        vars, input = self.owned["vars"], self.owned["input"]
        block = ffi.buffer(vars, self.set.vars_len)[:]
        parts = block[arrival.vars_off : arrival.vars_off + arrival.vars_len].decode("latin-1").split("\0")
        return Arrival(
            arrival.fd, arrival.consumed,
            ffi.buffer(input)[arrival.input_off : arrival.input_off + arrival.input_len],
            dict(zip(parts[::2], parts[1::2])),
            block[arrival.peer_off : arrival.peer_off + arrival.peer_len].decode("ascii"),
            arrival.content_length, arrival.listener, arrival.kind, bool(arrival.is_first),
            arrival.modifier1, arrival.flags,
        )  # fmt: skip


def new_listener(kind: str) -> socket.socket:
    """Return a listening socket: tcp, tcp6, unix, or mapped: IPv4 on a socket of IPv6."""
    family = {"tcp": socket.AF_INET, "unix": socket.AF_UNIX}.get(kind, socket.AF_INET6)
    listener = socket.socket(family)
    # An autobound abstract name: nothing to remove.
    if kind == "mapped":
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.bind({"tcp": ("127.0.0.1", 0), "tcp6": ("::1", 0), "mapped": ("::ffff:127.0.0.1", 0), "unix": ""}[kind])
    listener.listen(256)
    listener.setblocking(False)
    return listener


def is_at_end(client: socket.socket) -> bool:
    """Whether the server's end has come, with or without a reset."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


# Requests


def post(length: int, *fields: str) -> bytes:
    """Return the head of a request with a body."""
    lines = ["POST / HTTP/1.1", "Host: a", f"Content-Length: {length}", *fields, "", ""]
    return "\r\n".join(lines).encode("ascii")


def uwsgi(modifier1: int = 0, body: bytes = b"") -> bytes:
    return sidecars.uwsgi({"REQUEST_METHOD": "POST", "CONTENT_LENGTH": str(len(body))}, body, modifier1)


def scgi(body: bytes = b"") -> bytes:
    return sidecars.scgi({"REQUEST_METHOD": "POST"}, body)
