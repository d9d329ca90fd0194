"""A connection's octets: whole requests, bodies in parts, and octets for the event loop."""

import os
import select
import socket
import struct

import pytest
from harness.lanes import (
    BEGUN,
    BODY,
    BUSY,
    DONE,
    FREE,
    GET,
    GONE,
    IDLE,
    LEFT,
    PART,
    PATIENCE_SECONDS,
    WHOLE,
    post,
    scgi,
    uwsgi,
)

from aserve._cparsers import lib

pytestmark = pytest.mark.skipif(not lib.lane_available(), reason="a lane needs Linux")


# Arrivals


def test_a_request_arrives_parsed(lane):
    """A whole request arrives parsed, with the octets, and with the client's address the first time."""
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


@pytest.mark.parametrize(("kind", "host"), [("tcp6", "::1"), ("mapped", "127.0.0.1"), ("unix", None)])
def test_addresses_of_clients_are_text(new_lane, kind, host):
    """The client's address is text, IPv4's own on a socket of both families; on a unix socket there is none."""
    try:
        lane = new_lane(f"http {kind}")
    except OSError:
        pytest.skip("there is no IPv6 here")
    client = lane.connect(GET)
    arrival = lane.poll_one()
    assert arrival.peer == (f"{host}\0{client.getsockname()[1]}" if host else "")


def test_protocols_belong_to_listeners(new_lane):
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
    """The connection leaves the lane with all read octets; the descriptor is the caller's."""
    lane = new_lane(max_body_len=8)
    client = lane.connect()
    if is_second:
        lane.accept(client)
    client.sendall(octets)
    arrival = lane.poll_one()
    assert arrival.kind == LEFT and arrival.input == octets and lane.state(arrival.fd) == FREE
    assert arrival.is_first is not is_second
    assert lib.lane_release(lane.set, arrival.fd) == 0  # the connection is released already
    client.sendall(b"more")
    assert lane.poll(20) == []  # nobody looks at the connection any more
    assert lane.set.nconns == 1
    lib.lane_left(lane.set)
    assert lane.set.nconns == 0
    with socket.socket(fileno=arrival.fd) as sock:
        assert sock.recv(9) == b"more"
        assert not sock.get_inheritable()


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_a_read_that_is_full(new_lane, extra):
    """Behind a request of exactly the read's size may be a second request: the connection leaves the lane."""
    lane = new_lane(read_cap=256, input_cap=1024)
    head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (200 + extra)
    octets = head + b"x" * (200 + extra)
    octets = octets.replace(b"Host: a", b"Host: " + b"a" * (257 + extra - len(octets)))
    assert len(octets) == 256 + extra
    lane.connect(octets)
    arrival = lane.poll_one()
    assert arrival.kind == (WHOLE, LEFT, BEGUN)[extra + 1] and arrival.input == octets[:256]


# Later bodies


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("parts", [[b"", b"abc"], [b"a", b"b", b"c"], [b"ab", b"c"]])
def test_a_body_in_parts(lane, is_first, parts):
    """The head comes with the beginning of the body, then each part; with the last the connection is BUSY."""
    client = lane.connect()
    if not is_first:
        lane.accept(client)
    client.sendall(post(3) + parts[0])
    begun = lane.poll_one()
    assert (begun.kind, begun.is_first) == (BEGUN, is_first) and begun.content_length == 3
    assert begun.input[begun.consumed :] == parts[0]
    for part in parts[1:]:
        assert lane.state(begun.fd) == BODY
        client.sendall(part)
        arrival = lane.poll_one()
        assert (arrival.fd, arrival.input) == (begun.fd, part)
        assert arrival.kind == (DONE if part is parts[-1] else PART)
    assert lane.reply(begun.fd) == 2 and client.recv(9) == b"ok"
    lane.accept(client)


def test_a_body_larger_than_reads(new_lane):
    """A body of many full reads comes whole, though no edge tells the rest of a full read."""
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


def test_a_request_beside_uploads_that_fill_each_batch(new_lane):
    """The next batch begins with the connection that the last one had no room for."""
    lane = new_lane(read_cap=1000, input_cap=2000)
    asking = lane.connect()
    fd = lane.accept(asking)
    uploading = [lane.connect(post(50_000)) for _ in range(2)]
    lane.poll_all(2)
    for client in uploading:
        client.sendall(bytes(50_000))
    assert len(lane.poll()) == 2  # from here on they are before the third
    asking.sendall(GET)
    assert fd in [arrival.fd for _ in range(2) for arrival in lane.poll()]


@pytest.mark.parametrize("octets", [GET, post(3) + b"a"])
def test_a_client_that_has_gone_before_it_is_accepted(lane, octets):
    """The request has no address, and would pass for a unix socket's: nobody sees the request."""
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
    """No further edge tells of the end, and yet the end is told."""
    client = lane.connect()
    if is_second:
        lane.accept(client)
    client.sendall(post(3) + b"a")
    client.shutdown(socket.SHUT_WR)
    assert lane.poll_one().kind == BEGUN
    assert lane.poll_one().kind == GONE


def test_bodies_are_not_swept(lane):
    """The caller owns the connection, and counts the time of a body."""
    client = lane.connect()
    fd = lane.accept(client)
    assert lib.lane_own(lane.set, fd) == 0  # the connection waits for a request
    client.sendall(post(3))
    lane.poll_one()
    lane.set.now += 1000
    assert lib.lane_sweep(lane.set, -1, -1) == 0 and lane.state(fd) == BODY
    client.sendall(b"a")
    assert lane.poll_one().kind == PART
    assert lib.lane_own(lane.set, fd) == 1 and lane.state(fd) == BUSY
    client.sendall(b"b")
    assert lane.poll(20) == []  # the caller's from here on
    assert lib.lane_own(lane.set, fd) == 0
    assert lib.lane_release(lane.set, fd) == 1
    with socket.socket(fileno=fd):
        lib.lane_left(lane.set)


def test_the_body_of_a_call(new_lane):
    """A uwsgi RPC packet has no body, whatever the vars: nobody would read a body."""
    lane = new_lane("uwsgi unix")
    packet = bytearray(uwsgi(173, b"abc")[:-3])
    packet[3] = 2  # by path: the data are vars
    lane.connect(bytes(packet))
    arrival = lane.poll_one()
    assert (arrival.kind, arrival.content_length, arrival.modifier1) == (WHOLE, 0, 173)


# An early end of recv(): octets behind an urgent octet, or behind a passed descriptor, have no edge


def send_behind_urgent(client: socket.socket) -> None:
    """Send a request, an urgent octet, and another request beyond the same recv()."""
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
    """A second request behind such a place is not left unread: the request comes at once, inside the lane or outside."""
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
    """An unread rest without an edge is found when the connection's time is over, and told then."""
    lane = new_lane(bind)
    client = lane.connect()
    fd = lane.accept(client)
    lane.set.conns[fd].state = BUSY  # as if its request was with the caller: nothing is read meanwhile
    client.sendall(GET)
    lane.poll(0)  # the edge is taken
    lane.set.conns[fd].state = IDLE  # and forgotten, as where recv() ends early
    assert lane.poll(20) == []
    lane.set.now += 10
    assert (lib.lane_sweep(lane.set, 5, 5) if end == "sweep" else lib.lane_evict_idle(lane.set)) == 0
    assert lane.poll_one().input == GET
