"""Many connections in few calls: the lane alone, without a server.

`lane` is a set of listeners, and of connections that the test makes, polls and answers by
itself. So each thing that races in a server happens here in the order that the test gives.
"""

from __future__ import annotations

import os
import resource
import select
import socket
import struct
import sys
import threading
import time
from typing import Any, NamedTuple

import pytest

from aserve._cparsers import ffi, lib

pytestmark = pytest.mark.skipif(not lib.lane_available(), reason="a lane needs Linux")

PATIENCE_SECONDS = 5.0
PATIENCE_MS = 5000
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
LAST_GET = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
PROTOCOLS = {"http": lib.LANE_HTTP, "uwsgi": lib.LANE_UWSGI, "scgi": lib.LANE_SCGI}
FREE, IDLE, BUSY, MORE = lib.LANE_FREE, lib.LANE_IDLE, lib.LANE_BUSY, lib.LANE_MORE
LEFT, WHOLE, BEGUN, PART, DONE, GONE = range(6)


class Arrival(NamedTuple):
    """One of what a poll has brought."""

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
        """Return what one poll brings."""
        count = lib.lane_poll(self.set, milliseconds)
        return [self._read(self.set.arrivals[number]) for number in range(count)]

    def poll_one(self) -> Arrival:
        """Return the one arrival that the next polls bring."""
        return self.poll_all(1)[0]

    def poll_all(self, count: int) -> list[Arrival]:
        """Poll until so many have arrived."""
        found: list[Arrival] = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(found) < count and time.monotonic() < deadline:
            found += self.poll()
        assert len(found) == count, found
        return found

    def accept(self, client: socket.socket | None = None) -> int:
        """Return the descriptor of a connection that has carried a request and is IDLE."""
        client = client or self.connect()
        client.sendall(GET)
        arrival = self.poll_one()
        assert self.reply(arrival.fd) == 2 and client.recv(9) == b"ok"
        assert self.state(arrival.fd) == IDLE
        return arrival.fd

    def reply(self, fd: int, octets: bytes = b"ok", keep: bool = True, body: bytes = b"") -> int:
        return lib.lane_reply(self.set, fd, octets, len(octets), body, len(body), keep)

    def state(self, fd: int) -> int:
        return self.set.conns[fd].state

    def close(self) -> None:
        lib.lane_close(self.set)
        for sock in (*self.clients, *self.listeners):
            sock.close()

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
    """Return a listening socket: tcp, tcp6 or unix."""
    family = {"tcp": socket.AF_INET, "tcp6": socket.AF_INET6, "unix": socket.AF_UNIX}[kind]
    listener = socket.socket(family)
    # An autobound abstract name: nothing to remove.
    listener.bind({"tcp": ("127.0.0.1", 0), "tcp6": ("::1", 0), "unix": ""}[kind])
    listener.listen(256)
    listener.setblocking(False)
    return listener


@pytest.fixture
def new_lane():
    """Make lanes: new_lane("http", "uwsgi unix", arrivals_cap=4)."""
    lanes = []

    def make(*binds: str, **settings: int) -> Lane:
        lanes.append(Lane(*(binds or ("http",)), **settings))
        return lanes[-1]

    yield make
    for lane in lanes:
        lane.close()


@pytest.fixture
def lane(new_lane):
    """A lane with one HTTP listener on TCP."""
    return new_lane()


def is_at_end(client: socket.socket) -> bool:
    """Whether the server's end has come, with or without a reset."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


# What arrives


def test_a_request(lane):
    """A whole request arrives parsed, with its octets, and its client's address the first time."""
    client = lane.connect(b"POST /a?b HTTP/1.1\r\nHost: c\r\nContent-Length: 3\r\n\r\nxyz")
    arrival = lane.poll_one()
    assert arrival.kind == WHOLE and arrival.is_first and arrival.content_length == 3
    assert arrival.input[arrival.consumed :] == b"xyz"
    assert (arrival.vars["PATH_INFO"], arrival.vars["QUERY_STRING"], arrival.vars["HTTP_HOST"]) == ("/a", "b", "c")
    assert arrival.peer == "{}\0{}".format(*client.getsockname())
    assert lane.state(arrival.fd) == BUSY and lane.set.nconns == 1
    assert lane.reply(arrival.fd) == 2 and client.recv(9) == b"ok"
    client.sendall(GET)
    second = lane.poll_one()
    assert second.fd == arrival.fd and not second.is_first and second.peer == ""


@pytest.mark.parametrize(("kind", "host"), [("tcp6", "::1"), ("unix", None)])
def test_addresses(new_lane, kind, host):
    """The client's address as text; nobody has one on a unix socket."""
    try:
        lane = new_lane(f"http {kind}")
    except OSError:
        pytest.skip("there is no IPv6 here")
    client = lane.connect(GET)
    arrival = lane.poll_one()
    assert arrival.peer == (f"{host}\0{client.getsockname()[1]}" if host else "")


def uwsgi(modifier1: int = 0, body: bytes = b"") -> bytes:
    """Return a uwsgi packet and its body."""
    pairs = (b"REQUEST_METHOD", b"POST", b"CONTENT_LENGTH", b"%d" % len(body))
    data = b"".join(struct.pack("<H", len(part)) + part for part in pairs)
    return struct.pack("<BHB", modifier1, len(data), 0) + data + body


def scgi(body: bytes = b"") -> bytes:
    """Return an SCGI request."""
    data = b"CONTENT_LENGTH\0%d\0SCGI\0001\0REQUEST_METHOD\0POST\0" % len(body)
    return b"%d:%b," % (len(data), data) + body


def test_protocols(new_lane):
    """Each listener has its protocol; uwsgi and SCGI carry one request, with whatever behind it."""
    lane = new_lane("http", "uwsgi unix", "scgi unix")
    for number, octets in enumerate((GET, uwsgi(30, b"abc") + b"rest", scgi(b"abc") + b"rest")):
        client = lane.connect(octets, number)
        arrival = lane.poll_one()
        assert arrival.kind == WHOLE and arrival.listener == number
        assert arrival.vars["REQUEST_METHOD"] == ("POST" if number else "GET")
        assert arrival.modifier1 == (30 if number == 1 else 0)
        assert lane.reply(arrival.fd, keep=number == 0) == 2
        assert client.recv(9) == b"ok"
        assert lane.state(arrival.fd) == (FREE if number else IDLE)


@pytest.mark.parametrize(
    "octets",
    [
        GET[:1],
        GET[:-1],
        GET + GET,
        GET + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcd",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n" + b"x" * 9,  # over max_body_len
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551615\r\n\r\n",
    ],
)
@pytest.mark.parametrize("is_second", [False, True])
def test_what_is_more_or_less_than_a_request(new_lane, octets, is_second):
    """It leaves the lane with all that was read; the descriptor is the caller's."""
    lane = new_lane(max_body_len=8)
    client = lane.connect()
    if is_second:
        lane.accept(client)
    client.sendall(octets)
    arrival = lane.poll_one()
    assert arrival.kind == LEFT and arrival.input == octets and lane.state(arrival.fd) == FREE
    assert lib.lane_release(lane.set, arrival.fd) == 0  # it is released already
    client.sendall(b"more")
    assert lane.poll(20) == []  # nobody looks at it any more
    assert lane.set.nconns == 1
    lib.lane_left(lane.set)
    assert lane.set.nconns == 0
    with socket.socket(fileno=arrival.fd) as sock:
        assert sock.recv(9) == b"more"
        assert not sock.get_inheritable()


def post(length: int, *fields: str) -> bytes:
    """Return the head of a request with a body."""
    lines = ["POST / HTTP/1.1", "Host: a", f"Content-Length: {length}", *fields, "", ""]
    return "\r\n".join(lines).encode("ascii")


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_a_read_that_is_full(new_lane, extra):
    """A request that fills the read exactly may have left another behind: it leaves the lane."""
    lane = new_lane(read_cap=256, input_cap=1024)
    head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (200 + extra)
    octets = head + b"x" * (200 + extra)
    octets = octets.replace(b"Host: a", b"Host: " + b"a" * (257 + extra - len(octets)))
    assert len(octets) == 256 + extra
    lane.connect(octets)
    arrival = lane.poll_one()
    assert arrival.kind == (WHOLE, LEFT, BEGUN)[extra + 1] and arrival.input == octets[:256]


def test_descriptors_beyond_the_table(new_lane):
    """A connection whose number has no place in the table is the caller's, unread."""
    with new_listener("tcp") as probe:
        cap = probe.fileno()
    lane = new_lane(conns_cap=cap)  # the listener and the lane's own are below, what is accepted is above
    client = lane.connect(GET)
    arrival = lane.poll_one()
    assert arrival.fd >= cap and arrival.kind == LEFT
    assert (arrival.consumed, arrival.input) == (lib.ASERVE_INCOMPLETE, b"")
    with socket.socket(fileno=arrival.fd) as sock:
        assert sock.recv(99) == GET
    assert lane.set.nconns == 1
    client.close()


# Bodies that come later


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("parts", [[b"", b"abc"], [b"a", b"b", b"c"], [b"ab", b"c"]])
def test_a_body_in_parts(lane, is_first, parts):
    """The head comes with the beginning of its body, then each part; with the last the connection is BUSY."""
    client = lane.connect()
    if not is_first:
        lane.accept(client)
    client.sendall(post(3) + parts[0])
    begun = lane.poll_one()
    assert (begun.kind, begun.is_first) == (BEGUN, is_first) and begun.content_length == 3
    assert begun.input[begun.consumed :] == parts[0]
    for part in parts[1:]:
        assert lane.state(begun.fd) == IDLE
        client.sendall(part)
        arrival = lane.poll_one()
        assert (arrival.fd, arrival.input) == (begun.fd, part)
        assert arrival.kind == (DONE if part is parts[-1] else PART)
    assert lane.reply(begun.fd) == 2 and client.recv(9) == b"ok"
    lane.accept(client)


def test_a_body_larger_than_reads(new_lane):
    """A body of many full reads comes whole, though no edge tells of what a full read has left."""
    lane = new_lane(read_cap=128, input_cap=512)
    body = os.urandom(10_000)
    client = lane.connect(post(len(body)) + body + GET)
    got = b""
    while True:
        arrival = lane.poll_one()
        got += arrival.input[arrival.consumed :] if arrival.kind == BEGUN else arrival.input
        if arrival.kind == DONE:
            break
    assert got == body
    assert lane.reply(arrival.fd) == 2 and client.recv(9) == b"ok"
    assert lane.poll_one().kind == WHOLE  # what came behind the body


@pytest.mark.parametrize("octets", [GET, post(3) + b"a"])
def test_a_client_that_has_gone_before_it_is_accepted(lane, octets):
    """Its request is there but its address is not, without which it would pass for a unix socket's: nobody sees it."""
    client = lane.connect(octets)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    lane.connect(GET)
    assert lane.poll_one().peer.startswith("127.0.0.1\0")
    assert lane.set.nconns == 1


@pytest.mark.parametrize("is_reset", [True, False])
def test_clients_that_leave_within_a_body(lane, is_reset):
    """Whose body will never be complete is gone, and told so."""
    client = lane.connect(post(3) + b"a")
    fd = lane.poll_one().fd
    if is_reset:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    else:
        client.shutdown(socket.SHUT_WR)
    gone = lane.poll_one()
    assert (gone.kind, gone.fd, gone.input) == (GONE, fd, b"")
    assert lane.state(fd) == FREE and lane.set.nconns == 0


@pytest.mark.parametrize("is_second", [True, False])
def test_the_end_comes_with_the_beginning_of_a_body(lane, is_second):
    """No further edge tells of it, and yet it is told."""
    client = lane.connect()
    if is_second:
        lane.accept(client)
    client.sendall(post(3) + b"a")
    client.shutdown(socket.SHUT_WR)
    assert lane.poll_one().kind == BEGUN
    assert lane.poll_one().kind == GONE


def test_bodies_are_not_swept(lane):
    """How long a body may take is the caller's to count, who then takes hold of the connection."""
    client = lane.connect()
    fd = lane.accept(client)
    assert lib.lane_hold(lane.set, fd) == 0  # it waits for a request
    client.sendall(post(3))
    lane.poll_one()
    lane.set.now += 1000
    assert lib.lane_sweep(lane.set, -1, -1) == 0
    client.sendall(b"a")
    assert lane.poll_one().kind == PART
    assert lib.lane_hold(lane.set, fd) == 1 and lane.state(fd) == BUSY
    client.sendall(b"b")
    assert lane.poll(20) == []  # the caller's from here on
    assert lib.lane_hold(lane.set, fd) == 0
    assert lib.lane_release(lane.set, fd) == 1
    with socket.socket(fileno=fd):
        lib.lane_left(lane.set)


def test_the_body_of_a_call(new_lane):
    """A uwsgi RPC packet has no body, whatever its vars say: nobody would read it."""
    lane = new_lane("uwsgi unix")
    packet = bytearray(uwsgi(173, b"abc")[:-3])
    packet[3] = 2  # by path: the data are vars
    lane.connect(bytes(packet))
    arrival = lane.poll_one()
    assert (arrival.kind, arrival.content_length, arrival.modifier1) == (WHOLE, 0, 173)


# Full batches


@pytest.mark.parametrize(
    "settings", [{"arrivals_cap": 4}, {"input_cap": 1024, "read_cap": 512}, {"vars_cap": 4096, "max_head_len": 1024}]
)
@pytest.mark.parametrize("is_kept", [False, True])
def test_more_than_a_batch(new_lane, settings, is_kept):
    """What has no room in a batch comes in the next ones: nobody is lost, none comes twice."""
    lane = new_lane(**settings)
    clients = [lane.connect() for _ in range(70)]
    if is_kept:
        for client in clients:
            lane.accept(client)
    for number, client in enumerate(clients):
        client.sendall(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number)
    arrivals = lane.poll_all(70)
    assert {arrival.vars["PATH_INFO"] for arrival in arrivals} == {f"/{number}" for number in range(70)}
    assert lane.poll(0) == []


def test_heads_of_the_largest_form(new_lane):
    """The vars of a head may be twice as long as itself; beside one of those there is room for the next, or it waits."""
    lane = new_lane(max_head_len=4096, max_line_len=4096, max_fields=4096, vars_cap=2 * 4096 + 600)
    field = b"A:\r\n"
    head = b"GET / HTTP/1.1\r\nHost:a\r\n"
    head += field * ((4096 - len(head) - 2) // len(field)) + b"\r\n"
    clients = [lane.connect(head) for _ in range(3)]
    for arrival in lane.poll_all(3):
        assert arrival.kind == WHOLE and arrival.peer
    assert len(clients) == 3


def test_a_full_batch_does_not_keep_new_connections_out(new_lane):
    """Connections that always have a request ready must not fill every batch."""
    lane = new_lane(arrivals_cap=4)
    busy = {lane.accept(client): client for client in [lane.connect() for _ in range(12)]}
    for client in busy.values():
        client.sendall(GET)
    lane.connect(GET)
    for _ in range(8):
        arrivals = lane.poll()
        for arrival in arrivals:
            if arrival.fd not in busy:
                return
            lane.reply(arrival.fd)
            busy[arrival.fd].sendall(GET)
    pytest.fail("the new connection was not accepted")


def test_new_connections_do_not_keep_busy_ones_out(new_lane):
    """Nor must those who connect and send nothing keep one call busy for ever."""
    lane = new_lane(arrivals_cap=4)
    for _ in range(12):
        lane.connect()
    assert lane.poll() == [] and lane.set.nconns == 4
    assert lane.poll() == [] and lane.set.nconns == 8


# Edges: what comes while a request is with the caller


def test_a_request_behind_a_request(lane):
    """What comes while the first is with the caller is told when that has its reply."""
    client = lane.connect()
    fd = lane.accept(client)
    client.sendall(GET)
    lane.poll_one()
    client.sendall(GET)
    assert lane.poll(20) == [] and lane.state(fd) == MORE
    assert lane.reply(fd) == 2
    assert lane.poll_one().fd == fd


def test_a_request_behind_the_first(lane):
    """The same before the connection is in the epoll set."""
    client = lane.connect(GET)
    fd = lane.poll_one().fd
    client.sendall(GET)
    assert lane.poll(20) == [] and lane.state(fd) == BUSY
    assert lane.reply(fd) == 2
    assert lane.poll_one().fd == fd


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("when", ["with the request", "while it is busy", "while it is idle"])
def test_clients_that_end(lane, is_first, when):
    """A half-closed client has its response; then its connection is closed."""
    client = lane.connect()
    if not is_first:
        lane.accept(client)
    client.sendall(GET)
    if when == "with the request":
        client.shutdown(socket.SHUT_WR)
    fd = lane.poll_one().fd
    if when == "while it is busy":
        client.shutdown(socket.SHUT_WR)
        lane.poll(20)
    assert lane.reply(fd) == 2
    if when == "while it is idle":
        client.shutdown(socket.SHUT_WR)
    assert lane.poll(PATIENCE_MS) == []
    assert lane.state(fd) == FREE and lane.set.nconns == 0
    assert client.recv(9) == b"ok" and is_at_end(client)


@pytest.mark.parametrize("is_busy", [True, False])
def test_clients_that_reset(lane, is_busy):
    """A client that is gone with a reset is forgotten, at the latest by the reply, which counts as sent."""
    client = lane.connect()
    fd = lane.accept(client)
    if is_busy:
        client.sendall(GET)
        lane.poll_one()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    lane.poll(20)
    if is_busy:
        assert lane.state(fd) == MORE and lane.reply(fd) == 2
        lane.poll(0)
    assert lane.state(fd) == FREE and lane.set.nconns == 0


def test_a_client_that_comes_and_goes(lane):
    """One that connects and leaves without a word is forgotten."""
    lane.connect().close()
    assert lane.poll() == [] and lane.set.nconns == 0


def test_a_number_that_is_used_again(lane):
    """Of a new connection with the number of an earlier one everything is new."""
    first, second = lane.connect(), socket.socket()
    fd = lane.accept(first)
    assert lib.lane_sweep(lane.set, -1, -1) == 1
    lane.connect(GET, client=second)
    arrival = lane.poll_one()
    assert arrival.fd == fd and arrival.is_first and arrival.peer.endswith(f"\0{second.getsockname()[1]}")
    assert lane.reply(fd) == 2 and second.recv(9) == b"ok"


def test_an_event_of_an_earlier_connection(lane):
    """A child process keeps the first alive in the epoll set: its events mean nothing to the second."""
    first, second = lane.connect(), socket.socket()
    fd = lane.accept(first)
    with socket.socket(fileno=os.dup(fd)):  # as a child of fork() has it
        assert lib.lane_sweep(lane.set, -1, -1) == 1
        lane.connect(GET, client=second)
        assert lane.poll_one().fd == fd
        first.sendall(GET)
        assert lane.poll(PATIENCE_MS) == [] and lane.state(fd) == MORE
        assert lane.reply(fd) == 2 and second.recv(9) == b"ok"
        first.sendall(GET)
        assert lane.poll(PATIENCE_MS) == [] and lane.state(fd) == IDLE
        lane.accept(second)


# Replies


def test_a_client_that_does_not_read(lane):
    """What the socket has not taken is told; the rest is the caller's, who takes the descriptor with it."""
    client = lane.connect(GET)
    fd = lane.poll_one().fd
    octets = b"x" * (16 << 20)
    took = lane.reply(fd, octets)
    assert 0 < took < len(octets) and lane.state(fd) == BUSY
    assert lane.reply(fd, octets) == 0
    assert lib.lane_release(lane.set, fd) == 1
    with socket.socket(fileno=fd):
        lib.lane_left(lane.set)
    assert len(b"".join(iter(lambda: client.recv(1 << 20), b""))) == took


def test_head_and_body(lane):
    """A response in two parts goes out as one, and what of it was taken is counted as one."""
    client = lane.connect(GET)
    fd = lane.poll_one().fd
    assert lane.reply(fd, b"head ", body=b"body") == 9 and client.recv(99) == b"head body"
    client.sendall(GET)
    lane.poll_one()
    took = lane.reply(fd, b"head ", body=b"x" * (16 << 20))
    assert 5 < took < 16 << 20
    assert lib.lane_release(lane.set, fd) == 1
    with socket.socket(fileno=fd):
        lib.lane_left(lane.set)
    assert len(b"".join(iter(lambda: client.recv(1 << 20), b""))) == took


@pytest.mark.parametrize("body", [b"", b"abc"])
def test_octets_behind_the_last_request(lane, body):
    """A close with octets unread would reset the connection, and may cost the client its response."""
    client = lane.connect(post(len(body), "Connection: close"))
    arrival = lane.poll_one()
    client.sendall(body + b"\r\n")
    if body:
        arrival = lane.poll_one()
    fd = arrival.fd
    assert lane.reply(fd, keep=False) == (-1 if body else 2)
    if body:
        assert lib.lane_release(lane.set, fd) == 1
        with socket.socket(fileno=fd) as sock:
            assert sock.recv(9) == b"\r\n"
            lib.lane_left(lane.set)


def test_a_connection_that_the_client_wants_closed(lane):
    """It closes behind the response; without the client's wish the caller must linger."""
    client = lane.connect(LAST_GET)
    assert lane.reply(lane.poll_one().fd, keep=False) == 2
    assert client.recv(9) == b"ok" and client.recv(9) == b"" and lane.set.nconns == 0
    lane.connect(GET)
    fd = lane.poll_one().fd
    assert lane.reply(fd, keep=False) == -1 and lane.state(fd) == BUSY
    assert lane.reply(fd) == 2


def test_a_reply_that_nobody_is_due(lane):
    """Nothing is sent on a connection that is not BUSY."""
    client = lane.connect()
    fd = lane.accept(client)
    assert lane.reply(fd) == 2 and lib.lane_release(lane.set, fd) == 0
    client.sendall(GET)
    assert lane.poll_one().fd == fd
    assert lane.reply(fd, b"this") == 4 and client.recv(9) == b"this"


@pytest.mark.parametrize("fd", [-1, -(1 << 31), 1024, (1 << 31) - 1])
def test_a_number_without_a_place(lane, fd):
    """A descriptor that the table has no place for, such as the -1 of one that has left, is nobody's."""
    assert lane.reply(fd, b"this") == 4
    assert lib.lane_release(lane.set, fd) == 0 and lib.lane_hold(lane.set, fd) == 0


# Coming back


def leave(lane: Lane, number: int = 0) -> tuple[socket.socket, int]:
    """Return a client, and the descriptor of its connection, which has left the lane after a request of the first read."""
    client = lane.connect((GET, uwsgi(), scgi())[number], number)
    fd = lane.poll_one().fd
    assert lib.lane_release(lane.set, fd) == 1
    lib.lane_left(lane.set)
    assert lane.set.nconns == 0
    return client, fd


@pytest.mark.parametrize("kind", ["tcp", "unix"])
@pytest.mark.parametrize("is_new_number", [False, True])
def test_coming_back(new_lane, kind, is_new_number):
    """A connection that is adopted waits in the lane for its next requests, none of which is its first."""
    lane = new_lane("http", f"http {kind}")
    client = lane.connect(GET, 1)
    fd = lane.poll_one().fd
    assert lib.lane_release(lane.set, fd) == 1
    lib.lane_left(lane.set)
    if is_new_number:  # as of a transport that closes its own
        old, fd = fd, os.dup(fd)
        os.close(old)
    assert lib.lane_adopt(lane.set, fd, 1) == 1
    assert lane.state(fd) == IDLE and lane.set.nconns == 1
    assert lane.poll(20) == []
    for _ in range(2):
        client.sendall(GET)
        arrival = lane.poll_one()
        assert (arrival.fd, arrival.kind, arrival.listener) == (fd, WHOLE, 1)
        assert not arrival.is_first and arrival.peer == ""
        assert lane.reply(fd) == 2 and client.recv(9) == b"ok"
    client.close()
    assert lane.poll() == [] and lane.state(fd) == FREE and lane.set.nconns == 0


def test_coming_from_elsewhere(lane):
    """A connection that was never in the lane is adopted like one that was."""
    with socket.socket() as client, new_listener("tcp") as elsewhere:
        client.connect(elsewhere.getsockname())
        elsewhere.setblocking(True)
        accepted, _ = elsewhere.accept()
        accepted.setblocking(False)
        fd = accepted.detach()
        assert lane.set.top <= fd and lib.lane_adopt(lane.set, fd, 0) == 1
        client.sendall(GET)
        arrival = lane.poll_one()
        assert (arrival.fd, arrival.is_first) == (fd, False)
        assert lane.reply(fd) == 2 and client.recv(9) == b"ok"
        assert lib.lane_sweep(lane.set, -1, -1) == 1 and is_at_end(client)


@pytest.mark.parametrize("octets", [GET, GET[:9], post(3) + b"a", GET + GET])
def test_octets_that_wait_for_who_comes_back(lane, octets):
    """What has come while a connection was outside arrives with the next poll, whatever it is."""
    client, fd = leave(lane)
    client.sendall(octets)
    assert lib.lane_adopt(lane.set, fd, 0) == 1
    arrival = lane.poll_one()
    assert (arrival.fd, arrival.input, arrival.is_first) == (fd, octets, False)
    if arrival.kind == LEFT:
        with socket.socket(fileno=fd):
            lib.lane_left(lane.set)


@pytest.mark.parametrize("is_reset", [False, True])
def test_an_end_that_waits_for_who_comes_back(lane, is_reset):
    """A client that has gone meanwhile is forgotten."""
    client, fd = leave(lane)
    if is_reset:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert lib.lane_adopt(lane.set, fd, 0) == 1
    assert lane.poll() == [] and lane.state(fd) == FREE and lane.set.nconns == 0


def test_coming_back_while_a_poll_waits(lane):
    """Nobody needs to wake it."""
    client, fd = leave(lane)
    found = []
    waiter = threading.Thread(target=lambda: found.extend(lane.poll_all(1)), daemon=True)
    waiter.start()
    while not lane.set.is_waiting:
        time.sleep(0.001)
    assert lib.lane_adopt(lane.set, fd, 0) == 1
    client.sendall(GET)
    waiter.join(PATIENCE_SECONDS)
    assert [arrival.fd for arrival in found] == [fd]


def test_who_comes_back_idles_from_then_on(lane):
    """The time of a connection that has carried a request begins when it is adopted."""
    client, fd = leave(lane)
    lane.set.now += 100
    assert lib.lane_adopt(lane.set, fd, 0) == 1
    lane.set.now += 5
    assert lib.lane_sweep(lane.set, 5, -1) == 0
    lane.set.now += 1
    assert lib.lane_sweep(lane.set, 5, 100) == 1
    assert is_at_end(client) and lane.state(fd) == FREE and lane.set.nconns == 0


def test_who_comes_back_makes_room(new_lane):
    """A connection that was adopted is closed for a new one like any other that idles."""
    lane = new_lane(max_conns=1)
    client, fd = leave(lane)
    assert lib.lane_adopt(lane.set, fd, 0) == 1
    lane.set.now += 2
    lane.connect(GET)
    assert lane.poll_one().is_first and is_at_end(client) and lane.set.nconns == 1


def test_coming_back_to_a_full_lane(new_lane):
    """The limit of connections is for new ones; a connection that comes back was counted all the time."""
    lane = new_lane(max_conns=1)
    client, fd = leave(lane)
    lane.set.nothers = 1
    other = lane.connect(GET)
    assert lane.poll(20) == [] and lane.set.is_held
    assert lib.lane_adopt(lane.set, fd, 0) == 1
    lane.set.nothers = 0
    assert lane.poll(20) == []
    assert lib.lane_sweep(lane.set, -1, -1) == 1 and is_at_end(client)
    assert lane.poll_one().is_first and lane.set.nconns == 1
    other.close()


@pytest.mark.parametrize("fd", [-1, -(1 << 31), 1024, (1 << 31) - 1])
def test_no_place_to_come_back_to(lane, fd):
    """A descriptor that the table has no place for is refused."""
    assert lib.lane_adopt(lane.set, fd, 0) == 0 and lane.set.nconns == 0


@pytest.mark.parametrize("why", ["uwsgi", "scgi", "no listener", "unlisten", "close", "in already", "no epoll"])
def test_who_cannot_come_back(new_lane, why):
    """Who is refused stays the caller's, and nothing has changed."""
    lane = new_lane("http", "uwsgi", "scgi")
    number = {"uwsgi": 1, "scgi": 2}.get(why, 0)
    client, fd = leave(lane, number)
    if why == "no listener":
        number = 3
    elif why == "unlisten":
        lib.lane_unlisten(lane.set, 0)
    elif why == "close":
        lib.lane_close(lane.set)
    elif why == "in already":
        assert lib.lane_adopt(lane.set, fd, 0) == 1
    elif why == "no epoll":  # a file is not for epoll, as if the kernel had no memory
        with open(__file__) as file:
            os.dup2(file.fileno(), fd)
    before = (lane.state(fd), lane.set.nconns, lane.set.nusers)
    assert lib.lane_adopt(lane.set, fd, number) == 0
    assert (lane.state(fd), lane.set.nconns, lane.set.nusers) == before
    os.fstat(fd)
    if why != "in already":
        os.close(fd)


def test_closing_who_has_come_back(lane):
    """A connection that was adopted sees the end of the lane like any other."""
    client, fd = leave(lane)
    assert lib.lane_adopt(lane.set, fd, 0) == 1
    lib.lane_close(lane.set)
    assert is_at_end(client) and lane.set.nconns == 0
    with pytest.raises(OSError):
        os.fstat(fd)


# Sweeping


def test_sweeping(lane):
    """Connections that idle for too long are closed: those that have carried a request, and those that have not."""
    used, new = lane.connect(), lane.connect()
    lane.accept(used)
    lane.poll(20)
    assert lane.set.nconns == 2
    assert lib.lane_sweep(lane.set, 5, 2) == 0
    lane.set.now += 2
    assert lib.lane_sweep(lane.set, 5, 2) == 0
    lane.set.now += 1
    assert lib.lane_sweep(lane.set, 5, 2) == 1 and is_at_end(new)
    lane.set.now += 3
    assert lib.lane_sweep(lane.set, 5, 2) == 1 and is_at_end(used)
    assert lane.set.nconns == 0


def test_a_reply_begins_a_new_time(lane):
    """Idleness counts from the last response, and from the beginning for who has sent nothing."""
    client = lane.connect()
    lane.accept(client)
    lane.set.now += 5
    lane.accept(client)
    assert lib.lane_sweep(lane.set, 4, 4) == 0
    lane.set.now += 5
    client.sendall(GET)
    fd = lane.poll_one().fd
    assert lib.lane_sweep(lane.set, -1, -1) == 0  # it is BUSY
    assert lane.reply(fd) == 2
    assert lib.lane_sweep(lane.set, -1, -1) == 1


# A recv() that ends early: what stands behind an urgent octet, or a descriptor that was passed, has no edge


def send_behind_urgent(client: socket.socket) -> None:
    """A request, an urgent octet, and another request that the same recv() does not reach."""
    client.send(GET + b"!", socket.MSG_OOB)
    client.send(GET)


def send_behind_descriptor(client: socket.socket) -> None:
    """The same on a unix socket, with a descriptor in the place of the urgent octet."""
    with socket.socket() as passed:
        client.sendmsg([GET], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", passed.fileno()))])
    client.send(GET)


EARLY_ENDS = [("http", send_behind_urgent), ("http unix", send_behind_descriptor)]


@pytest.mark.parametrize(("bind", "send"), EARLY_ENDS)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_read_that_ends_early(new_lane, bind, send, is_first):
    """A second request behind such a place is not left unread: it comes at once, in the lane or out of it."""
    lane = new_lane(bind)
    client = lane.connect()
    if is_first:
        send(client)
    else:
        lane.accept(client)
        send(client)
    arrival = lane.poll_one()
    if arrival.kind == LEFT:
        assert lane.state(arrival.fd) == FREE
        with socket.socket(fileno=arrival.fd) as sock:
            rest = arrival.input
            while len(rest) < 2 * len(GET):
                assert select.select([sock], [], [], PATIENCE_SECONDS)[0]
                rest += sock.recv(999)
            assert rest == GET + GET
        lib.lane_left(lane.set)
    else:
        assert arrival.input == GET and lane.reply(arrival.fd) == 2
        assert lane.poll_one().input == GET


@pytest.mark.parametrize(("bind", "send"), EARLY_ENDS)
@pytest.mark.parametrize("end", ["sweep", "room"])
def test_nobody_idles_for_ever(new_lane, bind, send, end):
    """What was read without its connection being told of the rest is found when its time is over, and told then."""
    lane = new_lane(bind)
    client = lane.connect()
    fd = lane.accept(client)
    lane.set.conns[fd].state = BUSY  # as if its request was with the caller: nothing is read meanwhile
    client.sendall(GET)
    lane.poll(0)  # the edge is taken
    lane.set.conns[fd].state = IDLE  # and forgotten, as where recv() ends early
    assert lane.poll(20) == []
    lane.set.now += 10
    assert (lib.lane_sweep(lane.set, 5, 5) if end == "sweep" else lib.lane_make_room(lane.set)) == 0
    assert lane.poll_one().input == GET


@pytest.mark.parametrize("is_new", [True, False])
def test_a_request_that_has_come_is_not_swept_away(lane, is_new):
    """What a client has sent before its time was over is read."""
    client = lane.connect()
    if is_new:
        lane.poll(20)
    else:
        lane.accept(client)
    client.sendall(GET)
    assert lib.lane_sweep(lane.set, -1, -1) == 0
    fd = lane.poll_one().fd
    assert lane.reply(fd) == 2 and client.recv(9) == b"ok"
    assert lib.lane_sweep(lane.set, -1, -1) == 1


# Descriptors that run out


@pytest.fixture
def run_out():
    """Let no more descriptors be had; return what gives them back."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    def restore() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    def begin() -> Any:
        lowest = os.dup(0)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
        return restore

    yield begin
    restore()


@pytest.mark.parametrize("kinds", [["http"], ["http", "http unix"], ["http", "uwsgi unix", "scgi"]])
def test_no_more_descriptors(new_lane, run_out, kinds):
    """A listener that nobody can be accepted on does not spin, and accepts again by the next second."""
    lane = new_lane(*kinds)
    for number in range(len(kinds)):
        lane.connect((GET, uwsgi(), scgi())[number if len(kinds) == 3 else 0], number)
    restore = run_out()
    for _ in kinds:
        assert lane.poll(20) == []
    assert lane.set.nshort == len(kinds)
    restore()
    lane.set.now += 1
    arrivals = lane.poll_all(len(kinds))
    assert sorted(arrival.listener for arrival in arrivals) == list(range(len(kinds)))


# Waiting


def test_waking(lane):
    """A poll that waits returns when it is woken, and one that is woken before does not wait."""
    waiter = threading.Thread(target=lane.poll, daemon=True)
    waiter.start()
    lib.lane_wake(lane.set)
    waiter.join(PATIENCE_SECONDS)
    assert not waiter.is_alive()
    for _ in range(3):
        lib.lane_wake(lane.set)
    assert lane.poll() == []
    assert lane.poll(0) == []


def is_readable(fd: int, seconds: float) -> bool:
    return bool(select.select([fd], [], [], seconds)[0])


def test_stalling(new_lane):
    """A batch that takes too long, or a wake, is told by a descriptor, once."""
    lane = new_lane(stall_us=2000)
    assert lane.poll(0) == [] and not is_readable(lane.set.stall_fd, 0.02)
    lane.connect(GET)
    lane.poll_one()
    assert is_readable(lane.set.stall_fd, PATIENCE_SECONDS)
    os.read(lane.set.stall_fd, 8)
    assert lane.poll(0) == [] and not is_readable(lane.set.stall_fd, 0.02)
    lib.lane_wake(lane.set)
    assert lane.poll() == [] and is_readable(lane.set.stall_fd, PATIENCE_SECONDS)
    lane.connect(GET)
    lane.poll_one()  # the timer has told, and nobody has read that: it begins anew
    assert is_readable(lane.set.stall_fd, PATIENCE_SECONDS)


def test_batches_share_a_timer(new_lane):
    """It is set anew only where it would be over before the batch has had its time; never by who waits."""
    lane = new_lane(stall_us=50_000)

    def take():
        lane.connect(GET)
        lane.poll_one()
        return lane.set.stall_at

    before = time.monotonic()
    first = take()
    assert before + 0.1 <= (first + 1) / 1e6 and first / 1e6 <= time.monotonic() + 0.1
    assert lane.poll(0) == [] and lane.set.stall_at == first
    while (second := take()) == first:
        assert time.monotonic() < before + PATIENCE_SECONDS
    assert first + 50_000 <= second


# The end


def test_a_listener_that_is_off(new_lane):
    """Nobody is accepted any more; the others go on."""
    lane = new_lane("http", "http")
    lib.lane_unlisten(lane.set, 0)
    lane.connect(GET, 0)
    lane.connect(GET, 1)
    assert lane.poll_one().listener == 1
    lane.set.now += 1
    assert lane.poll(20) == []


def test_closing(lane):
    """Whoever idles or is busy sees the end; a reply that comes later goes nowhere, and frees the descriptor."""
    idle, busy = lane.connect(), lane.connect()
    lane.accept(idle)
    busy.sendall(GET)
    fd = lane.poll_one().fd
    lib.lane_close(lane.set)
    assert is_at_end(idle) and is_at_end(busy)
    os.fstat(fd)  # the number is not free while its owner may still use it
    assert lane.set.nconns == 1
    assert lane.reply(fd) == 2
    assert lane.set.nconns == 0
    with pytest.raises(OSError):
        os.fstat(fd)
    lib.lane_close(lane.set)  # once more does no harm
    lib.lane_wake(lane.set)


def test_leaving_a_lane_that_is_closed(lane):
    """Who comes too late to take a connection along finds none."""
    lane.connect(GET)
    fd = lane.poll_one().fd
    lib.lane_close(lane.set)
    assert lib.lane_release(lane.set, fd) == 0
    with pytest.raises(OSError):
        os.fstat(fd)


def test_no_descriptor_for_the_lane(run_out):
    """A lane that cannot open says why, and closes."""
    lane = Lane("http")
    lib.lane_close(lane.set)
    restore = run_out()
    error = lib.lane_open(lane.set)
    lane.close()
    restore()
    assert os.strerror(error) == os.strerror(24)


@pytest.mark.skipif(sys.implementation.name == "pypy", reason="its garbage collector opens descriptors of its own")
def test_nothing_is_left_open():
    """A lane gives back every descriptor."""
    before = len(os.listdir("/proc/self/fd"))
    lane = Lane("http", "uwsgi unix")
    lane.accept()
    lane.connect(uwsgi(), 1)
    assert lane.reply(lane.poll_one().fd, keep=False) == 2
    lane.close()
    assert len(os.listdir("/proc/self/fd")) == before
