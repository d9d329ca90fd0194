"""Requests over a limit or beyond aserve get the right status, and the client really reads the answer."""

import os
import threading

import pytest
from harness import apps
from harness.interpreter import first_on_pypy
from harness.rules import rule

import aserve.core.incident

pytestmark = pytest.mark.also_inline


@pytest.mark.long_on_pypy
@rule("RFC 9110 15.5.15", "414 for a target that is too long", "at --max-request-line")
@rule("RFC 6585 5", "431 for fields that are too large", "at --max-head and --max-fields")
@rule(
    "RFC 9110 15.5.14",
    "413 for a body that is too large",
    "at --max-body, by its length before it comes, in chunks as soon as it is",
)
@rule("RFC 9112 6.1", "501 for a transfer coding that is not understood", "501, then closed")
@rule("RFC 9110 9.3.6", "CONNECT is for proxies", "501, then closed")
@rule("RFC 9110 15.6.6", "505 for another major version", "505, then closed")
@pytest.mark.parametrize(
    ("octets", "settings", "status"),
    [
        (b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n" % (b"x" * 200), {"max_request_line_bytes": 100}, 414),
        (b"GET /%b" % (b"x" * 200), {"max_request_line_bytes": 100}, 414),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: %b\r\n\r\n" % (b"x" * 600), {"max_request_line_bytes": 100, "max_head_bytes": 512}, 431),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: %b" % (b"x" * 484), {"max_request_line_bytes": 100, "max_head_bytes": 512}, 431),
        (b"GET / HTTP/1.1\r\nHost: a\r\n%b\r\n" % (b"X: y\r\n" * 10), {"max_fields": 10}, 431),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n", {"max_body_bytes": 10}, 413),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n12345678901\r\n", {"max_body_bytes": 10}, 413),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", {}, 501),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", {}, 501),
        (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", {}, 505),
        (b"GET / HTTP/1.1\r\nHost: a\r\nExpect: more\r\n\r\n", {}, 417),
    ],
)  # fmt: skip
def test_each_limit_has_its_status(start_server, raw_client, octets, settings, status):
    """Each limit has its status; the text names the rule or setting; the connection closes."""
    app = apps.Recorder(apps.echo)
    client = raw_client(start_server(app, **settings))
    client.send(octets)
    reply = client.recv_response()
    assert reply.status == status
    assert reply.get("Connection") == "close"
    assert len(reply.body) > 20
    assert client.recv_to_end() == b""
    assert app.count == 0


def test_just_within_the_limits(start_server, raw_client):
    settings = {"max_request_line_bytes": 100, "max_fields": 3, "max_body_bytes": 10}
    client = raw_client(start_server(apps.echo, **settings))
    line = b"POST /%b HTTP/1.1" % (b"x" * 85)
    assert len(line) == 100
    client.send(line + b"\r\nHost: a\r\nX: y\r\nContent-Length: 10\r\n\r\n1234567890")
    assert client.recv_response().body == b"1234567890"
    client.send(
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n5\r\n67890\r\n0\r\n\r\n"
    )
    assert client.recv_response().body == b"1234567890"


@rule("RFC 9112 9.5", "a client that sends on may miss our answer", "its whole upload is read, so that it does not")
@pytest.mark.parametrize("size", [100_000, 900_000])
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_client_reads_the_error_while_sending(start_server, raw_client, framing, size):
    """A client that sends its whole upload before reading finds the 413, not a broken connection."""
    client = raw_client(start_server(apps.echo, max_body_bytes=1000))
    head = b"POST / HTTP/1.1\r\nHost: a\r\n"
    if framing == "length":
        client.send(head + b"Content-Length: %d\r\n\r\n" % size)
    else:
        client.send(head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % size)
    for _ in range(100):
        client.send(b"x" * (size // 100))
    assert client.recv_response().status == 413
    assert client.recv_to_end() == b""


def test_large_head_is_read_to_the_error(start_server, raw_client):
    """The same for a head without an end."""
    client = raw_client(start_server(apps.echo))
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n")
    for _ in range(50):
        client.send(b"X-Long: " + b"x" * 8000 + b"\r\n")
    assert client.recv_response().status == 431
    assert client.recv_to_end() == b""


def test_endless_upload_after_the_error(start_server, raw_client):
    """A client that never stops sending is not heard without end."""
    server = start_server(apps.echo, max_body_bytes=1000)
    client = raw_client(server)
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n")

    def send_all():
        for _ in range(1000):
            client.send(b"x" * 1_000_000)

    with pytest.raises(OSError):
        send_all()


# --max-connections, and missing descriptors


def lines_of(log, *words):
    """Return a log's lines with all of these words."""
    return [line for line in log.splitlines() if all(word in line for word in words)]


@pytest.mark.any_parser
def test_at_the_limit_of_connections(start_server, raw_client, caplog, monkeypatch, wait_until):
    """A client beyond --max-connections waits until another leaves; the log has a line at the begin and one at the end."""
    monkeypatch.setattr(aserve.core.incident, "CALM_SECONDS", 1)
    server = start_server(apps.hello, max_connections=3, head_seconds=600)
    first = [raw_client(server) for _ in range(3)]
    for client in first:
        client.send(b"GET / HTTP/1.1\r\n")  # neither idle nor complete
    server.wait_until_known(3)
    others = [raw_client(server) for _ in range(5)]
    for client in others:
        client.request("/", "Connection: close")
    server.pass_seconds_until(lambda: lines_of(caplog.text, "--max-connections", "new ones wait in the kernel's queue"))
    server.wait_until_known(3)  # on its way out of the lane one counts twice
    assert all(client.is_quiet() for client in others)
    first[0].send(b"Host: a\r\n\r\n")  # accepted clients are served
    assert first[0].recv_response().status == 200
    first[1].close()
    for client in others:  # one place is enough for all, in turn
        assert client.recv_response().status == 200
        client.close()
    first[2].close()
    server.pass_seconds_until(lambda: lines_of(caplog.text, "--max-connections", "accepting goes on"))
    assert len(lines_of(caplog.text, "--max-connections")) == 2


@pytest.mark.any_parser
def test_those_that_idle_are_evicted(start_server, raw_client, caplog):
    """At the limit the longest idle connection is closed for a new client, and no client waits."""
    server = start_server(apps.hello, max_connections=2)
    oldest, newer = raw_client(server), raw_client(server)
    oldest.fetch()
    server.wait_until_waiting(2)  # no time passes for a connection still with the app
    server.pass_seconds(3)
    newer.fetch()
    server.pass_seconds(1)
    assert raw_client(server).fetch().status == 200
    assert oldest.is_closed()
    assert newer.fetch().status == 200
    assert lines_of(caplog.text, "--max-connections") == []


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs Linux's /proc")
@pytest.mark.parametrize(
    ("loop", "lane", "threads"),
    first_on_pypy([("auto", "auto", "4"), ("auto", "off", "4"), ("asyncio", "off", "4"), ("asyncio", "auto", "0")]),
)
def test_descriptors_run_out(start_process, raw_client, loop, lane, threads):
    """Accepted clients are served, new clients wait; one line tells the begin, another the end, and nothing spins."""
    flags = ("--loop", loop, "--lane", lane, "--threads", threads, "--max-connections", "1000", "--body-memory", "1k")
    process = start_process("short_of_files", *flags)
    inside, uploader = raw_client(process), raw_client(process)
    assert uploader.fetch().status == inside.fetch("/take-all").status == 200
    others = [raw_client(process) for _ in range(8)]
    for client in others:
        client.request("/", "Connection: close")
    process.wait_for_log("cannot accept connections: Too many open files")
    assert inside.fetch().status == 200
    cpu_seconds = process.cpu_seconds()
    threading.Event().wait(1.2)  # time for a new try
    assert process.cpu_seconds() - cpu_seconds < 0.6
    assert all(client.is_quiet() for client in others)
    uploader.request(method="POST", body=b"x" * 300_000)
    assert uploader.recv_response().status == 503
    process.wait_for_log("cannot keep a request body in a temporary file: .*ulimit -n")
    uploader.close()
    assert inside.fetch("/give-back").status == 200
    for client in others:
        assert client.recv_response().status == 200
    process.wait_for_log("file descriptors are free again")
    assert len(lines_of(process.log, "cannot accept")) == 1
    assert "Traceback" not in process.log


@pytest.mark.one_way
def test_the_limit_counts_connections_of_both_wires(start_server, raw_client, wait_until):
    """A connection outside the lane counts as well as a connection inside."""
    server = start_server(apps.hello, max_connections=2)
    leaver, stayer = raw_client(server), raw_client(server)
    leaver.send(b"GET / HTTP/1.1\r\n")
    stayer.fetch()
    third = raw_client(server)
    third.request()
    server.pass_seconds(1)
    server.wait_until_known(2)  # on its way out of the lane one counts twice
    assert third.is_quiet()
    leaver.close()
    assert third.recv_response().status == 200
    assert stayer.fetch().status == 200
