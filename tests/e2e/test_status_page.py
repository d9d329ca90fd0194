"""The status page: a stream of events over sockets, and a browser on it."""

import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import sys
import tempfile

import pytest
from harness.browser import browsing, needs_chromium
from harness.halting import halt
from harness.interpreter import NEEDS_LINUX
from harness.waiting import wait_until

from aserve.features.metrics.scrapes import MAX_READERS

pytestmark = pytest.mark.long_on_pypy

IS_PYPY = sys.implementation.name == "pypy"
KINDS = [
    pytest.param(["--workers", "2"], marks=NEEDS_LINUX, id="workers"),
    pytest.param([], id="single", marks=pytest.mark.long),
]


@pytest.fixture
def served(start_workers):
    """Start a server with a status page: served(*flags) -> its process, and the host and port of its metrics."""

    def start(*flags, metrics="127.0.0.1:0"):
        process = start_workers("--metrics", metrics, *flags)
        found = process.wait_for_log(r"metrics on http://([\d.]+):(\d+)/metrics, the status page on /")
        return process, (found[1], int(found[2]))

    return start


@pytest.fixture
def short_folder():
    """A folder whose path is told whole: of targets the beginning is kept, and pytest's own folders are long under xdist."""
    with tempfile.TemporaryDirectory(prefix="p") as path:
        yield pathlib.Path(path)


@contextlib.contextmanager
def asking(address, target, method="GET", **headers):
    """Return the response to a request."""
    with contextlib.closing(http.client.HTTPConnection(*address, timeout=20)) as connection:
        connection.request(method, target, headers=headers)
        yield connection.getresponse()


def next_event(response):
    while True:
        line = response.readline()
        assert line, "the stream has ended"
        if line.startswith(b"data: "):
            return json.loads(line[len(b"data: ") :])


@pytest.mark.any_parser
@pytest.mark.parametrize("flags", KINDS)
def test_events_come_each_second(served, raw_client, tmp_path, flags):
    """An event each second has the present requests and the number of answers."""
    process, address = served(*flags)
    client = raw_client(process)
    client.send(b"GET /wait%b?token=x HTTP/1.1\r\nHost: a\r\n\r\n" % bytes(tmp_path / "one"))
    wait_until(lambda: (tmp_path / "one.in").exists())
    with asking(address, "/events") as response:
        assert response.getheader("Content-Type") == "text/event-stream; charset=utf-8"
        first = next_event(response)
        at = [text for worker in first["workers"] for _, text in worker["at"]]
        assert at == [f"GET /wait{tmp_path}/one?..."]
        wait_until(lambda: next_event(response)["workers_ready"] == 2 * bool(flags))
        assert {"warnings", "settings", "now", "minute", "series"} <= {*first} and [
            "--metrics",
            "127.0.0.1:0",
        ] in first["settings"]
        wait_until(lambda: next_event(response)["now"]["threads_busy"] > 0)
        (tmp_path / "one.go").touch()
        assert client.recv_response().status == 200

        def is_counted():
            event = next_event(response)
            return event["minute"]["ends"] == {"2xx complete": 1} and not any(
                worker["at"] for worker in event["workers"]
            )

        wait_until(is_counted)
    assert process.stop() == 0


@pytest.mark.any_parser
@pytest.mark.parametrize("flags", KINDS)
def test_who_may_look(served, flags):
    """By HEAD, too; nobody by a stranger's name; only so many at once. The metrics are told all the while."""
    process, address = served(*flags)
    for target in ("/", "/status", "/events"):
        with asking(address, target, "HEAD") as response:
            assert response.status == 200 and response.read() == b""
        with asking(address, target, Host="evil.example") as response:
            assert response.status == 421
    with asking(address, "/nothing") as response:
        assert response.status == 404
    with contextlib.ExitStack() as readers:
        streams = [readers.enter_context(asking(address, "/events")) for _ in range(MAX_READERS)]
        assert all(next_event(stream) for stream in streams)
        with asking(address, "/events") as response:
            assert response.status == 503
        with asking(address, "/metrics") as response:
            assert b"aserve_threads_limit" in response.read()
        assert next_event(streams[0]) and next_event(streams[-1])
    assert process.stop() == 0


@NEEDS_LINUX
@pytest.mark.any_parser
def test_while_no_worker_can(served):
    """The supervisor tells of hanging workers."""
    process, address = served("--workers", "2", "--hang-warning", "0")
    pids = process.wait_for_workers(2)
    halt(*pids)
    with asking(address, "/events") as response:
        wait_until(
            lambda: sum("has not turned for" in each["text"] for each in next_event(response)["warnings"]) == 2, 30
        )
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    assert process.stop() == 0


# The heights of a certificate's cells: a date is one line on a phone, too.
DATES = """showRequests({workers: [], certificates: [{
    name: "shop.example", until: "2027-02-27 11:13 UTC", renewed_on: "2027-01-29 13:44 UTC", fault: "x", again: "2026-11-29 11:24 UTC",
}]}); [...document.querySelectorAll('#certificates td')].map((cell) => cell.offsetHeight)"""
CELLS = "[...document.querySelectorAll('#at td.text')].map((cell) => cell.textContent)"


@needs_chromium
@NEEDS_LINUX
@pytest.mark.any_parser
@pytest.mark.skipif(IS_PYPY, reason="the page is the same on PyPy; one look at it is enough")
def test_a_browser_shows_the_page(served, raw_client, tmp_path, short_folder):
    """A browser shows foreign words as text, fits a phone, tells a lost stream, and comes back."""
    process, address = served("--workers", "2")
    client = raw_client(process)
    path = b"/wait%b/<b/id=stranger>bold</b>" % bytes(short_folder)
    (short_folder / "<b" / "id=stranger>bold<").mkdir(parents=True)
    gate = short_folder / "<b" / "id=stranger>bold<" / "b>"
    with browsing(
        tmp_path / "profile"
    ) as page:  # before the request: the app does not wait as long as a browser may take
        client.send(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % path)
        wait_until(lambda: gate.with_name("b>.in").exists())
        page.show("http://%s:%d/" % address, width=320)
        page.wait_for(f"{CELLS}.includes('GET {path.decode()}')")
        assert page.evaluate("document.querySelectorAll('b#stranger, #at b').length") == 0
        assert page.wait_for("document.getElementById('link').textContent === 'live'")
        busy = page.evaluate(
            "document.getElementById('busy').textContent"
        )  # the mean of a second, perhaps with the request's begin
        assert re.fullmatch(r"(0(\.\d+)?|1) of 64", busy)
        assert page.evaluate("document.getElementById('link').className") == "live"
        assert page.evaluate("document.documentElement.scrollWidth") == 320
        heights = page.evaluate(DATES)
        assert len(heights) == 4 and max(heights[:3]) < 30
        page.wait_for("document.getElementById('busy').textContent === '1 of 64'")  # the next event
        gate.with_name("b>.go").touch()
        assert client.recv_response().status == 200
        page.wait_for(f"{CELLS}.length === 0")
        page.wait_for("document.querySelector('#ends td').textContent === '2xx'")
        assert page.errors == []
        assert process.stop() == 0
        page.wait_for("/^no answer for/.test(document.getElementById('link').textContent)")
        again, _ = served("--workers", "1", metrics="%s:%d" % address)
        page.wait_for("document.getElementById('link').textContent === 'live'")
        page.wait_for("document.querySelectorAll('#workers tr').length === 1")
        assert again.stop() == 0
