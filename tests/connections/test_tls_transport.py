"""A TLS session: what goes to the socket is always in records, and every way to end one is seen.

The client is OpenSSL's own, over memory; the socket's transport is the fake of harness/fakes.py, and
loop and worker go on only when told to.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import ssl

import pytest
from harness.certificates import MemoryClient
from harness.fakes import Bench

from aserve.connections.greeting import identify_by
from aserve.connections.tls_transport import MAX_REPLY_BYTES, TLSTransport
from aserve.connections.wire_loop import LINGER_BYTES, LoopWire
from aserve.proxies.peers import Peers
from aserve.settings import parse_bind
from aserve.tls.certificates import Certificates
from aserve.wsgi import FileWrapper

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
GET_CLOSE = GET[:-2] + b"Connection: close\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"


def echo(environ, start_response):
    start_response("200 OK", [])
    return [environ["PATH_INFO"].encode("latin-1"), environ["wsgi.input"].read()]


class Line:
    """A client, a session, and the socket between them; `sent` is all that came out of the socket."""

    def __init__(self, bench, authority, **settings):
        self.bench, self.authority = bench, authority
        self.client = MemoryClient(authority, **settings)
        self.transport = TLSTransport(bench.service)
        plain, self.raw = bench.connect()  # for its socket and loop only
        bench.service.connections.discard(plain)
        self.raw.calls.clear()
        self.sent = b""
        self.raw.connect(self.transport)

    @property
    def connection(self):
        return self.transport._wire

    def pump(self):
        """Let both sides have what the other has sent; return whether anything was."""
        octets = self.client.outgoing.read()
        if octets:
            self.transport.data_received(octets)
        self.bench.executor.run()
        received = self.raw.received()
        self.sent += received
        self.client.incoming.write(received)
        return bool(octets or received)

    def shake_hands(self):
        while not self.client.shake_hands() or self.pump():
            self.pump()
        return self

    def ask(self, octets=GET):
        self.client.session.write(octets)
        return self

    def answer(self):
        """Return what the client reads, and whether a closure alert came behind it."""
        octets, is_over = b"", False
        while True:
            try:
                piece = self.client.read()
            except ssl.SSLWantReadError:
                if not self.pump() and not self.bench.loop.soon:
                    return octets, is_over
                self.bench.loop.turn()
                continue
            if not piece:
                return octets, True
            octets += piece

    def body(self):
        return self.answer()[0].partition(b"\r\n\r\n")[2]

    def check_records(self):
        """RFC 8446 5.1: whatever came out of the socket is whole records of TLS."""
        position = 0
        while position < len(self.sent):
            kind, version = self.sent[position], self.sent[position + 1 : position + 3]
            length = int.from_bytes(self.sent[position + 3 : position + 5], "big")
            assert kind in (20, 21, 22, 23) and version == b"\x03\x03" and 0 < length <= (1 << 14) + 256
            position += 5 + length
        assert position == len(self.sent)


@pytest.fixture
def new(authority, localhost):
    """Make a line: new(app, client={...}, **settings) -> Line, its handshake not begun."""
    benches = []

    def make(app=echo, client=None, **settings):
        settings.setdefault("bind", "https://127.0.0.1:0")
        bench = Bench(app, certificate=localhost.certificate, key=localhost.key, **settings)
        tls_settings = bench.config.tls_settings(parse_bind(bench.config.bind[0]))
        bench.service.wrap = Certificates([tls_settings]).wrap_by(tls_settings)
        benches.append(bench)
        line = Line(bench, authority, **(client or {}))
        bench.lines = [line]
        return line

    yield make
    for bench in benches:
        for line in bench.lines:
            line.check_records()
        bench.dispose()


@pytest.fixture
def log(caplog):
    """Return the log, everything included."""
    caplog.set_level(logging.INFO)
    return caplog


# Handshake and requests


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_requests(new, version):
    """Requests are answered one after another; the environ says how they came."""

    def app(environ, start_response):
        start_response("200 OK", [])
        return [f"{environ['SSL_PROTOCOL']} {environ['SSL_CLIENT_VERIFY']} {environ['REMOTE_ADDR']}".encode()]

    line = new(app, {"maximum_version": version}).shake_hands()
    for _ in range(3):
        assert line.ask().body() == b"%s NONE 203.0.113.7" % line.client.session.version().encode()
    assert line.bench.service.connections == {line.connection}
    assert "SSL_PROTOCOL" not in line.bench.service.base_environ
    assert not line.raw.is_closing()


@pytest.mark.parametrize("count", [1, 7, 1000])
def test_in_small_pieces(new, count):
    """However the octets come, handshake and requests are the same."""
    line = new()
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


def test_request_with_the_handshake(new):
    """A request that comes with the client's last words of the handshake is answered."""
    line = new()
    while not line.client.shake_hands():
        line.pump()
    line.ask()  # sent together with Finished
    assert line.body() == b"/"


def test_large_request(new):
    """A body of many records comes whole."""
    line = new().shake_hands()
    body = bytes(range(256)) * 1000
    line.ask(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert line.body() == b"/" + body


def test_resumed(new, authority, localhost):
    """RFC 8446 4.6.1: a client that comes again may go on where it was."""
    first = new(client={"maximum_version": ssl.TLSVersion.TLSv1_2}).shake_hands()
    assert first.ask().body() == b"/"
    second = Line(first.bench, authority)
    first.bench.lines.append(second)
    client = second.client
    client.session = first.client.context.wrap_bio(
        client.incoming, client.outgoing, server_hostname="localhost", session=first.client.session.session
    )
    second.shake_hands()
    assert client.session.session_reused
    assert second.ask().body() == b"/"


# Responses: in records, whatever their form


def large(environ, start_response):
    start_response("200 OK", [])
    return [bytes(1_000_000)]


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
def test_forms_of_response(new, app, count, monkeypatch):
    """Each way to hand over a response ends in records; nobody writes to the socket past the session."""
    for module in ("sending", "sendfile"):
        monkeypatch.setattr(f"aserve.connections.{module}.os", None)
    line = new(app).shake_hands()
    for _ in range(2):
        assert len(line.ask().body()) >= count
    assert line.connection._fd == -1


def test_refusal(new):
    """So does an error that the app never sees; then the session is closed both ways."""
    line = new().shake_hands()
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


def test_file(new, path):
    """A file is read piece by piece, each in its turn of the loop, and closed."""
    files = []

    def open_file():
        files.append(open(path, "rb"))
        files[-1].seek(1000)
        return files[-1]

    line = new(sends(open_file)).shake_hands()
    for _ in range(2):
        assert line.ask().body() == path.read_bytes()[1000:]
    assert all(file.closed for file in files)


def test_empty_file(new, path):
    """Of a file of which nothing is wanted, nothing is read."""
    line = new(sends(lambda: open(path, "rb"), ("Content-Length", "0"))).shake_hands()
    assert line.ask().answer()[0].endswith(b"\r\n\r\n")


def test_file_to_a_slow_client(new, path):
    """While the client does not read, neither is the file read."""
    line = new(sends(lambda: open(path, "rb"))).shake_hands()
    line.raw.is_stuck = True
    line.ask().pump()
    for _ in range(5):
        line.bench.loop.turn()
    assert line.raw.get_write_buffer_size() == line.transport.get_write_buffer_size() < 600_000
    line.raw.unstick()
    assert line.body() == path.read_bytes()


def test_file_that_shrinks(new, path, log):
    """A file that ends early ends the connection: its length shows that."""
    line = new(sends(lambda: open(path, "rb"))).shake_hands()
    line.raw.is_stuck = True
    line.ask().pump()
    path.write_bytes(b"")
    line.raw.unstick()
    assert line.answer()[1]
    assert "abort" not in line.raw.calls and "the file ended" in log.text
    line.bench.executor.run()


def test_file_that_is_closed(new, path, log):
    """So does one that the app closes meanwhile."""
    files = []
    line = new(sends(lambda: files.append(open(path, "rb")) or files[0])).shake_hands()
    line.raw.is_stuck = True
    line.ask().pump()
    files[0].close()
    line.raw.unstick()
    line.answer()
    assert "write_eof" in line.raw.calls and "abort" not in line.raw.calls and "reading the file failed" in log.text
    line.bench.executor.run()


def test_client_lost_within_a_file(new, path):
    """When the client is gone, the file is closed."""
    files = []
    line = new(sends(lambda: files.append(open(path, "rb")) or files[0])).shake_hands()
    line.raw.is_stuck = True
    line.ask().pump()
    line.raw.lose()
    while line.bench.loop.soon:
        line.bench.loop.turn()
    line.bench.executor.run()
    assert files[0].closed


# Back-pressure


def test_back_pressure(new):
    """The connection knows when the socket is full, and when it has room again."""
    line = new(large).shake_hands()
    line.raw.is_stuck = True
    line.ask().pump()
    assert line.connection._is_write_paused
    assert line.raw.get_write_buffer_size() < 600_000
    line.raw.unstick()
    assert len(line.body()) == 1_000_000
    assert not line.connection._is_write_paused


def test_peers_with_credentials(new):
    """Where a unix socket believes some peers and others not, a connection finds out who its own is."""
    seen = []

    def app(environ, start_response):
        start_response("200 OK", [])
        seen.append(line.connection.connection.is_believed)
        return [environ["SSL_PROTOCOL"].encode()]

    line = new(app, bind="https://unix:/nowhere")
    for uid, is_believed in ((os.getuid(), True), (os.getuid() + 1, False)):
        line.bench.service.identify = identify_by(Peers([f"unix:uid={uid}"]))
        line = Line(line.bench, line.authority)
        line.raw.extra["peername"] = ""
        line.bench.lines.append(line)
        line.transport.connection_made(line.raw)
        assert line.shake_hands().ask().body() == b"TLSv1.3"
        assert line.connection._fd == -1 and seen.pop() is is_believed


def test_before_there_is_a_connection(new):
    """The socket's transport may be full before the handshake is done."""
    line = new()
    line.transport.pause_writing()
    line.transport.resume_writing()
    line.shake_hands()


def test_what_a_transport_knows(new):
    """Reading, limits and information are the socket's."""
    line = new().shake_hands()
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


# Ends


def test_close(new):
    """A closure alert comes behind the last octets, then the end; nothing is written after it."""
    line = new().shake_hands()
    assert line.ask().body() == b"/"
    line.connection.drain()
    assert line.answer() == (b"", True)
    assert line.raw.calls == ["close"] and line.transport.is_closing()
    size = len(line.sent)
    line.transport.write(b"more")
    line.transport.write_eof()
    assert not line.raw.received() and len(line.sent) == size


def test_last_response(new):
    """After the last response: closure alert, FIN, and what still comes is dropped until the client closes."""
    line = new().shake_hands()
    octets, is_over = line.ask(GET_CLOSE).answer()
    assert octets.endswith(b"/") and is_over
    assert line.raw.calls[-2:] == ["write_eof", "resume_reading"]
    line.transport.data_received(b"whatever")
    assert not line.transport.is_closing()
    assert line.transport.eof_received()
    assert line.raw.calls[-1] == "close"


def test_endless_client(new):
    """What comes after the last response ends somewhere."""
    line = new().shake_hands()
    line.ask(GET_CLOSE).answer()
    line.transport.data_received(bytes(LINGER_BYTES))
    assert "close" not in line.raw.calls
    line.transport.data_received(b"1")
    assert line.raw.calls[-1] == "close"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_client_closes_its_side(new, version):
    """RFC 8446 6.1: a client that will send no more is still answered; then our closure alert."""
    line = new(client={"maximum_version": version}).shake_hands()
    line.ask()
    with pytest.raises(ssl.SSLWantReadError):
        line.client.session.unwrap()
    line.pump()
    line.transport.eof_received()  # its FIN says nothing new
    assert b"HTTP/1.1 200 OK" not in line.sent
    line.bench.executor.run()
    # This client has sent its own alert and cannot read any more: that the response came is seen by its size.
    assert len(line.sent) > 100 and line.raw.calls[-1] == "close"
    line.transport.data_received(b"ignored")


def test_octets_behind_the_closure_alert(new):
    """RFC 8446 6.1: what comes behind it is ignored."""
    line = new().shake_hands()
    gate = []
    line.bench.executor.run = lambda: gate  # the app does not answer yet
    line.ask()
    with pytest.raises(ssl.SSLWantReadError):
        line.client.session.unwrap()
    line.pump()
    line.transport.data_received(b"\x17\x03\x03\x00\x05xxxxx")
    assert line.connection._is_at_eof and not line.transport.is_closing()


def test_client_only_hangs_up(new):
    """Lenient: RFC 9112 9.8: a FIN without a closure alert is an end as well."""
    line = new().shake_hands()
    assert line.transport.eof_received()
    assert line.raw.calls[-1] == "close"
    line.raw.lose()
    assert not line.bench.service.connections


def test_abort(new):
    """An aborted connection says nothing, so that what was sent does not pass for the whole."""
    line = new().shake_hands()
    line.connection.abort()
    assert line.raw.calls == ["abort"] and line.transport.is_closing()
    assert line.answer() == (b"", False)


@pytest.mark.parametrize(("version", "fields"), [(1, [("Content-Length", "10")]), (1, []), (0, [])])
def test_app_that_breaks_off(new, log, version, fields):
    """A response that cannot be finished ends without a closure alert, unless its framing shows that it is not whole."""

    def app(environ, start_response):
        start_response("200 OK", fields)
        yield b"half"
        raise ValueError("meant so")

    line = new(app).shake_hands()
    octets, is_over = line.ask(b"GET / HTTP/1.%d\r\nHost: a\r\n\r\n" % version).answer()
    assert octets.endswith((b"half", b"half\r\n")) and is_over == version
    assert ("abort" in line.raw.calls) == (not version)


def test_broken_record(new, log):
    """A record that does not decrypt ends the session, with an alert and one line; others go on."""
    line = new().shake_hands()
    other = new().shake_hands()
    line.ask()
    line.pump()
    size = len(line.sent)
    line.transport.data_received(b"\x17\x03\x03\x00\x20" + bytes(32))
    assert line.raw.calls[-1] == "close" and line.transport.is_closing()
    line.sent += line.raw.received()
    assert len(line.sent) > size
    with pytest.raises(ssl.SSLError, match=r"(?i)bad.record.mac"):
        line.client.incoming.write(line.sent[size:])
        while True:
            line.client.read()
    assert log.text.count("TLS failed: ") == 1
    assert other.ask().body() == b"/"


def test_broken_record_to_a_client_that_does_not_read(new):
    """Where the alert cannot be sent at once, nothing is waited for."""
    line = new(large).shake_hands()
    line.raw.is_stuck = True
    line.ask().pump()
    line.transport.data_received(b"\x17\x03\x03\x00\x20" + bytes(32))
    assert line.raw.calls[-1] == "abort"
    line.raw.is_stuck = False
    line.sent = b""


def test_request_before_a_broken_record(new):
    """What came whole before it is not lost."""
    line = new().shake_hands()
    line.ask()
    octets = line.client.outgoing.read() + b"\x17\x03\x03\x00\x20" + bytes(32)
    line.transport.data_received(octets)
    assert len(line.bench.executor.jobs) == 1
    line.transport.data_received(b"and more")  # before the event loop has told that it is closed
    line.bench.executor.run()
    assert line.transport.is_closing()
    line.raw.received()


def test_closed_before_a_broken_record(new, log, monkeypatch):
    """Where what came before it has closed the connection, nothing is left to end."""
    line = new().shake_hands()
    monkeypatch.setattr(LoopWire, "data_received", lambda self, data: self._close())
    line.ask()
    line.transport.data_received(line.client.outgoing.read() + b"\x17\x03\x03\x00\x20" + bytes(32))
    assert line.raw.calls == ["close"] and not log.text


def test_write_in_parts(new):
    """OpenSSL takes all at once today; if it took a record at a time, nothing would be lost."""
    line = new(large).shake_hands()
    write = line.transport._write
    line.transport._write = lambda data: write(data[: 1 << 14])
    assert len(line.ask().body()) == 1_000_000


def test_write_that_fails(new, log):
    """A session that cannot write any more is ended, once."""
    line = new().shake_hands()

    def fail(data):
        raise ssl.SSLError(1, "meant so")

    line.transport._write = fail
    line.ask().pump()
    line.transport.write(b"again")
    assert line.raw.calls == ["close"] and log.text.count("TLS failed") == 1


def test_client_that_makes_us_talk(new, log):
    """What the session has to say by itself does not pile up for a client that does not read."""
    line = new().shake_hands()
    for _ in range(10):  # one that reads
        line.transport._outgoing.write(bytes(MAX_REPLY_BYTES))
        line.transport._flush_replies()
        line.raw.received()
    line.raw.is_stuck = True
    for _ in range(3):
        line.transport._outgoing.write(bytes(MAX_REPLY_BYTES // 2))
        line.transport._flush_replies()
    assert line.raw.calls == ["abort"] and "does not read" in log.text


# Handshakes that fail


def test_plain_http(new, log):
    """HTTP without TLS is answered in HTTP, since nothing of TLS was said; one line says so."""
    line = new()
    line.transport.data_received(GET)
    answer = line.raw.received()
    assert answer.startswith(b"HTTP/1.1 400 ") and b"https://" in answer and b"Connection: close" in answer
    assert line.raw.calls == ["write_eof"]
    assert [record.getMessage() for record in log.records] == ["203.0.113.7: HTTP without TLS came to a TLS port"]
    line.transport.data_received(GET)
    assert not line.raw.received()
    assert not line.transport.eof_received()


@pytest.mark.parametrize("octets", [b"\x80\x2e\x01\x03\x01", b"\x00", b"\x16\x02", b"\x15\x03\x03\x00\x02\x01\x00"])
def test_neither(new, log, octets):
    """What is neither is closed without a word; so is a ClientHello of SSL 2."""
    line = new()
    line.transport.data_received(octets)
    assert line.raw.calls == ["close"] and not line.raw.received()
    assert "what came to a TLS port is not TLS" in log.text


def test_http_2_only(new, log):
    """RFC 7301 3.2: a client that offers no HTTP/1 gets the alert no_application_protocol."""
    line = new(client={"protocols": ["h2", "x\ny"]})
    line.client.shake_hands()
    line.pump()
    with pytest.raises(ssl.SSLError, match=r"(?i)no.application.protocol"):
        line.client.shake_hands()
    assert line.raw.calls == ["write_eof"]
    assert "speaks only 'h2', 'x\\ny'" in log.text
    line.sent = b""


@pytest.mark.parametrize("offered", [["h2", "http/1.1"], ["http/1.0"]])
def test_http_1_among_others(new, offered):
    """One that offers HTTP/1 as well gets it."""
    line = new(client={"protocols": offered}).shake_hands()
    assert line.client.session.selected_alpn_protocol() == offered[-1]


def test_no_version_in_common(new, log):
    """The client gets the alert before the connection ends, and the log a line."""
    line = new(tls_min="1.3", client={"maximum_version": ssl.TLSVersion.TLSv1_2})
    line.client.shake_hands()
    line.pump()
    with pytest.raises(ssl.SSLError, match=r"(?i)protocol.version"):
        line.client.shake_hands()
    assert "TLS handshake failed: unsupported protocol" in log.text
    assert line.raw.calls == ["write_eof"] and not line.transport.is_closing()
    line.raw.lose()
    assert not line.bench.service.connections


@pytest.mark.parametrize("seed", range(60))
def test_whatever_comes(new, authority, seed):
    """Octets that are changed on their way, at any time, in any pieces, raise nothing and end somewhere."""
    dice = random.Random(seed)
    line = new()
    spoilt_flight, flight = dice.randrange(4), 0  # ClientHello, Finished, a request, the next
    for _ in range(6):
        if not line.transport.is_closing():
            try:
                if line.client.shake_hands():
                    line.client.session.write(GET)
            except ssl.SSLError:
                break
        octets = bytearray(line.client.outgoing.read())
        if octets:
            for _ in range(dice.choice((1, 1, 5)) if flight == spoilt_flight else 0):
                octets[dice.randrange(len(octets))] = dice.randrange(256)
            flight += 1
        while octets:
            count = dice.choice((1, 5, 100, len(octets)))
            line.transport.data_received(bytes(octets[:count]))
            del octets[:count]
        line.bench.executor.run()
        line.client.incoming.write(line.raw.received())
    line.transport.eof_received()
    line.raw.lose()
    assert not line.bench.service.connections


def test_refused_client_that_stays(new):
    """It is read for two seconds more, and then closed."""
    line = new()
    line.transport.data_received(GET)
    line.raw.received()
    for _ in range(2):
        line.transport.data_received(bytes(1 << 20))
        line.transport.on_second()
    assert "close" not in line.raw.calls
    line.transport.on_second()
    assert line.raw.calls[-1] == "close"


def test_refused_where_nothing_can_be_half_closed(new):
    """Where the socket cannot be closed one way, it is closed."""
    line = new()
    line.raw.can_half_close = False
    line.transport.data_received(GET)
    assert line.raw.calls == ["close"]


@pytest.mark.parametrize(
    ("count", "line_count"), [(0, 0), (1, 1), (100, 1), (None, 1)], ids=["silent", "octet", "part", "first-flight"]
)
def test_handshake_in_time(new, log, count, line_count):
    """A handshake that does not end within --head-timeout is cut; a client that said nothing is no news."""
    line = new(head_seconds=3)
    line.client.shake_hands()
    hello = line.client.outgoing.read()
    if count != 0:
        line.transport.data_received(hello[:count])
    for _ in range(3):
        line.transport.on_second()
    assert not line.raw.calls
    line.transport.on_second()
    assert line.raw.calls == ["abort"] and len(log.records) == line_count
    assert "--head-timeout" in log.text or not line_count
    line.sent += line.raw.received()


def test_client_leaves_in_the_handshake(new):
    """A client that hangs up then is closed by the event loop."""
    line = new()
    line.client.shake_hands()
    line.pump()
    assert line.bench.service.connections == {line.transport}
    assert not line.transport.eof_received()
    line.raw.lose()
    assert not line.bench.service.connections


def test_drain_in_the_handshake(new, log):
    """While draining, a client has two seconds more for what is left of the handshake; then for its request."""
    line = new()
    line.transport.on_second()
    line.transport.on_second()
    line.bench.service.is_draining = True
    line.transport.drain()
    line.transport.on_second()
    line.shake_hands()
    line.connection.on_second()
    octets, is_over = line.ask().answer()
    assert b"Connection: close" in octets and octets.endswith(b"/") and is_over


def test_drain_before_the_handshake(new, log):
    """One that begins none by then is closed, and no news."""
    line = new()
    line.bench.service.is_draining = True
    for _ in range(2):
        line.transport.on_second()
    assert not line.raw.calls
    line.transport.on_second()
    assert line.raw.calls == ["abort"] and not log.records


def test_unreadable_client_certificate(new, log, monkeypatch):
    """A certificate that Python cannot read is the client's fault."""

    def fail(session):
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "meant so")

    monkeypatch.setattr("aserve.connections.tls_transport.tls.describe_client", fail)
    line = new()
    while not line.client.shake_hands():
        line.pump()
    line.pump()
    assert line.raw.calls == ["abort"] and "cannot be read" in log.text


def test_unix_socket(new, log):
    """A client without an address has a name in the log."""
    line = new()
    line.raw.extra["peername"] = ""
    line.transport.connection_made(line.raw)
    line.transport.data_received(b"\x00")
    assert log.text.strip().endswith("unix socket: what came to a TLS port is not TLS")


def test_a_client_without_an_address(new):
    """A TCP client whose address the socket's transport has not learned gets no handshake: it is no unix socket's peer."""
    line = new()
    transport = TLSTransport(line.bench.service)
    line.raw.extra["peername"] = None
    line.raw.calls.clear()
    with socket.socket() as sock:
        line.raw.extra["socket"] = sock
        line.raw.connect(transport)
    assert line.raw.calls == ["abort"]
