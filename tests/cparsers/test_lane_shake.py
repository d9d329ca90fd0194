"""Handshakes in the lane: a good handshake ends there; after any failure the event loop can go on, or begin anew."""

import contextlib
import select
import socket
import ssl
import time

import pytest
from harness.certificates import MemoryClient
from harness.lanes import BUSY, FREE, GET, IDLE, LEFT, PATIENCE_SECONDS, SHAKEN, WHOLE

from aserve import Config
from aserve._cparsers import ffi, lib
from aserve.settings import TLSSettings
from aserve.tls.certificates import Certificates
from aserve.tls.sessions import OwnSession, why_no_library

pytestmark = pytest.mark.skipif(bool(why_no_library()), reason=f"no library: {why_no_library()}")
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture
def new_context(localhost):
    """Make contexts: new_context(tls_min="1.2") -> OwnContext."""

    def make(tls_min="1.2"):
        files = str(localhost.certificate), str(localhost.key)
        settings = TLSSettings(*files, (), None, "none", tls_min, Config().ciphers)
        return Certificates([settings], ["h2"]).wrap_by(settings).only

    return make


@pytest.fixture
def secure(lane, new_context):
    """A lane with handshakes."""
    lane.owned["sessions"] = ffi.new("tls_session *[]", 1024)
    lane.set.sessions, lane.set.listeners[0].is_tls, lane.set.listeners[0].shakes = lane.owned["sessions"], 1, 1
    lib.lane_renew(lane.set, 0, new_context().struct)
    return lane


def has_input(sock):
    return bool(select.select([sock], [], [], 0)[0])


class Client:
    """A client whose octets the test sends."""

    def __init__(self, lane, authority, **settings):
        self.lane, self.memory = lane, MemoryClient(authority, **settings)
        self.sock = lane.connect()

    def step(self):
        """Take received octets; return the octets to be sent, and whether the handshake is done."""
        if has_input(self.sock):
            self.memory.incoming.write(self.sock.recv(1 << 16))
        is_done = self.memory.shake_hands()
        return self.memory.outgoing.read(), is_done

    def begin(self, until=lambda octets, is_done: False):
        """Shake hands until an arrival, and return the arrival; or until a step's arrival, and return the step's octets."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            octets, is_done = self.step()
            if until(octets, is_done):
                return octets
            self.sock.sendall(octets)
            for arrival in self.lane.poll(10):
                return arrival
        raise AssertionError("no handshake")

    def ask(self):
        self.memory.session.write(GET)
        self.sock.sendall(self.memory.outgoing.read())

    def read(self):
        while True:
            with contextlib.suppress(ssl.SSLWantReadError):
                return self.memory.read()
            self.memory.incoming.write(self.sock.recv(1 << 16))


def is_last_flight(octets, is_done):
    return is_done


def test_handshakes_share_a_context(secure, authority):
    """Two at once; of each the lane tells the client's address, and then serves the requests."""
    clients = [Client(secure, authority, maximum_version=version) for version in VERSIONS]
    for client in clients:
        arrival = client.begin()
        host, port = client.sock.getsockname()
        assert (arrival.kind, arrival.is_first, arrival.peer) == (SHAKEN, True, f"{host}\0{port}")
        assert secure.state(arrival.fd) == BUSY
        lib.lane_begin(secure.set, arrival.fd, 1)
        client.step()
        for _ in range(2):
            client.ask()
            arrival = secure.poll_one()
            assert (arrival.kind, arrival.is_first, arrival.input) == (WHOLE, False, GET)
            assert secure.reply(arrival.fd) == 2 and client.read() == b"ok"


def test_a_request_with_the_last_flight_arrives(secure, authority):
    """No edge comes for octets read with the handshake's last octets."""
    client = Client(secure, authority)
    last = client.begin(is_last_flight)
    client.memory.session.write(GET)
    client.sock.sendall(last + client.memory.outgoing.read())
    arrival = secure.poll_one()
    assert arrival.kind == SHAKEN
    lib.lane_begin(secure.set, arrival.fd, 1)
    assert secure.poll_one().input == GET


def test_octet_by_octet_a_handshake_ends(secure, authority):
    """A whole ClientHello is answered."""
    client = Client(secure, authority)
    hello = client.begin(lambda octets, _: octets)
    for octet in hello[:-1]:
        client.sock.sendall(bytes([octet]))
        while secure.poll(0):
            raise AssertionError("nothing was to arrive")
    client.sock.sendall(hello[-1:])
    assert client.begin().kind == SHAKEN


def leave(lane, arrival):
    """Take a session from the lane; return the session, and the connection's end."""
    assert (arrival.kind, arrival.is_first, arrival.input) == (LEFT, True, b"") and lane.state(arrival.fd) == FREE
    conn = socket.socket(fileno=arrival.fd)
    lib.lane_left(lane.set)
    return OwnSession(lib.lane_take_session(lane.set, arrival.fd)), conn


def test_what_is_no_hello_leaves_unanswered(secure):
    """The event loop begins anew with these octets, and knows the answer and the log line."""
    for first in (GET, b"\x16\x03\x01\x00\x05\x02abcd", b"\x16\x03\x01\xff\xff" + b"x" * 20_000):
        client = secure.connect(first)
        session, conn = leave(secure, secure.poll_one())
        with conn:
            assert first.startswith(session.hello) and session.hello
            assert not has_input(client)


@pytest.mark.parametrize("of_client", [{"protocols": ["acme-tls/1"]}, {"maximum_version": ssl.TLSVersion.TLSv1_2}])
def test_a_hello_that_is_refused_leaves_unanswered(secure, authority, new_context, of_client):
    """Another protocol or version: perhaps somebody else understands it."""
    lib.lane_renew(secure.set, 0, new_context("1.3").struct)
    client = Client(secure, authority, **of_client)
    hello = client.begin(lambda octets, _: octets)
    client.sock.sendall(hello)
    session, conn = leave(secure, secure.poll_one())
    with conn:
        assert session.hello == hello and client.step() == (b"", False)


def test_http_2_leaves_when_the_handshake_is_done(secure, authority):
    """The session goes on where the connection does."""
    session, conn = leave(secure, Client(secure, authority, protocols=["h2", "http/1.1"]).begin())
    with conn:
        session.do_handshake()
        assert session.selected_alpn_protocol() == "h2" and session.hello == b""


def test_a_client_that_refuses_leaves_with_the_reason(secure, authority):
    """The alert is in the session."""
    client = Client(secure, authority, server_name="elsewhere")
    with pytest.raises(ssl.SSLError):
        client.begin()
    client.sock.sendall(client.memory.outgoing.read())
    session, conn = leave(secure, secure.poll_one())
    with conn, pytest.raises(ssl.SSLError, match="alert"):
        session.do_handshake()


@pytest.mark.parametrize("first", [b"", b"\x16", b"\x16\x03\x01"])
def test_a_client_that_goes_leaves_nothing(secure, first):
    """With octets and without; no arrival tells of the client."""
    client = secure.connect(first)
    while not secure.set.nconns:
        secure.poll(10)
    client.close()
    while secure.set.nconns:
        assert secure.poll(10) == []
    assert not any(secure.owned["sessions"][fd] for fd in range(100))


def test_looks_leave_handshakes_alone(secure, authority):
    """A look may come from a holder of the GIL, and tells of a due poll."""
    client = Client(secure, authority)
    client.sock.sendall(client.begin(lambda octets, _: octets))
    while not secure.set.is_shake_due:
        assert lib.lane_look(secure.set) == 0
    assert client.step() == (b"", False)
    assert client.begin().kind == SHAKEN and not secure.set.is_shake_due


def test_new_handshakes_take_the_last_context(secure, authority, new_context):
    """Without a context connections leave, unread; contexts without a taker are freed with the lane."""
    for _ in range(3):
        lib.lane_renew(secure.set, 0, new_context("1.3").struct)
    client = Client(secure, authority)
    assert client.begin().kind == SHAKEN and client.memory.session.version() == "TLSv1.3"
    lib.lane_renew(secure.set, 0, ffi.NULL)
    secure.connect(GET)
    arrival = secure.poll_one()
    assert arrival.kind == LEFT and lib.lane_take_session(secure.set, arrival.fd) == ffi.NULL
    with socket.socket(fileno=arrival.fd) as conn:
        assert conn.recv(100) == GET
    lib.lane_renew(secure.set, 0, new_context().struct)


def release(lane, seconds, cap=9):
    out = ffi.new("lane_released[]", cap)
    return [each.fd for each in out[0 : lib.lane_release_shaking(lane.set, seconds, out, cap)]]


def test_slow_handshakes_are_released(secure, authority):
    """By age, finished handshakes never; sweeps leave handshakes alone."""
    done = Client(secure, authority)
    kept = done.begin().fd
    lib.lane_begin(secure.set, kept, 1)
    secure.connect(b"\x16\x03\x01")
    while sum(session != ffi.NULL for session in secure.owned["sessions"]) < 2:
        assert secure.poll(10) == []
    secure.set.now += 1
    assert release(secure, 2) == [] and lib.lane_sweep(secure.set, -1, 9) == 0
    (fd,) = release(secure, 1)
    assert fd != kept and secure.state(kept) == IDLE and secure.state(fd) == FREE and secure.set.nconns == 2
    assert OwnSession(lib.lane_take_session(secure.set, fd)).hello == b"\x16\x03\x01"
    socket.socket(fileno=fd).close()


def test_the_end_of_the_lane_ends_handshakes(secure, authority):
    """Handshakes under way, and just finished handshakes; afterwards contexts are refused."""
    client, done = Client(secure, authority), Client(secure, authority)
    fd = done.begin().fd
    client.begin(is_last_flight)
    lib.lane_close(secure.set)
    assert secure.set.nconns == 1
    lib.lane_begin(secure.set, fd, 1)
    lib.lane_renew(secure.set, 0, ffi.NULL)
    assert secure.set.nconns == 0 and secure.set.listeners[0].next == ffi.NULL


def test_a_connection_that_cannot_begin_is_closed(secure, authority):
    """For want of memory."""
    client = Client(secure, authority)
    lib.lane_begin(secure.set, client.begin().fd, 0)
    assert secure.set.nconns == 0
    client.step()
    assert client.read() == b""


def test_a_handshake_that_began_with_urgent_data_keeps_no_octets(secure, authority):
    """The FIN wakes the lane, and is no part of the hello; the event loop goes on, and no octet is kept for a session begun anew."""
    client = Client(secure, authority)
    client.sock.send(b"!", socket.MSG_OOB)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not any(secure.owned["sessions"]) and time.monotonic() < deadline:
        secure.poll(10)
    out = ffi.new("lane_released[]", 1)
    assert lib.lane_release_shaking(secure.set, 0, out, 1) == 1
    session = OwnSession(lib.lane_take_session(secure.set, out[0].fd))
    with socket.socket(fileno=out[0].fd):
        lib.lane_left(secure.set)
        is_done = False
        while not is_done:
            is_done = client.memory.shake_hands()
            session.feed(client.memory.outgoing.read())
            with contextlib.suppress(ssl.SSLWantReadError):
                session.do_handshake()
            client.memory.incoming.write(session.take())
        client.memory.session.write(GET)
        session.feed(client.memory.outgoing.read())
        assert bytes(session.read(1000)) == GET and not session.hello
