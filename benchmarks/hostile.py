"""Bad clients beside a good one: is it answered within 100 ms throughout, and what does it cost in memory?

    python benchmarks/hostile.py                               # aserve, waitress and gunicorn, as installed here
    python benchmarks/hostile.py --only aserve --row body
    python benchmarks/hostile.py --server 'mine=/path/server --port {port} {app}'

In each row a server is started anew with 4 threads, 64 clients misbehave in one way, and for 5
seconds another one connects, asks and closes, again and again.  Everything is on the loopback address,
and is stopped at the end.  The servers come from the environment of the Python that runs this:
`pip install waitress gunicorn` beside aserve.

Figures:  the time from connect() to the last octet of each good answer; the proportional set size of
          the server's process tree, before the bad clients and at its largest.  Linux only.
Not here: throughput (bench_serve.py); what must hold in any case (tests/e2e/test_slow_client.py).
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import pathlib
import shlex
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import procs

HERE = pathlib.Path(__file__).resolve().parent
THREADS = 4
SERVERS = {
    "aserve": "{python} -m aserve --bind 127.0.0.1:{port} --threads 4 --log-level error {app}",
    "waitress": "{python} -m waitress --listen=127.0.0.1:{port} --threads=4 {app}",
    "gunicorn": "{python} -m gunicorn --worker-class gthread --threads 4 --bind 127.0.0.1:{port} --log-level error {app}",
}
START_SECONDS = 20.0
PAUSE_SECONDS = 0.01  # between good requests
DRIP_SECONDS = 0.1  # between the octets of a client that drips
AGAIN_SECONDS = 0.2  # after which a client that floods connects anew
BLOCKED_MS = 1000.0
MIB = 1 << 20


# The app that is served


def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """/stream?N and /list?N: N MiB in pieces, or at once; anything else: a few octets, behind the whole body."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    size = int(environ["QUERY_STRING"] or 0)
    if environ["PATH_INFO"] == "/stream":
        return (b"x" * 65536 for _ in range(size * 16))
    if environ["PATH_INFO"] == "/list":
        return [b"x" * (size * MIB)]
    return [b"%d octets\n" % len(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))]


# What the bad clients do


class Row(NamedTuple):
    """One way to misbehave."""

    name: str
    about: str
    octets: bytes = b""  # sent at once
    drip: bytes = b""  # then an octet of this now and then
    is_again: bool = False  # then a reset, and all of it again
    pause_seconds: float = 0.0  # before the good client begins


def get(target: str) -> bytes:
    """Return a GET."""
    return f"GET {target} HTTP/1.1\r\nHost: bad\r\n\r\n".encode()


POST = b"POST / HTTP/1.1\r\nHost: bad\r\nContent-Length: 1000\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: bad\r\nTransfer-Encoding: chunked\r\n\r\n"
ROWS = [
    Row("none", "no bad clients"),
    Row("silent", "connections without an octet"),
    Row("head", "half-sent heads", b"GET / HTTP/1.1\r\nHost: b"),
    Row("head-drip", "heads, an octet each 100 ms", b"GET / HTTP/1.1\r\nX: ", b"x" * 1000),
    Row("body", "half-sent bodies", POST + b"x" * 10),
    Row("body-drip", "bodies, an octet each 100 ms", POST, b"x" * 1000),
    Row("list-5", "not reading 5 MB in one piece", get("/list?5"), pause_seconds=0.5),
    Row("stream-20", "not reading 20 MB from a generator", get("/stream?20"), pause_seconds=0.5),
    Row("stream-100", "not reading 100 MB from a generator", get("/stream?100"), pause_seconds=0.5),
    Row("pipelined", "pipelining, not reading", get("/list?1") * 50, pause_seconds=0.5),
    Row("reset", "resets in the middle of a body", POST + b"x" * 10, is_again=True),
    Row("chunks", "floods of chunks of one octet", CHUNKED + b"1\r\nx\r\n" * 20_000, is_again=True),
    Row("extension", "a chunk extension of 1 MB", CHUNKED + b"1;" + b"x" * 1_000_000, is_again=True),
    Row("fields", "100,000 header fields", b"GET / HTTP/1.1\r\nHost: bad\r\n" + b"a: b\r\n" * 100_000, is_again=True),
    Row("idle", "kept connections after one answer", get("/"), pause_seconds=0.5),
]


class BadClients:
    """All of them, until `close`."""

    def __init__(self, port: int, row: Row, count: int) -> None:
        self._port, self._row, self._is_over = port, row, threading.Event()
        self._sockets = [self._connect() for _ in range(count)]
        self._thread = threading.Thread(target=self._flood if row.is_again else self._drip, daemon=True)
        self._thread.start()

    def _connect(self) -> socket.socket:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # before connect(), or the window is open
        sock.settimeout(1.0)
        with contextlib.suppress(OSError):  # a full backlog is an answer, too
            sock.connect(("127.0.0.1", self._port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._row.is_again:
                sock.setblocking(False)
                sock.send(self._row.octets)  # what the kernel takes
            else:
                sock.sendall(self._row.octets)
        sock.setblocking(False)
        return sock

    def _drip(self) -> None:
        for octet in self._row.drip:
            if self._is_over.wait(DRIP_SECONDS):
                return
            for sock in self._sockets:
                with contextlib.suppress(OSError):
                    sock.send(bytes([octet]))

    def _flood(self) -> None:
        pause_seconds = AGAIN_SECONDS / max(len(self._sockets), 1)
        while True:
            for at, sock in enumerate(self._sockets):
                if self._is_over.wait(pause_seconds):
                    return
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.close()
                self._sockets[at] = self._connect()

    def close(self) -> None:
        """Close all connections."""
        self._is_over.set()
        self._thread.join()
        for sock in self._sockets:
            sock.close()


# The good client


def ask(port: int, seconds: float) -> float | None:
    """Return the milliseconds that one good request took; None: no right answer within the time."""
    began = time.perf_counter()
    received = b""
    try:
        with socket.create_connection(("127.0.0.1", port), seconds) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: good\r\nConnection: close\r\n\r\n")
            while True:
                left = seconds - (time.perf_counter() - began)
                if left <= 0:
                    return None
                sock.settimeout(left)
                data = sock.recv(65536)
                if not data:
                    break
                received += data
    except OSError:
        return None
    is_right = received.startswith(b"HTTP/1.1 200 ") and b"0 octets\n" in received
    return 1000 * (time.perf_counter() - began) if is_right else None


class Result(NamedTuple):
    """What one server did in one row."""

    answers_ms: list[float]
    waited_ms: float  # for the answer that did not come; 0: all came
    before_mib: float
    largest_mib: float

    def verdict(self, limit_ms: float) -> str:
        """Return in a word or two whether the good client was served in time."""
        worst = max([*self.answers_ms, self.waited_ms])
        if self.waited_ms or worst >= BLOCKED_MS:
            return f"blocked {worst / 1000:.1f} s" + ("" if self.answers_ms else ", no answer")
        late = sum(answer > limit_ms for answer in self.answers_ms)
        return f"{late} of {len(self.answers_ms)} late" if late else "ok"


# Servers


@contextlib.contextmanager
def running(command: str, log: Any) -> Iterator[tuple[int, int]]:
    """Run a server, in a session of its own; yield its process id and its port once it answers."""
    port = procs.free_port()
    words = shlex.split(command.format(python=sys.executable, port=port, app="hostile:app"))
    env = {name: value for name, value in os.environ.items() if not name.startswith(("ASERVE_", "GUNICORN_"))}
    process = subprocess.Popen(
        words, cwd=HERE, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )
    try:
        deadline = time.monotonic() + START_SECONDS
        while ask(port, 1.0) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the server does not start: {shlex.join(words)}\nIts words are in {log.name}")
            time.sleep(0.05)
        yield process.pid, port
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def measure(command: str, row: Row, count: int, seconds: float, log: Any) -> Result:
    """Run one row with one server."""
    with running(command, log) as (pid, port):
        before = largest = procs.pss_mb(pid)
        bad = BadClients(port, row, count if row.name != "none" else 0)
        try:
            time.sleep(row.pause_seconds)
            answers, waited, deadline = [], 0.0, time.monotonic() + seconds
            next_look = 0.0
            while time.monotonic() < deadline:
                began = time.monotonic()
                answer = ask(port, max(deadline - began, BLOCKED_MS / 1000))
                if answer is None:
                    waited = max(waited, 1000 * (time.monotonic() - began))
                else:
                    answers.append(answer)
                if time.monotonic() > next_look:
                    next_look = time.monotonic() + 1.0
                    largest = max(largest, procs.pss_mb(pid))
                time.sleep(PAUSE_SECONDS)
            largest = max(largest, procs.pss_mb(pid))
        finally:
            bad.close()
    return Result(answers, waited, before, largest)


# The command


def find_servers(options: argparse.Namespace) -> dict[str, str]:
    """Return the commands of the servers asked for; say which are not here."""
    servers = dict(text.split("=", 1) for text in options.server)
    wanted = options.only.split(",") if options.only else [] if servers else list(SERVERS)
    for name, command in SERVERS.items():
        if name not in wanted:
            continue
        if importlib.util.find_spec(name) is None:
            print(f"{name} is not installed beside {sys.executable}: left out", file=sys.stderr)
        else:
            servers.setdefault(name, command)
    if not servers:
        raise SystemExit("no server to measure: pip install waitress gunicorn, or give --server 'NAME=COMMAND'")
    return servers


def table(results: dict[tuple[str, str], Result], rows: list[Row], servers: Iterable[str], options: Any) -> str:
    """Return the results as a table in Markdown."""
    lines = [
        f"{options.clients} bad clients, {THREADS} threads, {options.seconds:g} s a row; a good answer is late after "
        f"{options.limit_ms:g} ms.\n",
        "| bad clients | server | good client | answers | median ms | worst ms | MiB before | MiB at most |",
        "|---|---|---|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        for name in servers:
            result = results[row.name, name]
            times = result.answers_ms
            median = f"{statistics.median(times):.1f}" if times else "-"
            worst = f"{max([*times, result.waited_ms]):.0f}"
            lines.append(
                f"| {row.about} | {name} | {result.verdict(options.limit_ms)} | {len(times)} | {median} | {worst} "
                f"| {result.before_mib:.0f} | {result.largest_mib:.0f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--server",
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="{port} and {app} are filled in, {python} is this one; give it 4 threads",
    )
    parser.add_argument("--only", default="", metavar="NAMES", help=f"of {', '.join(SERVERS)}")
    parser.add_argument(
        "--row", action="append", choices=[row.name for row in ROWS], help="this row; repeatable; all by default"
    )
    parser.add_argument("--clients", type=int, default=64, help="bad ones (64)")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each row runs (5)")
    parser.add_argument("--limit-ms", type=float, default=100.0, help="when a good answer is late (100)")
    parser.add_argument("--write", metavar="FILE", help="write the table there, too")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as ^C: the servers are stopped
    servers = find_servers(options)
    rows = [row for row in ROWS if not options.row or row.name in options.row]
    results: dict[tuple[str, str], Result] = {}
    with tempfile.NamedTemporaryFile("wb", prefix="hostile-", suffix=".log", delete=False) as log:
        for row in rows:
            for name, command in servers.items():
                result = results[row.name, name] = measure(command, row, options.clients, options.seconds, log)
                print(f"{row.name:12} {name:12} {result.verdict(options.limit_ms)}", file=sys.stderr)
    os.unlink(log.name)
    text = table(results, rows, servers, options)
    print(text, end="")
    if options.write:
        pathlib.Path(options.write).write_text(text)


if __name__ == "__main__":
    main()
