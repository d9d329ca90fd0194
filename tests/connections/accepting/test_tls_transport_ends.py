"""The ends of a TLS session: each side's closure alert, a client that hangs up, a broken record, an abort."""

import ssl
import types

import pytest
from harness.tls_lines import GET_CLOSE, large

from aserve.connections.accepting.tls_transport import MAX_REPLY_BYTES
from aserve.connections.loop.wire_loop import LoopWire
from aserve.connections.progress import LINGER_BYTES


def test_a_close_sends_an_alert_last(new_line):
    """A closure alert comes behind the last octets, then the end; nothing is written after it."""
    line = new_line().shake_hands()
    assert line.ask().body() == b"/"
    line.connection.drain()
    assert line.answer() == (b"", True)
    assert line.raw.calls == ["close"] and line.transport.is_closing()
    size = len(line.sent)
    line.transport.write(b"more")
    line.transport.write_eof()
    assert not line.raw.received() and len(line.sent) == size


def test_a_last_response_is_followed_by_alert_and_fin(new_line):
    """After the last response: closure alert, FIN, and further octets are dropped until the client closes."""
    line = new_line().shake_hands()
    octets, is_over = line.ask(GET_CLOSE).answer()
    assert octets.endswith(b"/") and is_over
    assert line.raw.calls[-2:] == ["write_eof", "resume_reading"]
    line.transport.data_received(b"whatever")
    assert not line.transport.is_closing()
    assert line.transport.eof_received()
    assert line.raw.calls[-1] == "close"


def test_an_endless_client_is_closed(new_line):
    """Octets after the last response have an end."""
    line = new_line().shake_hands()
    line.ask(GET_CLOSE).answer()
    line.transport.data_received(bytes(LINGER_BYTES))
    assert "close" not in line.raw.calls
    line.transport.data_received(b"1")
    assert line.raw.calls[-1] == "close"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_client_closes_its_side(new_line, version):
    """RFC 8446 6.1: a client past its last octet is still answered; then our closure alert."""
    line = new_line(client={"maximum_version": version}).shake_hands()
    line.ask()
    with pytest.raises(ssl.SSLWantReadError):
        line.client.session.unwrap()
    line.pump()
    line.transport.eof_received()  # its FIN says nothing new
    assert b"HTTP/1.1 200 OK" not in line.sent
    line.harness.executor.run()
    # This client has sent its own alert and cannot read any more: the response is seen by its size.
    assert len(line.sent) > 100 and line.raw.calls[-1] == "close"
    line.transport.data_received(b"ignored")


def test_octets_behind_the_closure_alert(new_line):
    """RFC 8446 6.1: octets behind a closure alert are ignored."""
    line = new_line().shake_hands()
    gate = []
    line.harness.executor.run = lambda: gate  # the app does not answer yet
    line.ask()
    with pytest.raises(ssl.SSLWantReadError):
        line.client.session.unwrap()
    line.pump()
    line.transport.data_received(b"\x17\x03\x03\x00\x05xxxxx")
    assert line.connection._inbox.is_at_eof and not line.transport.is_closing()


def test_client_only_hangs_up(new_line):
    """Lenient: RFC 9112 9.8: a FIN without a closure alert is an end as well."""
    line = new_line().shake_hands()
    assert line.transport.eof_received()
    assert line.raw.calls[-1] == "close"
    line.raw.lose()
    assert not line.harness.service.connections


def test_an_abort_sends_no_alert(new_line):
    """An aborted connection sends no alert, so that its octets do not pass for the whole."""
    line = new_line().shake_hands()
    line.connection.abort()
    assert line.raw.calls == ["abort"] and line.transport.is_closing()
    assert line.answer() == (b"", False)


@pytest.mark.parametrize(("version", "fields"), [(1, [("Content-Length", "10")]), (1, []), (0, [])])
def test_app_that_breaks_off(new_line, log, version, fields):
    """A broken-off response ends without a closure alert, unless its framing shows the cut."""

    def app(environ, start_response):
        start_response("200 OK", fields)
        yield b"half"
        raise ValueError("meant so")

    line = new_line(app).shake_hands()
    octets, is_over = line.ask(b"GET / HTTP/1.%d\r\nHost: a\r\n\r\n" % version).answer()
    assert octets.endswith((b"half", b"half\r\n")) and is_over == version
    assert ("abort" in line.raw.calls) == (not version)


def test_a_broken_record_ends_its_session_alone(new_line, log):
    """A record that does not decrypt ends the session, with an alert and one line; other sessions go on."""
    line = new_line().shake_hands()
    other = new_line().shake_hands()
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


def test_broken_record_to_a_client_that_does_not_read(new_line):
    """Where the alert cannot be sent at once, nothing is waited for."""
    line = new_line(large).shake_hands()
    line.raw.is_stuck = True
    line.ask().pump()
    line.transport.data_received(b"\x17\x03\x03\x00\x20" + bytes(32))
    assert line.raw.calls[-1] == "abort"
    line.raw.is_stuck = False
    line.sent = b""


def test_request_before_a_broken_record(new_line):
    """A whole request before a broken record is answered."""
    line = new_line().shake_hands()
    line.ask()
    octets = line.client.outgoing.read() + b"\x17\x03\x03\x00\x20" + bytes(32)
    line.transport.data_received(octets)
    assert len(line.harness.executor.jobs) == 1
    line.transport.data_received(b"and more")  # before the event loop has told the close
    line.harness.executor.run()
    assert line.transport.is_closing()
    line.raw.received()


def test_closed_before_a_broken_record(new_line, log, monkeypatch):
    """Where an earlier request has closed the connection, nothing is left to end."""
    line = new_line().shake_hands()
    monkeypatch.setattr(LoopWire, "data_received", lambda self, data: self.close())
    line.ask()
    line.transport.data_received(line.client.outgoing.read() + b"\x17\x03\x03\x00\x20" + bytes(32))
    assert line.raw.calls == ["close"] and not log.text


def test_write_in_parts(new_line):
    """OpenSSL takes all at once today; if it took a record at a time, nothing would be lost."""
    line = new_line(large).shake_hands()
    write = line.transport._session.write
    line.transport._session.write = lambda data: write(data[: 1 << 14])
    line.transport._session.send = lambda fd, data: 0
    assert len(line.ask().body()) == 1_000_000


def test_write_that_fails(new_line, log):
    """A session that cannot write any more is ended, once."""
    line = new_line().shake_hands()

    def fail(data):
        raise ssl.SSLError(1, "meant so")

    line.transport._session.write, line.transport._session.send = fail, lambda fd, data: 0
    line.ask().pump()
    line.transport.write(b"again")
    assert line.raw.calls == ["close"] and log.text.count("TLS failed") == 1


def test_write_to_a_gone_client(new_line, log):
    """Nothing follows what was encrypted and may have been sent."""
    line = new_line().shake_hands()

    def fail(fd, data):
        raise ConnectionError("meant so")

    line.transport._session.send = fail
    line.ask().pump()
    line.transport.write(b"again")
    assert line.raw.calls == ["abort"] and not log.text


def test_client_that_makes_us_talk(new_line, log):
    """A session's own answers do not pile up for a client that does not read."""
    line = new_line().shake_hands()
    session = line.transport._session = types.SimpleNamespace(
        out_size=MAX_REPLY_BYTES, take=lambda: bytes(session.out_size)
    )
    for _ in range(10):  # a reading client
        line.transport._flush_replies()
        line.raw.received()
    line.raw.is_stuck = True
    session.out_size //= 2
    for _ in range(3):
        line.transport._flush_replies()
    assert line.raw.calls == ["abort"] and "does not read" in log.text
