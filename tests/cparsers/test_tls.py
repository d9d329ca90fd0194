"""Sessions of TLS in the lane: content of records arrives as without TLS, and responses are in records."""

import contextlib
import select
import socket
import ssl

import pytest
from harness.certificates import MemoryClient
from harness.lanes import BEGUN, BUSY, FREE, GET, GONE, IDLE, LAST_GET, LEFT, PATIENCE_SECONDS, WHOLE

from aserve import Config
from aserve._cparsers import ffi, lib
from aserve.settings import TLSSettings
from aserve.tls.certificates import Certificates
from aserve.tls.sessions import OwnSession, why_no_library

pytestmark = pytest.mark.skipif(bool(why_no_library()), reason=f"no library: {why_no_library()}")
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


class Secure:
    """A client of TLS whose connection is in a lane."""

    def __init__(self, lane, client, sock, fd):
        self.lane, self.client, self.sock, self.fd = lane, client, sock, fd

    def records(self, octets):
        self.client.session.write(octets)
        return self.client.outgoing.read()

    def ask(self, octets=GET):
        self.sock.sendall(self.records(octets))

    def read(self, count):
        """Return as many octets of responses."""
        octets = b""
        while len(octets) < count:
            try:
                piece = self.client.read()
            except ssl.SSLWantReadError:
                received = self.sock.recv(1 << 16)
                if not received:
                    break
                self.client.incoming.write(received)
                continue
            if not piece:
                break
            octets += piece
        return octets

    def arrival(self):
        return self.lane.poll_one()

    def settle(self):
        """Poll until nothing is left to be done: octets sent over loopback have come."""
        while self.lane.poll(0):
            raise AssertionError("nothing was to arrive")


@pytest.fixture
def enter(lane, authority, localhost):
    """Return a function that puts a client into the lane: enter(feed=b"", **settings of the client)."""
    lane.owned["sessions"] = ffi.new("tls_session *[]", 1024)
    lane.set.sessions, lane.set.listeners[0].is_tls = lane.owned["sessions"], 1
    settings = TLSSettings(str(localhost.certificate), str(localhost.key), (), None, "none", "1.2", Config().ciphers)
    wrap = Certificates([settings]).wrap_by(settings)

    def make(with_handshake=b"", **of_client):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            sock = socket.create_connection(listener.getsockname(), PATIENCE_SECONDS)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            accepted, _ = listener.accept()
        lane.clients.append(sock)
        accepted.setblocking(False)
        client, session = MemoryClient(authority, **of_client), wrap("localhost")
        is_done = False
        while not (client.shake_hands() and is_done):
            session.feed(client.outgoing.read())
            with contextlib.suppress(ssl.SSLWantReadError):
                session.do_handshake()
                is_done = True
            if not is_done or session.version() == "TLSv1.2":
                client.incoming.write(session.take())
        secure = Secure(lane, client, sock, accepted.detach())
        if with_handshake:
            session.feed(secure.records(with_handshake))
        assert lib.lane_adopt(lane.set, secure.fd, 0, session.release(), 0) == 1
        return secure

    return make


def leave(lane, fd):
    """Take the session of a connection outside the lane; return the session, and the connection's end."""
    conn = socket.socket(fileno=fd)
    conn.setblocking(False)  # PyPy's socket makes a given descriptor blocking
    return OwnSession(lib.lane_take_session(lane.set, fd)), conn


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_arrive_and_are_answered(lane, enter, version):
    """In turn, each in an arrival; the handshake knows the client, so no request is the first."""
    secure = enter(maximum_version=version)
    for number in range(3):
        secure.ask(GET)
        arrival = secure.arrival()
        assert arrival.kind == WHOLE and arrival.input == GET and not arrival.is_first and not arrival.peer
        body = b"%d" % number * 200
        assert lane.reply(arrival.fd, b"head", body=body) == 204
        assert secure.read(204) == b"head" + body and lane.state(arrival.fd) == IDLE


def test_a_request_with_the_handshake_arrives(lane, enter):
    """No edge comes for octets that were read with the handshake's last."""
    secure = enter(with_handshake=GET)
    assert secure.arrival().input == GET
    lane.reply(secure.fd)
    assert secure.read(2) == b"ok"


def test_octet_by_octet_a_request_arrives_once(lane, enter):
    """Parts of a record are nothing yet."""
    secure = enter()
    records = secure.records(GET)
    for octet in records[:-1]:
        secure.sock.sendall(bytes([octet]))
        secure.settle()
    secure.sock.sendall(records[-1:])
    assert secure.arrival().input == GET


def test_a_head_in_two_records_leaves_or_arrives(lane, enter):
    """Two records of a read are a single arrival; a part of a head leaves, with the octets."""
    secure = enter()
    secure.sock.sendall(secure.records(GET[:5]) + secure.records(GET[5:]))
    arrival = secure.arrival()
    octets = arrival.input
    if arrival.kind == LEFT:  # TCP has split the octets of a send
        session, conn = leave(lane, arrival.fd)
        with conn:
            octets += session.read(100)
    assert octets == GET


@pytest.mark.parametrize("count", [2, 40])
def test_pipelined_requests_leave(lane, enter, count):
    """With all octets: decrypted octets, and octets still in the session."""
    lane.set.read_cap = 300
    secure = enter()
    secure.ask(GET * count)
    arrival = secure.arrival()
    assert arrival.kind == LEFT and lane.state(secure.fd) == FREE
    session, conn = leave(lane, secure.fd)
    octets = arrival.input
    with conn, contextlib.suppress(ssl.SSLWantReadError):
        while True:
            octets += session.read(1000)
    assert octets == GET * count


@pytest.mark.parametrize("size", [10, 100_000, 900_000])
def test_bodies_arrive_whole(lane, enter, size):
    """In as many parts as reads need; what comes behind is the next request."""
    secure = enter()
    body = bytes(range(256)) * (size // 256 + 1)
    body = body[:size]
    secure.sock.setblocking(False)
    octets, received = secure.records(POST % size + body) + secure.records(GET), b""
    kinds = []
    while len(received) < len(POST % size) + size:
        with contextlib.suppress(BlockingIOError):
            octets = octets[secure.sock.send(octets) :]
        for arrival in lane.poll(10):
            received += arrival.input
            kinds.append(arrival.kind)
        if kinds and kinds[-1] == LEFT:
            break  # small, and both were read at once
    secure.sock.settimeout(PATIENCE_SECONDS)
    secure.sock.sendall(octets)
    if kinds[-1] == LEFT:
        assert received.startswith(POST % size + body)
        leave(lane, secure.fd)[1].close()
        return
    assert received == POST % size + body
    assert lane.reply(secure.fd) == 2 and secure.read(2) == b"ok"
    assert secure.arrival().input == GET


def test_a_client_that_does_not_read_what_openssl_answers(lane, enter):
    """Answers to wishes for new keys, for which other records stand here, have a bound, also beside octets of a body."""
    secure = enter()
    secure.ask(POST % 10 + b"a")
    assert secure.arrival().kind == BEGUN
    records = bytes(1 << 25)  # more than the kernel takes
    assert lib.tls_write(lane.set.sessions[secure.fd], records, len(records)) == len(records)
    secure.ask(b"b")
    assert secure.arrival().kind == GONE and lane.state(secure.fd) == FREE


@pytest.mark.parametrize("ending", ["alert", "FIN", "both", "reset"])
def test_an_end_closes_an_idle_connection(lane, enter, ending):
    """Whatever the client's way of going; an alert is answered by an alert."""
    secure = enter()
    with contextlib.suppress(ssl.SSLWantReadError):
        secure.sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            secure.client.incoming.write(secure.sock.recv(1 << 16))  # tickets
        secure.sock.settimeout(PATIENCE_SECONDS)
        secure.client.read()
    if ending in ("alert", "both"):
        with contextlib.suppress(ssl.SSLWantReadError):
            secure.client.session.unwrap()
        secure.sock.sendall(secure.client.outgoing.read())
    if ending in ("FIN", "both"):
        secure.sock.shutdown(socket.SHUT_WR)
    if ending == "reset":
        secure.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        secure.sock.close()
    while lane.set.nconns:
        assert lane.poll() == []
    assert lane.owned["sessions"][secure.fd] == ffi.NULL
    if ending != "reset":
        assert secure.sock.recv(100)[:1] in (b"\x15", b"\x17")


@pytest.mark.parametrize("is_told", [False, True])
def test_an_end_within_a_record_is_seen(lane, enter, is_told):
    """A part of a record and the FIN may come with one edge: no connection stays for ever."""
    secure = enter()
    secure.sock.sendall(secure.records(GET)[:-3])
    if is_told:
        secure.settle()
    secure.sock.shutdown(socket.SHUT_WR)
    while lane.set.nconns:
        assert lane.poll() == []


def test_a_request_and_the_end_at_once(lane, enter):
    """The request is answered by whoever has it; then the end counts."""
    secure = enter()
    octets = secure.records(GET)
    with contextlib.suppress(OSError):
        secure.client.session.unwrap()
    secure.sock.sendall(octets + secure.client.outgoing.read())
    secure.sock.shutdown(socket.SHUT_WR)
    arrival = secure.arrival()
    assert arrival.input == GET
    if arrival.kind == LEFT:
        session, conn = leave(lane, arrival.fd)
        with conn:
            assert session.read(10) == b""
        return
    lane.reply(arrival.fd)
    while lane.set.nconns:
        assert lane.poll() == []


@pytest.mark.parametrize("garbage", [b"\x17\x03\x03\x00\x20" + bytes(32), b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 9])
def test_garbage_leaves_with_a_broken_session(lane, enter, garbage):
    """The event loop logs the reason and ends the session, as without the lane."""
    secure = enter()
    secure.sock.sendall(garbage)
    arrival = secure.arrival()
    assert arrival.kind == LEFT and arrival.input == b"" and not arrival.is_first
    session, conn = leave(lane, arrival.fd)
    with conn, pytest.raises(ssl.SSLError) as caught:
        session.read(1)
    assert caught.value.reason
    assert secure.sock.recv(100)[:1] in (b"\x15", b"\x17")  # the alert is out


def test_garbage_within_a_body_ends_the_request(lane, enter):
    """No request is left with a part of a body."""
    secure = enter()
    secure.ask(POST % 1000 + b"x")
    assert secure.arrival().kind == 2
    secure.sock.sendall(b"\xff" * 9)
    assert secure.arrival().kind == GONE and lane.set.nconns == 0


def test_garbage_behind_a_request_counts_later(lane, enter):
    """The request before it leaves or arrives whole."""
    secure = enter()
    secure.sock.sendall(secure.records(GET) + b"\xff" * 9)
    arrival = secure.arrival()
    assert arrival.input == GET
    if arrival.kind == LEFT:
        session, conn = leave(lane, arrival.fd)
        with conn, pytest.raises(ssl.SSLError):
            session.read(1)


def test_a_client_that_does_not_read_is_not_waited_for(lane, enter):
    """Octets refused by the socket stay with the session and with the caller; together these are the response."""
    secure = enter()
    secure.ask()
    arrival = secure.arrival()
    body = bytes(range(256)) * 40_000  # 10 MB: more than the sockets take
    sent = lane.reply(arrival.fd, b"head", body=body)
    assert 0 < sent < len(body) and lane.state(arrival.fd) == BUSY and lib.lane_holds(lane.set, arrival.fd)
    assert lib.lane_release(lane.set, arrival.fd) == 1
    session, conn = leave(lane, arrival.fd)
    assert 0 < session.out_size < 100_000
    session.write((b"head" + body)[sent:])
    octets, at, received = session.take(), 0, bytearray()
    with conn:
        while len(received) < len(body) + 4:
            with contextlib.suppress(BlockingIOError):
                at += conn.send(octets[at : at + (1 << 16)])
            received += secure.read(1)
    assert received == b"head" + body


def test_records_that_are_held_are_told(lane, enter):
    """A caller hears of records in the session alone: no piece overtakes these."""
    secure = enter()
    secure.ask()
    fd = secure.arrival().fd
    sent, code, piece = 0, 0, ffi.new("char[]", 50_000)
    part = ffi.new("lane_part *", (piece, len(piece)))
    while (code := lib.lane_send(lane.set, fd, part, 1)) == len(piece):
        sent += code
    assert code == lib.LANE_HELD or 0 <= code < len(piece)
    sent += len(piece) if code == lib.LANE_HELD else code
    assert lib.lane_send(lane.set, fd, part, 1) == 0
    assert lane.reply(fd, b"") == lib.LANE_HELD and lane.state(fd) == BUSY
    received = 0
    while received < sent:
        received += len(secure.read(1))
        lib.lane_send(lane.set, fd, part, 0)
    assert lane.reply(fd, b"") == 0 and lane.state(fd) == IDLE


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_client_that_is_gone(lane, enter, is_reset):
    """The response is lost, and nothing is left of the session."""
    secure = enter()
    secure.ask()
    fd = secure.arrival().fd
    secure.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    secure.sock.close()
    select.select([fd], [], [], PATIENCE_SECONDS)
    assert lane.reply(fd, b"head") == lib.LANE_LOST and lane.set.nconns == 0
    assert lane.owned["sessions"][fd] == ffi.NULL


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [0, 2, 1 << 14, 3 << 14])
def test_a_last_response_ends_with_an_alert(lane, enter, version, size):
    """RFC 8446 6.1: one alert, and the connection closes; the client's own alert comes too late to matter."""
    secure = enter(maximum_version=version)
    secure.ask(LAST_GET)
    assert lane.reply(secure.arrival().fd, b"x" * size, keep=False) == size
    assert lane.set.nconns == 0 and lane.owned["sessions"][secure.fd] == ffi.NULL
    assert secure.read(size + 1) == b"x" * size
    secure.client.session.unwrap()
    assert secure.sock.recv(9) == b""


def test_a_last_response_waits_for_nobody(lane, enter):
    """A client's octets behind the request, even an alert, are for the event loop, for lingering; so are octets without room in the socket."""
    secure, slow = enter(), enter()
    for client in (secure, slow):
        client.ask(LAST_GET)
        assert client.arrival().fd == client.fd
    with contextlib.suppress(ssl.SSLError):
        secure.client.session.unwrap()
    secure.sock.sendall(secure.client.outgoing.read())
    while lane.state(secure.fd) == BUSY:
        assert lane.poll() == []
    assert lane.reply(secure.fd, keep=False) == lib.LANE_UNSENT
    assert 0 < lane.reply(slow.fd, b"head", body=bytes(10_000_000), keep=False) < 10_000_000
    for client in (secure, slow):
        assert lib.lane_release(lane.set, client.fd) == 1
        leave(lane, client.fd)[1].close()


def test_idle_connections_stay_where_their_session_is(lane, enter):
    """No second process has the session; a sweep closes the connections with an alert."""
    secure = enter()
    assert lane.release_idle() == []
    assert lib.lane_sweep(lane.set, -1, -1) == 1 and lane.set.nconns == 0
    octets = b""
    while piece := secure.sock.recv(1 << 16):
        octets += piece
    assert octets


def test_the_end_of_the_lane_frees_sessions(lane, enter):
    """Idle connections close at once, and busy ones with their reply."""
    idle, busy = enter(), enter()
    busy.ask()
    fd = busy.arrival().fd
    lib.lane_close(lane.set)
    assert lane.owned["sessions"][idle.fd] == ffi.NULL and lane.set.nconns == 1
    assert lane.reply(fd) == lib.LANE_LOST and lane.set.nconns == 0
    assert lane.owned["sessions"][fd] == ffi.NULL


def test_a_place_that_is_taken_refuses_a_session(lane, enter):
    """The session stays the caller's."""
    secure = enter()
    assert lib.lane_adopt(lane.set, secure.fd, 0, ffi.NULL, 1) == 0
    assert lane.owned["sessions"][secure.fd] != ffi.NULL


def test_many_connections_share_the_lane(lane, enter):
    """Three hundred, each with its own session."""
    clients = [enter() for _ in range(300)]
    for secure in clients:
        secure.ask(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % secure.fd)
    for arrival in lane.poll_all(300):
        assert arrival.vars["PATH_INFO"] == f"/{arrival.fd}"
        lane.reply(arrival.fd, b"%05d" % arrival.fd)
    for secure in clients:
        assert secure.read(5) == b"%05d" % secure.fd
