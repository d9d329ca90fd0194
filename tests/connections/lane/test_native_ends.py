"""The ends of plain requests in C: the same records, lines and numbers as from Python."""

import re
import socket
import threading

import pytest
from connections.lane.test_native import site
from harness import apps
from harness.extensions import extension_of, flush_ends
from harness.plain import ask, engine_of, request
from harness.waiting import PATIENCE_SECONDS, wait_until

from aserve.features.access_log.log import AccessLog
from aserve.features.metrics import Metrics
from aserve.features.metrics.counting import read_words
from aserve.features.metrics.table import BUCKETS, METRICS, PLACES

pytest.importorskip("aserve._native", reason="aserve._native is not built here")
pytestmark = [pytest.mark.any_parser, pytest.mark.one_way]

AGENT = 'User-Agent: a "b" \xe9\r\n'
ALL = '%(h)s "%(r)s" %(s)s %(b)s %(end) "%({user-agent}i)s" "%({content-type}o)s" %(queue_wait) %(duration) %(thread)'
# Names of metrics, and of how many words.
COUNTED = {
    **{name: len(METRICS[name].cells) for name in ("aserve_requests_total", "aserve_response_body_bytes_total")},
    **dict.fromkeys(("aserve_request_queue_seconds", "aserve_request_duration_seconds"), BUCKETS + 1),
}
FORWARDED = "X-Forwarded-For: 192.0.2.9\r\n"


@pytest.fixture
def pair(start_server, tmp_path):
    """pair(**settings): two servers of the same app, in C and in Python, and a reader of each log."""

    def start(app=site, **settings):
        return [
            (start_server(app, is_checked=False, native=native, access_log=str(tmp_path / native), **settings),
             lambda native=native: (tmp_path / native).read_text("latin-1").splitlines())
            for native in ("auto", "off")
        ]  # fmt: skip

    return start


def without_times(line):
    """Leave out parts that differ by chance."""
    line = re.sub(r"\d+\.\d{6}", "T", line)
    line = re.sub(r'"(timestamp|host.name)": "[^"]*"', "", line)
    line = re.sub(r'"(http.server.request.duration|aserve.queue_wait)": [^,}]*', r"\1", line)
    return re.sub(r"\[[^]]*\]|worker-\d+", "-", line)


@pytest.mark.parametrize("text", ["combined", "common", "json", ALL])
def test_the_same_lines(pair, text):
    """The lines are the same for every request, also with fields that no app sees."""
    both = pair(access_log_format=text)
    asked = [
        request("hello"), request("hello", fields=f"Host: a\r\n{AGENT}"), request("environ_json?a=1"), request("echo", "POST", body=b"abc"),
        request("hello", "HEAD"), request("no_chunks"), request("written"), request("hello", fields=f"Host: a\r\n{FORWARDED}"),
    ]  # fmt: skip
    for server, _ in both:
        for each in asked * 2:
            assert ask(server, each)
    for _, lines in both:
        wait_until(lambda lines=lines: len(lines()) == 2 * len(asked))
    in_c, in_python = (sorted(map(without_times, lines())) for _, lines in both)  # an end is noted behind its response
    assert in_c == in_python
    engine = engine_of(both[0][0])
    assert engine.plain_count == 2 * len(asked) - 3  # the app that writes, twice, and the first removal of a field


CLAIMS = [
    "X-Forwarded-For: 192.0.2.9\r\n", "X-Forwarded-For: 192.0.2.9\r\nX-Forwarded-Host: b.example\r\nX-Forwarded-Proto: https\r\n",
    "X-Forwarded-Port: 81\r\nAccept: b\r\nX-Forwarded-Prefix: /p\r\n", "Forwarded: for=\"[2001:db8::1]\";host=c\r\n", "X-Real-IP: 192.0.2.8\r\n",
]  # fmt: skip


@pytest.mark.parametrize("text", ["combined", "json", "%(h)s %({host}i)s %({x-forwarded-for}i)s %({REMOTE_ADDR}e)s"])
def test_clients_behind_a_proxy(pair, text):
    """Lines have the proxy's words about the client."""
    both = pair(access_log_format=text, trusted_proxies=["127.0.0.1"])
    for server, _ in both:
        for fields in CLAIMS * 2:
            assert b"200 OK" in ask(server, request("hello", fields=f"Host: a\r\n{AGENT}{fields}"))
    for _, lines in both:
        wait_until(lambda lines=lines: len(lines()) == 2 * len(CLAIMS))
    in_c, in_python = (sorted(map(without_times, lines())) for _, lines in both)  # an end is noted behind its response
    assert in_c == in_python and engine_of(both[0][0]).plain_count == 2 * len(CLAIMS)


@pytest.mark.parametrize("fields", ["", "X-Request-ID: abc\r\n", "X-Forwarded-For: 192.0.2.1\r\n"])
def test_the_name_of_a_request(pair, fields):
    """The line has the name of the app's view, received or made."""
    for server, lines in pair(access_log_format="%(request_id) %({host}i)s", trusted_proxies=["127.0.0.1"]):
        reply = ask(server, request("environ_json", fields=f"Host: a\r\n{fields}"))
        (name,) = re.findall(rb'"HTTP_X_REQUEST_ID": "([^"]*)"', reply)
        wait_until(lambda lines=lines, name=name: lines() == [f"{name.decode()} a"])


def test_one_that_is_alone(pair):
    """The line is written though no request follows."""
    for server, lines in pair(apps.hello):
        ask(server, request(""))
        wait_until(lambda lines=lines: len(lines()) == 1)


def test_records_are_told_together(pair, monkeypatch):
    """Lines that only Python can make, such as of a user's credentials, cost the log no call each."""
    sizes, write = [], AccessLog.write
    monkeypatch.setattr(AccessLog, "write", lambda log, batch: (sizes.append(len(batch)), write(log, batch))[1])
    (server, lines), _ = pair(
        lambda environ, start_response: leave(environ, start_response), threads=1, access_log_format="common"
    )
    clients = [socket.create_connection(server.address, timeout=PATIENCE_SECONDS) for _ in range(20)]
    for client in clients:
        client.sendall(request("", fields="Host: a\r\nAuthorization: Basic bWU6eA==\r\n"))
    INSIDE.acquire(timeout=PATIENCE_SECONDS)
    for _ in clients:
        GO_ON.release()
    for client in clients:
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        client.close()
    for _ in clients[1:]:
        INSIDE.acquire(timeout=PATIENCE_SECONDS)
    wait_until(lambda: len(lines()) == len(clients))
    assert sum(sizes) == len(clients) and len(sizes) < len(clients) / 2
    assert all(" me [" in line for line in lines())


def test_a_client_that_is_gone(pair):
    """The line says so."""
    for server, lines in pair(
        lambda environ, start_response: leave(environ, start_response), access_log_format="%(end)"
    ):
        with socket.create_connection(server.address, timeout=PATIENCE_SECONDS) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.sendall(request("", is_last=False))
            INSIDE.acquire(timeout=PATIENCE_SECONDS)
        GO_ON.release()
        wait_until(lambda lines=lines: lines() == ["client_gone"])


INSIDE, GO_ON = threading.Semaphore(0), threading.Semaphore(0)


def leave(environ, start_response):
    INSIDE.release()
    assert GO_ON.acquire(timeout=PATIENCE_SECONDS)
    return apps.hello(environ, start_response)


def test_a_client_that_reads_slowly(pair):
    """The event loop sends the rest for a slow reader: the line has the whole."""
    for server, lines in pair(large, access_log_format="%(s)s %(b)s %(end)"):
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(PATIENCE_SECONDS)
            client.connect(server.address)
            for number in range(100):
                client.sendall(request("", is_last=number == 99))
            received = 0
            while octets := client.recv(1 << 20):  # to the end: a close with octets unread would be a reset
                received += len(octets)
        assert received > 100 * LARGE
        wait_until(lambda lines=lines: lines() == [f"200 {LARGE} answered"] * 100)


LARGE = 100_000


def large(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"x" * LARGE]


def test_numbers_count_the_same_from_both(start_server, tmp_path):
    found = []
    for native in ("auto", "off"):
        server = start_server(site, is_checked=False, native=native, metrics=f"unix:{tmp_path / native}")
        for name in ("hello", "hello", "no_chunks", "echo"):
            ask(server, request(name))
        found.append(counted(server, 4))
    assert found[0] == found[1]


def counted(server, count):
    """Return a server's counts once it has so many requests: responses, octets, waits, durations."""
    memory = extension_of(server.server, Metrics).memory

    def read():
        server.call(lambda: flush_ends(server.server))
        words = read_words(memory)
        cells = {name: words[PLACES[name] : PLACES[name] + count] for name, count in COUNTED.items()}
        return {name: sum(each) if "seconds" in name else each for name, each in cells.items()}

    wait_until(lambda: sum(read()["aserve_requests_total"]) == count)
    return read()


def test_one_that_is_slow(start_server, caplog):
    """A slow request is told as slow, and its line has its time."""
    for native in ("auto", "off"):
        caplog.clear()
        server = start_server(slow, is_checked=False, native=native, slow_request_seconds=0.05)
        ask(server, request(""))
        wait_until(lambda: any("longer than --slow-request" in each.getMessage() for each in caplog.records))


def slow(environ, start_response):
    threading.Event().wait(0.1)
    return apps.hello(environ, start_response)


def test_those_that_wait(pair):
    """Ends wait for one another, and no batch holds them for longer than a second."""
    for server, lines in pair(apps.hello, access_log_format="%(s)s"):
        with socket.create_connection(server.address, timeout=PATIENCE_SECONDS) as client:
            for _ in range(300):
                client.sendall(request("", is_last=False))
                client.recv(1 << 16)
        wait_until(lambda lines=lines: len(lines()) == 300)
