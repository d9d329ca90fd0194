"""Connections that enter the lane: accepted by the batch, kept waiting at the limits, taken back."""

import os
import resource
import socket
import struct
import threading
import time

import pytest
from harness.descriptors import closed_stdin
from harness.lanes import (
    FREE,
    GET,
    IDLE,
    LAST_GET,
    LEFT,
    PATIENCE_SECONDS,
    WHOLE,
    Lane,
    is_at_end,
    new_listener,
    post,
    scgi,
    uwsgi,
)

from aserve._cparsers import ffi, lib
from aserve.core.descriptors import is_open

pytestmark = pytest.mark.skipif(not lib.lane_available(), reason="a lane needs Linux")


# Full batches


@pytest.mark.parametrize(
    "settings", [{"arrivals_cap": 4}, {"input_cap": 1024, "read_cap": 512}, {"vars_cap": 4096, "max_head_len": 1024}]
)
@pytest.mark.parametrize("is_kept", [False, True])
def test_more_than_a_batch(new_lane, settings, is_kept):
    """Requests without room in a batch come in the next batches: no request is lost, or comes twice."""
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


@pytest.mark.parametrize("crowded", [0, 1])
def test_a_listener_beside_one_with_a_long_queue(new_lane, crowded):
    """The next batch begins with the listener that the last one had no room for."""
    lane = new_lane("http", "http", arrivals_cap=4)
    for _ in range(40):
        lane.connect(LAST_GET, crowded)
    lane.connect(LAST_GET, 1 - crowded)
    assert 1 - crowded in [arrival.listener for _ in range(2) for arrival in lane.poll()]


def test_a_standard_descriptor_that_the_app_has_closed(new_lane):
    """No connection gets the number: the app's output would reach the client."""
    lane = new_lane()
    client = lane.connect(GET)
    with closed_stdin():
        arrival = lane.poll_one()
        assert not is_open(0)
    assert arrival.fd > 2 and lane.reply(arrival.fd) == 2 and client.recv(9) == b"ok"


def test_heads_of_the_largest_form(new_lane):
    """The vars of a head may be twice as long as the head; beside such vars there is room for the next head, or the head waits."""
    lane = new_lane(max_head_len=4096, max_line_len=4096, max_fields=4096, vars_cap=2 * 4096 + 600)
    field = b"A:\r\n"
    head = b"GET / HTTP/1.1\r\nHost:a\r\n"
    head += field * ((4096 - len(head) - 2) // len(field)) + b"\r\n"
    clients = [lane.connect(head) for _ in range(3)]
    for arrival in lane.poll_all(3):
        assert arrival.kind == WHOLE and arrival.peer
    assert len(clients) == 3


def test_a_full_batch_does_not_keep_new_connections_out(new_lane):
    """Connections with a request always ready must not fill every batch."""
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
    """Nor may silent connections keep a call busy for ever."""
    lane = new_lane(arrivals_cap=4)
    for _ in range(12):
        lane.connect()
    assert lane.poll() == [] and lane.set.nconns == 4
    assert lane.poll() == [] and lane.set.nconns == 8


# Missing descriptors


@pytest.mark.parametrize("kinds", [["http"], ["http", "http unix"], ["http", "uwsgi unix", "scgi"]])
def test_no_more_descriptors(new_lane, run_out, kinds):
    """A listener without descriptors does not spin, and accepts again by the next second."""
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


@pytest.mark.parametrize("kind", ["http", "uwsgi unix"])
def test_the_last_descriptor(new_lane, kind):
    """The last client is served, and nothing is short: nobody else waits."""
    lane = new_lane(kind)
    client = lane.connect(GET if kind == "http" else uwsgi())
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 1, limits[1]))
    try:
        arrival = lane.poll_one()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert arrival.kind == WHOLE and lane.set.nshort == 0
    client.close()


@pytest.mark.parametrize("count", range(1, 9))
def test_all_who_wait_come_at_once(new_lane, count):
    """However many there are, no second call is needed."""
    lane = new_lane("uwsgi unix")
    clients = [lane.connect(uwsgi()) for _ in range(count)]
    assert len(lane.poll()) == len(clients)
    assert lane.poll(0) == []


@pytest.mark.parametrize("count", [64, 65, 130])
def test_more_listeners_than_one_wait_takes(new_lane, count):
    """The client of each arrives, at once or with the next wait."""
    lane = new_lane(*["http"] * count)
    for number in range(count):
        lane.connect(GET, number)
    assert sorted(arrival.listener for arrival in lane.poll_all(count)) == list(range(count))


# The table, and stopped listeners


def test_descriptors_beyond_the_table(new_lane):
    """A connection whose number has no place in the table is the caller's, unread."""
    with new_listener("tcp") as probe:
        cap = probe.fileno()
    lane = new_lane(conns_cap=cap)  # the listener's and the lane's descriptors are below, accepted clients' above
    client = lane.connect(GET)
    arrival = lane.poll_one()
    assert arrival.fd >= cap and arrival.kind == LEFT and arrival.is_first
    assert (arrival.consumed, arrival.input) == (lib.ASERVE_INCOMPLETE, b"")
    with socket.socket(fileno=arrival.fd) as sock:
        assert sock.recv(99) == GET
    assert lane.set.nconns == 1
    client.close()


def test_a_listener_that_is_off(new_lane):
    lane = new_lane("http", "http")
    lib.lane_unlisten(lane.set, 0)
    lane.connect(GET, 0)
    lane.connect(GET, 1)
    assert lane.poll_one().listener == 1
    lane.set.now += 1
    assert lane.poll(20) == []


# Coming back


def leave(lane: Lane, number: int = 0) -> tuple[socket.socket, int]:
    """Return a client, and the connection's descriptor: the connection has left the lane after a request of the first read."""
    client = lane.connect((GET, uwsgi(), scgi())[number], number)
    fd = lane.poll_one().fd
    assert lib.lane_release(lane.set, fd) == 1
    lib.lane_left(lane.set)
    assert lane.set.nconns == 0
    return client, fd


@pytest.mark.parametrize("kind", ["tcp", "unix"])
@pytest.mark.parametrize("is_new_number", [False, True])
def test_coming_back_it_waits_for_requests(new_lane, kind, is_new_number):
    """An adopted connection waits in the lane for further requests; no such request is the first."""
    lane = new_lane("http", f"http {kind}")
    client = lane.connect(GET, 1)
    fd = lane.poll_one().fd
    assert lib.lane_release(lane.set, fd) == 1
    lib.lane_left(lane.set)
    if is_new_number:  # as of a transport, closed by the transport
        old, fd = fd, os.dup(fd)
        os.close(old)
    assert lib.lane_adopt(lane.set, fd, 1, ffi.NULL, 1) == 1
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
    """A connection new to the lane is adopted like a returning connection."""
    with socket.socket() as client, new_listener("tcp") as elsewhere:
        client.connect(elsewhere.getsockname())
        elsewhere.setblocking(True)
        accepted, _ = elsewhere.accept()
        accepted.setblocking(False)
        fd = accepted.detach()
        assert lane.set.top <= fd and lib.lane_adopt(lane.set, fd, 0, ffi.NULL, 1) == 1
        client.sendall(GET)
        arrival = lane.poll_one()
        assert (arrival.fd, arrival.is_first) == (fd, False)
        assert lane.reply(fd) == 2 and client.recv(9) == b"ok"
        assert lib.lane_sweep(lane.set, -1, -1) == 1 and is_at_end(client)


@pytest.mark.parametrize("octets", [GET, GET[:9], post(3) + b"a", GET + GET])
def test_octets_that_wait_for_who_comes_back(lane, octets):
    """Octets received outside arrive with the next poll."""
    client, fd = leave(lane)
    client.sendall(octets)
    assert lib.lane_adopt(lane.set, fd, 0, ffi.NULL, 1) == 1
    arrival = lane.poll_one()
    assert (arrival.fd, arrival.input, arrival.is_first) == (fd, octets, False)
    if arrival.kind == LEFT:
        with socket.socket(fileno=fd):
            lib.lane_left(lane.set)


@pytest.mark.parametrize("is_reset", [False, True])
def test_an_end_that_waits_for_who_comes_back(lane, is_reset):
    """A client gone meanwhile is forgotten."""
    client, fd = leave(lane)
    if is_reset:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert lib.lane_adopt(lane.set, fd, 0, ffi.NULL, 1) == 1
    assert lane.poll() == [] and lane.state(fd) == FREE and lane.set.nconns == 0


def test_coming_back_while_a_poll_waits(lane):
    """Nobody needs to wake the lane."""
    client, fd = leave(lane)
    found = []
    waiter = threading.Thread(target=lambda: found.extend(lane.poll_all(1)), daemon=True)
    waiter.start()
    while not lane.set.is_waiting:
        time.sleep(0.001)
    assert lib.lane_adopt(lane.set, fd, 0, ffi.NULL, 1) == 1
    client.sendall(GET)
    waiter.join(PATIENCE_SECONDS)
    assert [arrival.fd for arrival in found] == [fd]


def test_who_comes_back_idles_from_then_on(lane):
    """The time of a connection with a past request begins at the adoption."""
    client, fd = leave(lane)
    lane.set.now += 100
    assert lib.lane_adopt(lane.set, fd, 0, ffi.NULL, 1) == 1
    lane.set.now += 5
    assert lib.lane_sweep(lane.set, 5, -1) == 0
    lane.set.now += 1
    assert lib.lane_sweep(lane.set, 5, 100) == 1
    assert is_at_end(client) and lane.state(fd) == FREE and lane.set.nconns == 0


def test_who_comes_back_makes_room(new_lane):
    """An adopted connection is closed for a new client like any idle connection."""
    lane = new_lane(max_conns=1)
    client, fd = leave(lane)
    assert lib.lane_adopt(lane.set, fd, 0, ffi.NULL, 1) == 1
    lane.set.now += 2
    lane.connect(GET)
    assert lane.poll_one().is_first and is_at_end(client) and lane.set.nconns == 1


def test_coming_back_to_a_full_lane(new_lane):
    """The limit is for new connections; a returning connection was counted all the time."""
    lane = new_lane(max_conns=1)
    client, fd = leave(lane)
    lane.set.nothers = 1
    other = lane.connect(GET)
    assert lane.poll(20) == [] and lane.set.is_paused
    assert lib.lane_adopt(lane.set, fd, 0, ffi.NULL, 1) == 1
    lane.set.nothers = 0
    assert lane.poll(20) == []
    assert lib.lane_sweep(lane.set, -1, -1) == 1 and is_at_end(client)
    assert lane.poll_one().is_first and lane.set.nconns == 1
    other.close()


@pytest.mark.parametrize("fd", [-1, -(1 << 31), 1024, (1 << 31) - 1])
def test_no_place_to_come_back_to(lane, fd):
    assert lib.lane_adopt(lane.set, fd, 0, ffi.NULL, 1) == 0 and lane.set.nconns == 0


@pytest.mark.parametrize("why", ["uwsgi", "scgi", "no listener", "unlisten", "close", "in already", "no epoll"])
def test_who_cannot_come_back(new_lane, why):
    """A refused connection stays the caller's, and nothing has changed."""
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
        assert lib.lane_adopt(lane.set, fd, 0, ffi.NULL, 1) == 1
    elif why == "no epoll":  # a file is not for epoll, as if the kernel had no memory
        with open(__file__) as file:
            os.dup2(file.fileno(), fd)
    before = (lane.state(fd), lane.set.nconns, lane.set.nusers)
    assert lib.lane_adopt(lane.set, fd, number, ffi.NULL, 1) == 0
    assert (lane.state(fd), lane.set.nconns, lane.set.nusers) == before
    os.fstat(fd)
    if why != "in already":
        os.close(fd)


def test_closing_who_has_come_back(lane):
    """An adopted connection sees the end of the lane like any connection."""
    client, fd = leave(lane)
    assert lib.lane_adopt(lane.set, fd, 0, ffi.NULL, 1) == 1
    lib.lane_close(lane.set)
    assert is_at_end(client) and lane.set.nconns == 0
    with pytest.raises(OSError):
        os.fstat(fd)
