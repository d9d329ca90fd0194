"""Sessions of C act like sessions of Python's ssl module, and tell the same facts."""

import contextlib
import gc
import socket
import ssl
import sys
import types

import pytest
from harness.certificates import MemoryClient

from aserve import Config
from aserve._cparsers import ffi, lib
from aserve.settings import TLSSettings
from aserve.tls import certificates as certificates_module
from aserve.tls import sessions
from aserve.tls.certificates import Certificates
from aserve.tls.sessions import OwnContext, OwnSession, PythonSession, why_no_library

pytestmark = pytest.mark.skipif(bool(why_no_library()), reason=f"no library: {why_no_library()}")


@pytest.fixture(params=["C", "Python"])
def new_session(request, localhost, monkeypatch):
    """Return a function to begin a session of either kind."""
    if request.param == "Python":
        monkeypatch.setattr(certificates_module, "why_no_library", lambda: "a test")
    settings = TLSSettings(
        str(localhost.certificate), str(localhost.key), (), None, "none", "1.2", Config().ciphers
    )  # fmt: skip

    def new():
        session = Certificates([settings]).wrap_by(settings)("localhost")
        assert type(session) is {"C": OwnSession, "Python": PythonSession}[request.param]
        return session

    return new


def pump(client, session):
    """Exchange all sent octets between both."""
    octets = client.outgoing.read()
    if octets:
        session.feed(octets)
    try:
        session.do_handshake()
    except ssl.SSLWantReadError:
        pass
    client.incoming.write(session.take())


@pytest.fixture
def pair(new_session, authority):
    """Return a function to make a client and a session: pair(maximum_version=...)."""

    def make(**settings):
        client, session = MemoryClient(authority, **settings), new_session()
        while not client.shake_hands():
            pump(client, session)
        pump(client, session)
        return client, session

    return make


def read(session):
    """Return all octets received by a session."""
    octets = b""
    try:
        while piece := session.read(1 << 14):
            octets += piece
    except ssl.SSLWantReadError:
        pass
    return octets


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_sessions_tell_what_was_agreed(pair, version):
    """Version, cipher suite and protocol are the same as at the client."""
    client, session = pair(maximum_version=version, protocols=["unknown", "http/1.1"])
    assert session.version() == client.session.version()
    assert session.cipher() is not None and session.cipher()[0] == client.session.cipher()[0]
    assert session.selected_alpn_protocol() == client.session.selected_alpn_protocol() == "http/1.1"
    assert not session.getpeercert() and not session.getpeercert(binary_form=True)


def test_clients_without_protocols_are_served(pair):
    """RFC 7301 3.2: none is chosen, and the handshake goes on."""
    client, session = pair()
    assert session.selected_alpn_protocol() is None is client.session.selected_alpn_protocol()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("size", [1, 1 << 14, 300_000])
def test_octets_arrive_both_ways(pair, version, size):
    """However many octets there are, and in whatever pieces their records come."""
    client, session = pair(maximum_version=version)
    body = bytes(range(256)) * (size // 256 + 1)
    client.session.write(body)
    records = client.outgoing.read()
    session.feed(records[:7])
    assert session.pending and read(session) == b"" and not session.pending
    session.feed(records[7:-1])
    early = read(session)
    session.feed(records[-1:])
    assert early + read(session) == body
    assert session.write(memoryview(body)[:size]) == size
    assert session.out_size > size
    client.incoming.write(session.take())
    assert session.out_size == 0 == len(session.take())
    received = b""
    while len(received) < size:
        received += client.read()
    assert received == body[:size]


def test_octets_go_to_a_socket_if_the_session_can(pair):
    """A session of Python's takes none; the transport has the records."""
    client, session = pair()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sent = session.send(ours.fileno(), b"octets")
        session.write(b"octets"[sent:])
        client.incoming.write(theirs.recv(1 << 16) if sent else session.take())
    assert (sent, client.read()) == (6 if type(session) is OwnSession else 0, b"octets")


def test_a_gone_client_is_an_error_of_the_socket(pair):
    """A session of C's raises an error; a session of Python's leaves the socket to the transport."""
    _, session = pair()
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours, contextlib.nullcontext() if type(session) is PythonSession else pytest.raises(ConnectionError):
        assert session.send(ours.fileno(), b"octets") == 0


def test_records_arrive_octet_by_octet(pair):
    """No record in smallest pieces is lost or read twice."""
    client, session = pair()
    received = b""
    for number in range(5):
        client.session.write(b"request %d" % number)
        for octet in client.outgoing.read():
            session.feed(bytes([octet]))
            received += read(session)
    assert received == b"request 0request 1request 2request 3request 4"


def test_small_reads_leave_the_rest(pair):
    """The rest stays, and is told as pending where known without OpenSSL's help."""
    client, session = pair()
    client.session.write(b"abcdef")
    session.feed(client.outgoing.read())
    assert session.read(2) == b"ab" and session.read(100) == b"cdef"


def test_whole_records_are_read_at_once(pair):
    """C reads as many as have come; Python's session one. What breaks the session, or ends it, comes behind them."""
    client, session = pair()
    for _ in range(3):
        client.session.write(b"a" * (1 << 14))
    session.feed(client.outgoing.read() + b"garbage")
    sizes = [3 << 14] if isinstance(session, OwnSession) else [1 << 14] * 3
    assert [len(session.read(1 << 18)) for _ in sizes] == sizes and session.pending
    with pytest.raises(ssl.SSLError):
        session.read(1 << 18)


def test_closure_alerts_go_both_ways(pair):
    """RFC 8446 6.1: each side learns of the end, and earlier octets count."""
    client, session = pair()
    client.session.write(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        client.read()  # tickets
    with pytest.raises(ssl.SSLWantReadError):
        client.session.unwrap()
    session.feed(client.outgoing.read())
    assert session.read(100) == b"last" and session.read(100) == b"" and session.read(100) == b""
    try:
        session.unwrap()
    except OSError:
        pass  # Python's may wait for an answer
    client.incoming.write(session.take())
    client.session.unwrap()  # complete


@pytest.mark.parametrize(
    "garbage",
    [b"\x17\x03\x03\x00\x20" + bytes(32), b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 5, b"\x17\x03\x03\xff\xff" * 2],
)
def test_garbage_breaks_a_session_for_good(pair, garbage):
    """The earlier octets are read; then each call fails, with a reason, and an alert is due."""
    client, session = pair()
    client.session.write(b"good")
    session.feed(client.outgoing.read() + garbage)
    assert session.read(100) == b"good"
    for _ in range(1 + isinstance(session, OwnSession)):
        with pytest.raises(ssl.SSLError) as caught:
            session.read(100)
        assert not isinstance(caught.value, ssl.SSLWantReadError) and caught.value.reason
    alert = session.take()
    assert alert[:1] in (b"\x15", b"\x17")
    if isinstance(session, OwnSession):
        for step in (session.do_handshake, lambda: session.write(b"more")):
            with pytest.raises(ssl.SSLError):
                step()
        session.unwrap()
        assert not session.take()


def test_garbage_for_a_handshake_fails_it(new_session):
    session = new_session()
    session.feed(b"\x16\x03\x01\x00\x05xxxxx")
    with pytest.raises(ssl.SSLError) as caught:
        session.do_handshake()
    assert "_" in caught.value.reason or " " in caught.value.reason
    session.unwrap() if isinstance(session, OwnSession) else None


def test_other_errors_do_not_count(pair, new_session):
    """An error left in OpenSSL's queue by another session fails no call of this one."""
    client, session = pair()
    broken = new_session()
    broken.feed(b"\x16\x03\x01\x00\x05xxxxx")
    with pytest.raises(ssl.SSLError):
        broken.do_handshake()
    with pytest.raises(ssl.SSLWantReadError):
        session.read(1)
    with pytest.raises(ssl.SSLWantReadError):
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(
            ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="a"
        ).do_handshake()


def test_sessions_outlive_their_context(pair):
    """A context given up, as in a reload, serves all sessions begun."""
    client, session = pair()
    gc.collect()  # the Certificates
    client.session.write(b"still")
    session.feed(client.outgoing.read())
    assert session.read(100) == b"still"


def test_released_sessions_are_another_owners(pair):
    """The pointer goes to another owner, to be freed there; the session goes on from the same point."""
    client, session = pair()
    if isinstance(session, PythonSession):
        return
    again = OwnSession(session.release())
    del session
    client.session.write(b"here")
    again.feed(client.outgoing.read())
    assert again.read(100) == b"here"


@pytest.mark.parametrize("fault", ["certificate", "key", "ciphers", "protocols"])
def test_contexts_of_unusable_files_are_refused(localhost, authority, fault):
    """A file refused by OpenSSL raises an error, and Python's context stays in use."""
    like = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    like.minimum_version = ssl.TLSVersion.TLSv1_2
    other = authority.issue("other.org")
    made = {
        "chain": str(localhost.certificate), "key": str(localhost.key), "ciphers": Config().ciphers, "protocols": ["a"],
    }  # fmt: skip
    OwnContext(like, **made)
    made.update(
        {
            "certificate": {"chain": "/nowhere"},
            "key": {"key": str(other.key)},
            "ciphers": {"ciphers": "FOO"},
            "protocols": {"protocols": ["x" * 200, "y" * 200]},
        }[fault]
    )
    with pytest.raises(OSError, match="refused"):
        OwnContext(like, **made)


def test_certificates_fall_back_to_python(localhost, monkeypatch, caplog):
    """A context C cannot make leaves all connections to Python, and the log says so."""

    def refuse(*arguments):
        raise OSError("meant so")

    monkeypatch.setattr(certificates_module, "OwnContext", refuse)
    settings = TLSSettings(str(localhost.certificate), str(localhost.key), (), None, "none", "1.2", Config().ciphers)
    assert type(Certificates([settings]).wrap_by(settings)("")) is PythonSession
    assert "meant so; Python serves its connections" in caplog.text


def test_no_memory_is_an_error(pair, monkeypatch, localhost):
    """The error is Python's usual one."""
    _, session = pair()
    if isinstance(session, PythonSession):
        return
    monkeypatch.setattr(
        sessions, "lib", types.SimpleNamespace(tls_feed=lambda *_: -1, tls_begin=lambda _: ffi.NULL)
    )  # fmt: skip
    with pytest.raises(MemoryError):
        session.feed(b"x")
    with pytest.raises(MemoryError):
        OwnSession.of(types.SimpleNamespace(struct=None))


# The library


@pytest.fixture
def anew(monkeypatch):
    """Look for the library again, in this test."""
    return why_no_library.__wrapped__


def test_the_library_is_the_one_of_python(anew):
    """OpenSSL's functions are found in the library loaded by Python's ssl module; twice does no harm."""
    assert anew() == "" == anew()


def test_reasons_not_to_use_the_library(anew, monkeypatch):
    """Each is a few words, for the line at the start."""
    monkeypatch.setattr(sessions.ssl, "OPENSSL_VERSION", "LibreSSL 3.9")
    assert anew() == "LibreSSL 3.9"
    monkeypatch.undo()
    module = "_pypy_openssl" if sys.implementation.name == "pypy" else "_ssl"
    monkeypatch.setitem(sys.modules, module, types.ModuleType("built in"))
    assert anew() == "OpenSSL is linked into Python"
    monkeypatch.setattr(sessions, "lib", types.SimpleNamespace(lane_available=lambda: 0))
    assert anew() == "a system without epoll"


def test_a_library_without_the_functions_is_told():
    """The name of the missing function comes back; the functions found before stay in use."""
    assert ffi.string(lib.tls_open(b"/nowhere.so")) == b"/nowhere.so"
