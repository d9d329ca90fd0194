"""Many connections in few calls: waiting, replying, sweeping, the end (see also test_lane_read.py, test_lane_accept.py)."""

import os
import select
import socket
import struct
import sys
import threading
import time

import pytest
from harness.descriptors import none_stays_open
from harness.lanes import (
    BODY,
    BUSY,
    FREE,
    GET,
    IDLE,
    LAST_GET,
    LEFT,
    MORE,
    PATIENCE_MS,
    PATIENCE_SECONDS,
    Lane,
    is_at_end,
    post,
    uwsgi,
)

from aserve._cparsers import ffi, lib

pytestmark = pytest.mark.skipif(not lib.lane_available(), reason="a lane needs Linux")


# Edges: octets received while a request is with the caller


def test_a_request_behind_a_request(lane):
    """Octets received meanwhile are told when the first has a reply."""
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
    """A half-closed client has a response; then the connection is closed."""
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
    """A client gone with a reset is forgotten, at the latest by the reply."""
    client = lane.connect()
    fd = lane.accept(client)
    if is_busy:
        client.sendall(GET)
        lane.poll_one()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    lane.poll(20)
    if is_busy:
        assert lane.state(fd) == MORE and lane.reply(fd) == -2
        lane.poll(0)
    assert lane.state(fd) == FREE and lane.set.nconns == 0


def test_a_client_that_comes_and_goes(lane):
    """A silent client is forgotten after leaving."""
    lane.connect().close()
    assert lane.poll() == [] and lane.set.nconns == 0


def test_a_number_that_is_used_again(lane):
    """A new connection with an earlier number has everything new."""
    first, second = lane.connect(), socket.socket()
    fd = lane.accept(first)
    assert lib.lane_sweep(lane.set, -1, -1) == 1
    lane.connect(GET, client=second)
    arrival = lane.poll_one()
    assert arrival.fd == fd and arrival.is_first and arrival.peer.endswith(f"\0{second.getsockname()[1]}")
    assert lane.reply(fd) == 2 and second.recv(9) == b"ok"


def test_an_event_of_an_earlier_connection(lane):
    """A child process keeps the first alive in the epoll set: events of the first mean nothing to the second."""
    first, second = lane.connect(), socket.socket()
    fd = lane.accept(first)
    with socket.socket(fileno=os.dup(fd)):  # as in a child of fork()
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
    """The untaken rest is told; the caller has the rest, and takes the descriptor along."""
    client = lane.connect(GET)
    fd = lane.poll_one().fd
    octets = b"x" * (16 << 20)
    took = lane.reply(fd, octets)
    assert 0 < took < len(octets) and lane.state(fd) == BUSY
    for more in iter(lambda: lane.reply(fd, octets), 0):  # a busy kernel fills the client's buffer a moment later
        took += more
    assert lib.lane_release(lane.set, fd) == 1
    with socket.socket(fileno=fd):
        lib.lane_left(lane.set)
    assert len(b"".join(iter(lambda: client.recv(1 << 20), b""))) == took


def test_head_and_body(lane):
    """A response in two parts goes out at once, with a single count of octets taken."""
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
    """A close with unread octets would reset the connection, and may cost the client the response."""
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
    """The connection closes behind the response; without the client's wish the caller must linger."""
    client = lane.connect(LAST_GET)
    assert lane.reply(lane.poll_one().fd, keep=False) == 2
    assert client.recv(9) == b"ok" and client.recv(9) == b"" and lane.set.nconns == 0
    lane.connect(GET)
    fd = lane.poll_one().fd
    assert lane.reply(fd, keep=False) == -1 and lane.state(fd) == BUSY
    assert lane.reply(fd) == 2


def test_a_reply_that_is_out(lane):
    """A reply sent in pieces ends with an empty piece, sending nothing."""
    client = lane.connect(GET)
    fd = lane.poll_one().fd
    assert lane.reply(fd, b"") == 0 and lane.state(fd) == IDLE
    client.sendall(LAST_GET)
    assert lane.poll_one().fd == fd
    assert lane.reply(fd, b"", keep=False) == 0 and lane.state(fd) == FREE
    assert client.recv(9) == b""


def test_a_reply_that_nobody_is_due(lane):
    """Nothing is sent on a connection unless BUSY."""
    client = lane.connect()
    fd = lane.accept(client)
    assert lane.reply(fd) == 2 and lib.lane_release(lane.set, fd) == 0
    client.sendall(GET)
    assert lane.poll_one().fd == fd
    assert lane.reply(fd, b"this") == 4 and client.recv(9) == b"this"


@pytest.mark.parametrize("fd", [-1, -(1 << 31), 1024, (1 << 31) - 1])
def test_a_number_without_a_place(lane, fd):
    """A descriptor beyond the table, such as the -1 of a left connection, is nobody's."""
    assert lane.reply(fd, b"this") == 4
    assert lib.lane_release(lane.set, fd) == 0 and lib.lane_own(lane.set, fd) == 0


@pytest.mark.parametrize("size", [1 << 31, (1 << 32) - 1])
@pytest.mark.parametrize("body_size", [0, 1, (1 << 32) - 1])
def test_a_reply_of_more_octets_than_can_be_counted(lane, size, body_size):
    """Nothing of the reply is sent, and the caller keeps the connection."""
    client = lane.connect(GET)
    fd = lane.poll_one().fd
    assert lib.lane_reply(lane.set, fd, ffi.NULL, size, ffi.NULL, body_size, True) == lib.LANE_UNSENT
    assert lane.reply(fd, b"this") == 4 and client.recv(9) == b"this"


# Sweeping


def test_sweeping_closes_idle_connections(lane):
    """Connections idle for too long are closed, with a past request or without."""
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
    """Idleness counts from the last response, and from the beginning for a silent client."""
    client = lane.connect()
    lane.accept(client)
    lane.set.now += 5
    lane.accept(client)
    assert lib.lane_sweep(lane.set, 4, 4) == 0
    lane.set.now += 5
    client.sendall(GET)
    fd = lane.poll_one().fd
    assert lib.lane_sweep(lane.set, -1, -1) == 0  # the connection is BUSY
    assert lane.reply(fd) == 2
    assert lib.lane_sweep(lane.set, -1, -1) == 1


@pytest.mark.parametrize("is_new", [True, False])
def test_a_request_that_has_come_is_not_swept_away(lane, is_new):
    """Octets sent in time are read."""
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


# Leaving while idle


def test_who_idles_leaves(new_lane):
    """A waiting connection goes, before the first request or a later one; a served or sending connection stays."""
    lane = new_lane("http", "http unix")
    used, new, busy, more, sends = (lane.connect(b"", number) for number in (0, 1, 0, 0, 0))
    fds = [lane.accept(client) for client in (used, busy, more, sends)]
    for client in (busy, more):
        client.sendall(GET)
    sends.sendall(post(3))
    lane.poll_all(3)
    more.sendall(GET)
    lane.poll(20)
    found = lane.release_idle()
    assert {(listener, is_used) for _, listener, is_used in found} == {(0, 1), (1, 0)}
    assert [fd for fd, _, is_used in found if is_used] == fds[:1]
    assert [lane.state(fd) for fd in fds] == [FREE, BUSY, MORE, BODY]
    assert lane.set.nconns == 3 and lane.release_idle() == []
    for fd, _, _ in found:
        os.close(fd)
    assert is_at_end(used) and is_at_end(new)
    assert lane.reply(fds[1]) == 2 and busy.recv(9) == b"ok"


def test_a_part_of_those_who_idle(lane):
    """No more leave than asked for; the rest are served."""
    clients = [lane.connect() for _ in range(3)]
    fds = [lane.accept(client) for client in clients]
    assert [fd for fd, _, _ in lane.release_idle(2)] == fds[:2] and lane.release_idle(0) == []
    for fd in fds[:2]:
        os.close(fd)
    assert lane.accept(clients[2]) == fds[2] and lane.set.nconns == 1


@pytest.mark.parametrize("octets", [b"", GET, GET[:9], GET + GET])
@pytest.mark.parametrize("is_new", [True, False])
def test_going_on_in_another_lane(new_lane, is_new, octets):
    """Octets sent meanwhile stay unread, and arrive there."""
    lane, other = new_lane(), new_lane()
    client = lane.connect()
    if is_new:
        lane.poll(20)
    else:
        lane.accept(client)
    client.sendall(octets)
    [(fd, listener, is_used)] = lane.release_idle()
    assert (listener, is_used) == (0, not is_new)
    assert lane.poll(20) == [] and lane.state(fd) == FREE
    assert lib.lane_adopt(other.set, fd, 0, ffi.NULL, 1) == 1
    if not octets:
        assert other.accept(client) == fd
        return
    arrival = other.poll_one()
    assert (arrival.fd, arrival.input) == (fd, octets)
    if arrival.kind == LEFT:
        with socket.socket(fileno=fd):
            lib.lane_left(other.set)


@pytest.mark.parametrize("is_reset", [True, False])
def test_a_client_that_has_gone_leaves_with_the_others(new_lane, is_reset):
    """The end is found where the connection goes on."""
    lane, other = new_lane(), new_lane()
    client = lane.connect()
    fd = lane.accept(client)
    if is_reset:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert lane.release_idle() == [(fd, 0, 1)]
    assert lib.lane_adopt(other.set, fd, 0, ffi.NULL, 1) == 1
    assert other.poll() == [] and other.set.nconns == 0


def test_an_event_of_who_has_left(lane):
    """Once a connection is closed, the next may have the same number, and old events mean nothing to the next."""
    first, second = lane.connect(), socket.socket()
    fd = lane.accept(first)
    first.sendall(GET)
    lane.release_idle()
    with socket.socket(fileno=os.dup(fd)):  # as in another process
        os.close(fd)
        lane.connect(GET, client=second)
        assert lane.poll_one().fd == fd
        assert lane.reply(fd) == 2 and second.recv(9) == b"ok"
        first.sendall(GET)
        assert lane.poll(20) == [] and lane.state(fd) == IDLE


def test_leaving_makes_room(new_lane):
    """A left connection counts no more: a paused listener goes on."""
    lane = new_lane(max_conns=1)
    lane.accept()
    lane.connect(GET)
    assert lane.poll(20) == [] and lane.set.is_paused
    [(fd, _, _)] = lane.release_idle()
    os.close(fd)
    assert lane.poll_one().is_first


def test_nobody_leaves_a_lane_that_is_closed(lane):
    """Every client inside has seen the end."""
    lane.accept()
    lib.lane_close(lane.set)
    assert lane.release_idle() == []


# Waiting


def test_waking_ends_a_poll(lane):
    waiter = threading.Thread(target=lane.poll, daemon=True)
    waiter.start()
    lib.lane_wake(lane.set)
    waiter.join(PATIENCE_SECONDS)
    assert not waiter.is_alive()
    for _ in range(3):
        lib.lane_wake(lane.set)
    assert lane.poll() == []
    assert lane.poll(0) == []


def test_a_look_leaves_the_waking_to_the_next_poll(lane):
    """A job came between the leader's look at the queue and the look at the lane: the leader must not sleep."""
    lib.lane_wake(lane.set)
    assert lib.lane_look(lane.set) == 0
    waiter = threading.Thread(target=lib.lane_poll, args=(lane.set, -1), daemon=True)
    waiter.start()
    waiter.join(PATIENCE_SECONDS)
    assert not waiter.is_alive()


def is_readable(fd: int, seconds: float) -> bool:
    return bool(select.select([fd], [], [], seconds)[0])


def test_stalling_is_told_once(new_lane):
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
    lane.poll_one()  # the timer has told, and nobody has read: the timer begins anew
    assert is_readable(lane.set.stall_fd, PATIENCE_SECONDS)


def test_batches_share_a_timer(new_lane):
    """The timer is set anew only where the end would come before the batch has had the full time; never by a waiter."""
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


def test_a_batch_that_moves_does_not_stall(new_lane):
    """Every eighth answer puts the timer off; so does a request for a new watch. A single thread of two sets the timer."""
    lane = new_lane(stall_us=50_000)
    for _ in range(16):
        lane.connect(GET)
    arrivals = lane.poll_all(16)
    lane.set.stall_at = 0  # as if the time were long over
    seen = []
    for arrival in arrivals:
        lane.reply(arrival.fd)
        seen.append(lane.set.stall_at > 0)
    assert seen == [False] * 7 + [True] * 9
    lane.set.stall_at, lane.set.is_arming = 0, 1
    lib.lane_watch(lane.set)
    assert lane.set.stall_at == 0
    lane.set.is_arming = 0
    lib.lane_watch(lane.set)
    assert lane.set.stall_at > 0 and lane.set.is_arming == 0
    lane.set.stall_us, lane.set.stall_at = 0, 0
    lib.lane_watch(lane.set)
    assert lane.set.stall_at == 0


# The end


def test_closing_ends_all_connections(lane):
    """Idle and busy connections see the end; a later reply goes nowhere, and frees the descriptor."""
    idle, busy = lane.connect(), lane.connect()
    lane.accept(idle)
    busy.sendall(GET)
    fd = lane.poll_one().fd
    lib.lane_close(lane.set)
    assert is_at_end(idle) and is_at_end(busy)
    os.fstat(fd)  # the number is not free while the owner may still use the number
    assert lane.set.nconns == 1
    assert lane.reply(fd) == -2
    assert lane.set.nconns == 0
    with pytest.raises(OSError):
        os.fstat(fd)
    lib.lane_close(lane.set)  # once more does no harm
    lib.lane_wake(lane.set)


def test_leaving_a_lane_that_is_closed(lane):
    """Too late to take a connection along, a caller finds none."""
    lane.connect(GET)
    fd = lane.poll_one().fd
    lib.lane_close(lane.set)
    assert lib.lane_release(lane.set, fd) == 0
    with pytest.raises(OSError):
        os.fstat(fd)


def test_no_descriptor_for_the_lane(run_out):
    """A lane unable to open tells why, and closes."""
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
    with none_stays_open():
        lane = Lane("http", "uwsgi unix")
        lane.accept()
        lane.connect(uwsgi(), 1)
        assert lane.reply(lane.poll_one().fd, keep=False) == 2
        lane.close()
