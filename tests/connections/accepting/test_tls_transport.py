"""A TLS session: its socket carries only records, and every way to end a session is seen.

The client is OpenSSL's own, over memory; the socket's transport is the fake of harness/fakes.py, and loop and worker go on only when told to. Beside
this file: how sessions end (test_tls_transport_ends.py), and handshakes that fail (_handshakes).
"""

import os
import ssl

import pytest
from harness.replies import echo
from harness.tls_lines import POST, Line, large

from aserve.connections.accepting.greeting import identify_by
from aserve.connections.connection import Connection
from aserve.proxies.peers import Peers
from aserve.tls.sessions import why_no_library
from aserve.wsgi import FileWrapper

# Handshake and requests


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_requests_are_answered_in_one_session(new_line, version):
    """Requests are answered one after another; the environ tells their session."""

    def app(environ, start_response):
        start_response("200 OK", [])
        return [f"{environ['SSL_PROTOCOL']} {environ['SSL_CLIENT_VERIFY']} {environ['REMOTE_ADDR']}".encode()]

    line = new_line(app, {"maximum_version": version}).shake_hands()
    for _ in range(3):
        assert line.ask().body() == b"%s NONE 203.0.113.7" % line.client.session.version().encode()
    assert line.harness.service.connections == {line.connection}
    assert "SSL_PROTOCOL" not in line.harness.service.base_environ
    assert not line.raw.is_closing()


@pytest.mark.parametrize("count", [1, 7, 1000])
def test_in_small_pieces(new_line, count):
    """However the octets come, handshake and requests are the same."""
    line = new_line()
    real = line.transport.data_received

    def in_pieces(data):
        for position in range(0, len(data), count):
            real(data[position : position + count])

    line.raw.protocol = line.transport
    line.transport = type("Pieces", (), {"data_received": staticmethod(in_pieces), "_connection": None})()
    line.shake_hands()
    line.ask(POST + POST)
    octets = line.answer()[0]
    assert octets.count(b"HTTP/1.1 200") == 2 and octets.count(b"/hello") == 2


def test_request_with_the_handshake(new_line):
    """A request sent with the client's last words of the handshake is answered."""
    line = new_line()
    while not line.client.shake_hands():
        line.pump()
    line.ask()  # sent together with Finished
    assert line.body() == b"/"


def test_a_body_of_many_records_comes_whole(new_line):
    line = new_line().shake_hands()
    body = bytes(range(256)) * 1000
    line.ask(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert line.body() == b"/" + body


def test_a_session_may_be_resumed(new_line, authority, localhost):
    """RFC 8446 4.6.1: a returning client may resume its session."""
    first = new_line(client={"maximum_version": ssl.TLSVersion.TLSv1_2}).shake_hands()
    assert first.ask().body() == b"/"
    second = Line(first.harness, authority)
    first.harness.lines.append(second)
    client = second.client
    client.session = first.client.context.wrap_bio(
        client.incoming, client.outgoing, server_hostname="localhost", session=first.client.session.session
    )
    second.shake_hands()
    assert client.session.session_reused
    assert second.ask().body() == b"/"


# Responses: in records, whatever their form


def pieces(environ, start_response):
    start_response("200 OK", [("Content-Length", "150000")])
    return iter([bytes(50_000)] * 3)


def fails(environ, start_response):
    raise ValueError("meant so")


@pytest.mark.parametrize(
    ("app", "count"),
    [(echo, 1), (large, 1_000_000), (pieces, 150_000), (fails, 58)],
    ids=["small", "large", "pieces", "fails"],
)
def test_forms_of_response(new_line, app, count, monkeypatch):
    """Each way to hand over a response ends in records; nobody writes to the socket past the session."""
    for module in ("outbox", "sendfile"):
        monkeypatch.setattr(f"aserve.connections.loop.{module}.os", None)
    line = new_line(app).shake_hands()
    for _ in range(2):
        assert len(line.ask().body()) >= count
    assert line.connection.fd == -1


def test_a_refusal_closes_both_ways(new_line):
    """An error before the app closes the session both ways, too."""
    line = new_line().shake_hands()
    octets, is_over = line.ask(b"GET /\r\n\r\n").answer()
    assert octets.startswith(b"HTTP/1.1 400 ") and is_over
    assert line.raw.calls[-2:] == ["write_eof", "resume_reading"]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 4000)
    return path


def sends(open_file, *headers):
    def app(environ, start_response):
        start_response("200 OK", list(headers))
        return FileWrapper(open_file())

    return app


def test_a_file_is_read_in_turns(new_line, path):
    """A file is read piece by piece, each in its turn of the loop, and closed."""
    files = []

    def open_file():
        files.append(open(path, "rb"))
        files[-1].seek(1000)
        return files[-1]

    line = new_line(sends(open_file)).shake_hands()
    for _ in range(2):
        assert line.ask().body() == path.read_bytes()[1000:]
    assert all(file.closed for file in files)


def test_an_empty_file_is_not_read(new_line, path):
    """Nothing is read of a file with a length of 0."""
    line = new_line(sends(lambda: open(path, "rb"), ("Content-Length", "0"))).shake_hands()
    assert line.ask().answer()[0].endswith(b"\r\n\r\n")


def test_file_to_a_slow_client(new_line, path):
    """While the client does not read, neither is the file read."""
    line = new_line(sends(lambda: open(path, "rb"))).shake_hands()
    line.raw.is_stuck = True
    line.ask().pump()
    for _ in range(5):
        line.harness.loop.turn()
    assert line.raw.get_write_buffer_size() == line.transport.get_write_buffer_size() < 600_000
    line.raw.unstick()
    assert line.body() == path.read_bytes()


def test_file_that_shrinks(new_line, path, log):
    """A file that ends early ends the connection: its length shows the cut."""
    line = new_line(sends(lambda: open(path, "rb"))).shake_hands()
    line.raw.is_stuck = True
    line.ask().pump()
    path.write_bytes(b"")
    line.raw.unstick()
    assert line.answer()[1]
    assert "abort" not in line.raw.calls and "the file ended" in log.text
    line.harness.executor.run()


def test_file_that_is_closed(new_line, path, log):
    """A file closed by the app meanwhile ends the connection, too."""
    files = []
    line = new_line(sends(lambda: files.append(open(path, "rb")) or files[0])).shake_hands()
    line.raw.is_stuck = True
    line.ask().pump()
    files[0].close()
    line.raw.unstick()
    line.answer()
    assert "write_eof" in line.raw.calls and "abort" not in line.raw.calls and "reading the file failed" in log.text
    line.harness.executor.run()


def test_client_lost_within_a_file(new_line, path):
    """When the client is gone, the file is closed."""
    files = []
    line = new_line(sends(lambda: files.append(open(path, "rb")) or files[0])).shake_hands()
    line.raw.is_stuck = True
    line.ask().pump()
    line.raw.lose()
    while line.harness.loop.soon:
        line.harness.loop.turn()
    line.harness.executor.run()
    assert files[0].closed
    line.sent = b""  # the last record was cut with the client


# Back-pressure


def test_back_pressure_reaches_the_connection(new_line):
    """The connection knows when the socket is full, and when it has room again."""
    line = new_line(large).shake_hands()
    line.raw.is_stuck = True
    line.ask().pump()
    assert line.connection._outbox.is_write_paused
    assert line.raw.get_write_buffer_size() < 600_000
    line.raw.unstick()
    assert len(line.body()) == 1_000_000
    assert not line.connection._outbox.is_write_paused


def test_peers_with_credentials(new_line):
    """Where a unix socket believes only some peers, a connection finds its own."""
    seen = []

    def app(environ, start_response):
        start_response("200 OK", [])
        seen.append(line.connection.connection.is_believed)
        return [environ["SSL_PROTOCOL"].encode()]

    line = new_line(app, bind="https://unix:/nowhere")
    for uid, is_believed in ((os.getuid(), True), (os.getuid() + 1, False)):
        line.harness.service.identify = identify_by(Peers([f"unix:uid={uid}"]))
        line = Line(line.harness, line.authority)
        line.raw.extra["peername"] = ""
        line.harness.lines.append(line)
        line.transport.connection_made(line.raw)
        assert line.shake_hands().ask().body() == b"TLSv1.3"
        assert line.connection.fd == -1 and seen.pop() is is_believed


def test_before_there_is_a_connection(new_line):
    """The socket's transport may be full before the handshake is done."""
    line = new_line()
    line.transport.pause_writing()
    line.transport.resume_writing()
    line.shake_hands()


def test_what_a_transport_knows(new_line):
    """Reading, limits and information are the socket's."""
    line = new_line().shake_hands()
    transport = line.transport
    transport.pause_reading()
    assert not transport.is_reading() and not line.raw.is_reading()
    transport.resume_reading()
    assert transport.is_reading()
    transport.set_write_buffer_limits(high=7)
    assert line.raw.high == 7
    assert transport.get_extra_info("peername") == ("203.0.113.7", 4711)
    assert transport.get_extra_info("ssl_object").version() == "TLSv1.3"
    assert transport.can_write_eof()
    transport.write(b"")


# The lane


@pytest.mark.parametrize("is_taken", [False, True])
def test_the_lane_is_asked_first(new_line, is_taken):
    """The lane gets the session behind the handshake, or the connection is served here."""
    line, asked = new_line(), []

    def take_back(connection, fd, session, is_used):
        asked.append((connection.remote_addr, fd == line.raw.get_extra_info("socket").fileno(), is_used))
        if is_taken:
            line.session = session, session.release()
        return is_taken

    line.harness.service.take_back = take_back
    while not line.client.shake_hands():
        line.pump()
    line.pump()
    assert asked == [("203.0.113.7", True, False)] or why_no_library()
    if not is_taken or why_no_library():
        assert line.ask().body() == b"/"
        return
    assert line.raw.calls == ["close"] and line.transport.is_closing() and not line.harness.service.connections
    session, struct = line.session
    session.own(struct)
    assert session.out_size  # the tickets


def test_a_client_that_is_gone_behind_its_handshake(new_line, monkeypatch):
    """Without an address the client would pass for a unix socket's."""
    line = new_line()
    monkeypatch.setattr(Connection, "identify", lambda connection, transport: False)
    while not line.client.shake_hands():
        line.pump()
    line.pump()
    assert line.raw.calls == ["abort"]
