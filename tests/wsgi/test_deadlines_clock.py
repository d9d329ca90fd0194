"""Deadlines by the clock: the command from its first late request to its end, and many requests that end near theirs."""

import random
import signal
import sys
import threading
import time

import pytest
from harness import apps
from harness.hanging import HOUR, deadlines_of, messages
from harness.interpreter import NATIVE_KINDS

from aserve.core.errors import RequestTimeout

SLOW_APP = """
import sys, threading, time
def app(environ, start_response):
    if environ["PATH_INFO"] == "/computes":
        try:
            while True: time.sleep(0.01)
        finally: print("finally", flush=True)
    if environ["PATH_INFO"] == "/blocks": time.sleep(60)
    if environ["PATH_INFO"] == "/profiled":
        sys.setprofile(lambda *arguments: None)
        threading.current_thread()
        sys.setprofile(None)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [threading.current_thread().name.encode()]
"""


@pytest.mark.parametrize("native", NATIVE_KINDS)
def test_by_the_clock(start_process, raw_client, tmp_path, native):
    """The whole way, unaided: interrupted, written off, replaced, and in the end drained with status 1. A profiler sees no difference."""
    (tmp_path / "slow_app.py").write_text(SLOW_APP)
    server = start_process(
        f"{tmp_path}/slow_app.py:app",
        "--request-timeout",
        "0.8",
        "--threads",
        "1",
        "--max-stuck",
        "2",
        "--native",
        native,
    )
    client = raw_client(server)
    client.sock.settimeout(20)
    assert client.fetch("/computes").status == 504
    assert client.fetch("/profiled").body == b"aserve-worker-1"
    assert client.fetch("/blocks").status == 504
    client.close()
    client = raw_client(server)
    client.sock.settimeout(20)
    assert client.fetch("/profiled").body == b"aserve-worker-2"
    assert client.fetch("/blocks").status == 504
    client.close()
    assert server.wait() == 1
    assert "ERROR    this process should be replaced: as many workers are stuck" in server.log
    assert "too many workers are stuck: draining" in server.log
    assert "Traceback" not in server.log


def test_one_that_is_stuck_does_not_hold_up_the_end(start_process, raw_client, tmp_path):
    """SIGTERM does not wait for a written-off one."""
    (tmp_path / "slow_app.py").write_text(SLOW_APP)
    server = start_process(f"{tmp_path}/slow_app.py:app", "--request-timeout", "0.8", "--threads", "1")
    client = raw_client(server)
    client.sock.settimeout(20)
    assert client.fetch("/blocks").status == 504
    client.close()
    server.signal(signal.SIGTERM)
    assert server.wait() == 1
    assert "threads still inside the app at the end: aserve-worker-1" in server.log


@pytest.fixture
def ignored_anywhere(monkeypatch):
    """Once in some hundred runs the exception meets a weak reference's callback, or __del__ of garbage: Python ignores it there."""
    before = sys.unraisablehook
    monkeypatch.setattr(sys, "unraisablehook", lambda told: told.exc_type is RequestTimeout or before(told))


@pytest.mark.any_parser
def test_requests_that_end_near_their_deadline(ignored_anywhere, start_server, raw_client, caplog):
    """Each client gets its own response or a 504, and no worker is lost."""

    def app(environ, start_response):
        name = environ["PATH_INFO"]
        form = name[-1]
        write = start_response("200 OK", apps.PLAIN)
        end = time.perf_counter() + random.random() * 0.004
        while time.perf_counter() < end:
            pass
        if form == "0":
            return [name.encode()]
        if form == "1":
            write(name.encode())
            return []
        return (part.encode() for part in (name[:3], name[3:]))

    server = start_server(app, is_checked=False, threads=4, request_seconds=HOUR, max_stuck=4096)
    deadlines = deadlines_of(server)
    deadlines._seconds = 0.002
    deadlines._grace_seconds = 0.004
    begin = time.monotonic()
    counts = {200: 0, 504: 0, "cut": 0}
    wrong = []

    def is_over():
        """On a busy machine nearly all are late, and it takes longer until some are not."""
        return min(counts[200], counts[504] + counts["cut"]) > 30 or time.monotonic() - begin > 30 or wrong

    truncated = raw_client(server).Truncated

    def ask(client_number):
        number, client = 0, None
        while not is_over():
            number += 1
            name = f"/{client_number}-{number}-{random.randrange(3)}"
            try:
                if client is None:
                    client = raw_client(server)
                reply = client.fetch(name)
            except (truncated, OSError):
                counts["cut"] += 1
                client.close()
                client = None
                continue
            except BaseException as exc:
                wrong.append(exc)
                raise
            counts[reply.status] += 1
            if reply.status == 200 and reply.body != name.encode():
                wrong.append((name, reply.body))
            if reply.get("Connection") == "close":
                client.close()
                client = None

    def tick():
        deadlines.on_second()
        if not is_over():
            server._loop.call_later(0.001, tick)

    server.call(tick)
    threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)
    assert wrong == []
    assert not any(thread.is_alive() for thread in threads)
    deadlines._seconds = deadlines._grace_seconds = HOUR
    client = raw_client(server)
    for number in range(20):
        assert client.fetch(f"/after-{number}-0").body == f"/after-{number}-0".encode()
    assert not any("worker failed" in message or "answer failed" in message for message in messages(caplog))
    executor = server.server._threads.executor
    assert all(thread.is_alive() for thread in executor.threads.at_work)
    assert counts[504] + counts["cut"] > 5
    assert counts[200] > 5
