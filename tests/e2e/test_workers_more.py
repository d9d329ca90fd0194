"""Worker processes: one more, one less and one told to end; TLS and uwsgi to them."""

import functools
import re
import signal
import socket

import pytest
from harness.client import RawClient, TLSClient
from harness.combining import long
from harness.interpreter import LOOP_KINDS, NEEDS_LINUX
from harness.load import load

pytestmark = [NEEDS_LINUX, pytest.mark.any_parser, pytest.mark.long_on_pypy]


# One worker more, one less, another


@pytest.mark.parametrize(
    ("flags", "is_true"),
    [
        (("--workers", "1", "--warm-up", "/"), False),
        (("--workers", "1", "--max-workers", "1", "--preload"), False),
        (("--workers", "1", "--max-workers", "2"), True),
        (("--workers", "2"), True),
    ],
)
def test_multiprocess_is_true_where_others_serve(start_workers, raw_client, tmp_path, flags, is_true):
    """PEP 3333: with one worker no other process calls the app, also under --warm-up."""
    source = """
def app(environ, start_response):
    with open("seen", "a") as file:
        file.write("%s " % environ["wsgi.multiprocess"])
    start_response("200 OK", [])
    return []
"""
    process = start_workers(*flags, app=source)
    assert raw_client(process).fetch().status == 200
    assert set((tmp_path / "seen").read_text().split()) == {str(is_true)}


def test_logs_are_reopened(start_workers, raw_client, tmp_path, wait_until):
    """SIGUSR1 to the supervisor: every worker goes on in a new file."""
    process = start_workers("--workers", "2", "--access-log", "log")
    process.wait_for_workers(2)
    (tmp_path / "log").rename(tmp_path / "log.1")
    process.signal(signal.SIGUSR1)
    for number in (1, 2):
        process.wait_for_log(rf"worker {number}: the access log .* was reopened")
    raw_client(process.address).fetch("/")
    wait_until(lambda: (tmp_path / "log").read_text())


# Protocols to workers


@pytest.mark.parametrize("loop", [*map(long, LOOP_KINDS[:-1]), LOOP_KINDS[-1]])
def test_reloads_lose_no_tls_request(start_workers, authority, localhost, monkeypatch, wait_until, loop):
    """TLS works in workers; of two reloads neither cuts a request, a kept connection or a handshake."""
    monkeypatch.setattr(RawClient, "authority", str(authority.certificate))
    process = start_workers("--workers", "2", "--loop", loop, *localhost.flags)
    process.wait_for_workers(2)
    port = int(re.search(r"https://127.0.0.1:(\d+)", process.log)[1])
    with load(functools.partial(TLSClient, ("127.0.0.1", port)), kinds=("kept", "fresh", "fresh")) as running:
        for count in (1, 2):
            process.signal(signal.SIGHUP)
            wait_until(lambda count=count: process.count("SIGHUP: done") == count, 60)
            process.wait_for_workers(2)
            running.go_on(20)
    assert process.stop() == 0


PACKET = b"\x00\x15\x00\x00\x0e\x00REQUEST_METHOD\x03\x00GET"


def test_a_reload_loses_no_uwsgi_request(start_workers, tmp_path):
    """A front server's requests, a connection each, lose nothing in a reload."""
    process = start_workers("--workers", "2", "--bind", f"uwsgi://unix:{tmp_path}/s")
    process.wait_for_workers(2)
    versions = set()
    process.write_app("two")
    process.signal(signal.SIGHUP)
    while not process.count("SIGHUP: done") or "two" not in versions:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(30)
            client.connect(str(tmp_path / "s"))
            client.sendall(PACKET)
            with client.makefile("rb") as file:
                reply = file.read()
        assert reply.startswith(b"HTTP/1.1 200 OK\r\n"), reply
        versions.add(reply.split()[-2].decode())
    assert process.stop() == 0
