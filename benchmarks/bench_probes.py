"""What wrk cannot tell of a server: how soon it starts, what idle and slow clients cost, what a request leaves in memory, how workers share the work.

Use:      make bench-probes ARGS="..."; python benchmarks/bench_probes.py --help; README.md says how to read it.
Probes:   start   from the command to the first answer of an empty app, and the memory then
          idle    kept connections that are silent: memory, and the latencies of one client that is not
          slow    clients that ask for 5.2 MB and read nothing: memory
          leak    memory over loads one after the other: how much of it a request leaves behind
          spread  two workers on two CPUs: CPU-bound work beside one worker, and each worker's share of the requests
Owns:     the probes, their table of servers, the file.
Not here: what is to be reached (targets.py), processes (procs.py).
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import resource
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import clients
import command
import procs
import servers
import targets
from procs import BenchmarkError
from servers import Pair, Server

BENCH = "probes"
ROUNDS, QUICK_ROUNDS = 5, 1
IDLE, SLOW = 10_000, 100  # clients
START_SECONDS = 30.0  # Guess: PyPy on a busy machine
SETTLE_SECONDS = 1.0  # until memory has stopped to grow
ASK_SECONDS = 10.0
BUSY_REQUESTS = 2000
LEAK_LOADS, LEAK_CONNECTIONS = 4, 10
WARM_SECONDS = {False: 1.0, True: 5.0}  # before the first point, by whether it is PyPy
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Probed:
    """A server that runs, and its first process."""

    def __init__(self, pid: int, port: int, seconds: float) -> None:
        self.pid, self.port, self.start_seconds = pid, port, seconds


@contextlib.contextmanager
def running(pair: Pair, server: Server, app: str, cpus: str = "", flags: str = "") -> Iterator[Probed]:
    """
    Run a server until the block is over; it has answered once.

    Raises:
        BenchmarkError: it is not installed, or does not answer.
    """
    if pair.version(server) is None:
        raise BenchmarkError(f"{server.package} is not installed")
    first, _ = procs.choose_cpus()
    with tempfile.TemporaryDirectory() as home, open(f"{home}/output", "w+b") as output:
        values = {**servers.places(pair), "port": str(procs.free_port()), "app": app, "log": f"{home}/log", "floor": ""}
        words = servers.build_command(server._replace(command=f"{server.command} {flags}"), values)
        env = procs.environment(home, servers.HERE)
        started = time.perf_counter()
        with procs.running(words, cpus or str(first), env, str(servers.HERE), output) as process:
            port = int(values["port"])
            while not _answers(port):
                if process.poll() is not None or time.perf_counter() - started > START_SECONDS:
                    output.seek(0)
                    raise BenchmarkError(
                        f"did not start: {' '.join(output.read().decode(errors='replace').split())[-300:]}"
                    )
                time.sleep(0.002)
            yield Probed(process.pid, port, time.perf_counter() - started)


def _answers(port: int) -> bool:
    try:
        ask(port)
    except OSError:
        return False
    return True


def ask(port: int, connection: socket.socket | None = None) -> bytes:
    """Send one request on a connection, or on one of its own; return the answer to the end of a body of known length."""
    with contextlib.ExitStack() as stack:
        own = connection or stack.enter_context(socket.create_connection(("127.0.0.1", port), ASK_SECONDS))
        own.sendall(REQUEST)
        answer = b""
        while True:
            data = own.recv(65536)
            if not data:
                raise ConnectionError("no whole answer")
            answer += data
            head, separator, body = answer.partition(b"\r\n\r\n")
            length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
            if separator and length and len(body) >= int(length):
                return body


# Probes


def probe_start(pair: Pair, server: Server) -> dict[str, float]:
    """Return how soon a server answers, and its memory then."""
    with running(pair, server, "hello") as it:
        return {"seconds": it.start_seconds, "pss_mb": procs.pss_mb(it.pid)}


def probe_idle(pair: Pair, server: Server) -> dict[str, float]:
    """Return what so many kept connections add, and what one busy client sees among them."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # the server's, too
    count = min(IDLE, most - 200)
    with running(pair, server, "hello") as it, contextlib.ExitStack() as stack:
        for _ in range(200):
            ask(it.port)
        before = procs.pss_mb(it.pid)
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", it.port), ASK_SECONDS)) for _ in range(count)
        ]
        for connection in silent:
            ask(it.port, connection)
        time.sleep(SETTLE_SECONDS)
        more = procs.pss_mb(it.pid) - before
        times = []
        with socket.create_connection(("127.0.0.1", it.port), ASK_SECONDS) as busy:
            for _ in range(BUSY_REQUESTS):
                began = time.perf_counter()
                ask(it.port, busy)
                times.append((time.perf_counter() - began) * 1000)
        open_still = sum(map(_is_open, silent))
    times.sort()
    return {
        "connections": open_still,
        "more_mb": more,
        "p50_ms": times[len(times) // 2],
        "p99_ms": times[int(len(times) * 0.99)],
    }


def _is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return bool(connection.recv(1))
    except BlockingIOError:
        return True
    except OSError:
        return False


def probe_slow(pair: Pair, server: Server) -> dict[str, float]:
    """Return by how much memory grows when so many ask for a blob and do not read it."""
    with running(pair, server, "blob") as it, contextlib.ExitStack() as stack:
        before = procs.pss_mb(it.pid)
        for _ in range(SLOW):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # before connect(), or the window is open
            connection.settimeout(ASK_SECONDS)
            connection.connect(("127.0.0.1", it.port))
            connection.sendall(REQUEST)
        largest = before
        for _ in range(20):
            time.sleep(SETTLE_SECONDS / 10)
            largest = max(largest, procs.pss_mb(it.pid))
    return {"more_mb": largest - before}


def probe_leak(pair: Pair, server: Server) -> dict[str, float]:
    """Return by how much memory grows with each request, in octets, once the server is warm."""
    with running(pair, server, "hello") as it:
        _, cpu = procs.choose_cpus()
        clients.wrk(it.port, LEAK_CONNECTIONS, WARM_SECONDS[pair.is_pypy_for(server)], cpu)
        served, seen = 0, []
        for _ in range(LEAK_LOADS):
            served += clients.wrk(it.port, LEAK_CONNECTIONS, 1.0, cpu)["n"]
            seen.append((served, procs.pss_mb(it.pid)))
    return {"requests": served, "pss_mb": seen[-1][1], "growth": slope(seen) * 1024 * 1024}


def slope(points: list[tuple[float, float]]) -> float:
    """Return the slope of the straight line through points, by least squares; 0: they are one."""
    x, y = (statistics.fmean(each) for each in zip(*points))
    spread = sum((each - x) ** 2 for each, _ in points)
    return sum((left - x) * (right - y) for left, right in points) / spread if spread else 0.0


def probe_spread(pair: Pair, server: Server) -> dict[str, float]:
    """Return what a second worker adds in CPU-bound work, and the largest share of the requests that one worker gets."""
    first, second = procs.choose_cpus()
    both, rates, shares = f"{first},{second}", {}, {}
    for workers in (1, 2):
        with running(pair, server, "cpu", both, f"--workers {workers}") as it:
            time.sleep(SETTLE_SECONDS)
            clients.wrk(it.port, 16, 1.0, second)
            rates[workers] = clients.wrk(it.port, 16, 3.0, second)["rps"]
    with running(pair, server, "who", both, "--workers 2") as it:
        time.sleep(SETTLE_SECONDS)
        shares["fresh"] = _largest_share(it.port, 1)
        shares["kept"] = _largest_share(it.port, 20)
        os.kill(it.pid, signal.SIGHUP)
        time.sleep(4 * SETTLE_SECONDS)
        shares["reloaded"] = _largest_share(it.port, 1)
    return {"speed_up": rates[2] / rates[1], **{f"share_{name}": share for name, share in shares.items()}}


def _largest_share(port: int, requests: int) -> float:
    """Ask on 100 connections that are open at the same time, so many times on each; return the busiest worker's share."""
    seen: collections.Counter[bytes] = collections.Counter()
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(socket.create_connection(("127.0.0.1", port), ASK_SECONDS)) for _ in range(100)]
        for _ in range(requests):
            for connection in opened:
                seen[ask(port, connection)] += 1
    return max(seen.values()) / sum(seen.values())


PROBES = {"start": probe_start, "idle": probe_idle, "slow": probe_slow, "leak": probe_leak, "spread": probe_spread}
# Who is probed. Waitress takes 100 connections by default.
SERVERS = {
    "start": ["aserve", "bjoern", "granian", "waitress", "gunicorn", "uwsgi-http"],
    "idle": ["aserve", "bjoern", "granian"],
    "slow": ["aserve", "waitress", "uwsgi", "granian"],
    "leak": ["aserve", "uwsgi", "waitress", "gunicorn"],
    "spread": ["aserve", "gunicorn", "granian"],
}
ONCE = {"idle", "slow", "leak", "spread"}  # what needs no medians, or takes too long for them
# Target, probe, figure, at least, at most by interpreter.
BOUNDS: list[tuple[int, str, str, float | None, dict[str, float]]] = [
    (7, "slow", "more_mb", None, {"cpython": 64.0, "pypy": 64.0}),
    (12, "idle", "more_mb", None, {"cpython": 8.0}),
    (12, "idle", "p99_ms", None, {"cpython": 0.1, "pypy": 0.1}),
    (14, "spread", "speed_up", 1.8, {}),
    *((14, "spread", f"share_{when}", None, {"cpython": 0.6, "pypy": 0.6}) for when in ("fresh", "kept", "reloaded")),
    (15, "start", "seconds", None, {"cpython": 0.2, "pypy": 0.7}),
    (15, "start", "pss_mb", None, {"cpython": 32.0}),
]


def judge(rows: list[dict[str, Any]], interpreter: str) -> list[dict[str, Any]]:
    """Return the targets on what was probed of aserve."""
    judged = []
    for number, probe, key, least, most in BOUNDS:
        if least is None and interpreter not in most:
            continue
        for row in rows:
            if row["probe"] == probe and row["server"] == "aserve":
                bounds = {"at_least": least, "at_most": most.get(interpreter)}
                notes = [row["note"]] if row["note"] else []
                judged.append(targets.row(number, probe, "aserve", "", row.get(key), column=key, notes=notes, **bounds))
    return judged


def measure_rows(pair: Pair, probes: list[str], only: list[str], rounds: int) -> list[dict[str, Any]]:
    """Probe; return a row for each probe and server, with medians of the rounds."""
    rows = []
    for probe in probes:
        names = [name for name in SERVERS[probe] if name in only] if only else SERVERS[probe]
        known = {server.name for server in servers.table_for("serve", pair)}
        chosen = servers.choose(pair, [name for name in names if name in known])
        seen: dict[str, list[dict[str, float]]] = {server.name: [] for server in chosen}
        notes: dict[str, str] = {}
        for _ in range(1 if probe in ONCE else rounds):
            for server in chosen:
                try:
                    seen[server.name].append(PROBES[probe](pair, server))
                    print(f"{probe}, {server.name}: {seen[server.name][-1]}", file=sys.stderr, flush=True)
                except (BenchmarkError, OSError) as fault:
                    notes[server.name] = f"not measured: {fault}"
                    print(f"{probe}, {server.name}: {fault}", file=sys.stderr, flush=True)
        for server in chosen:
            figures = seen[server.name]
            medians = {key: statistics.median(each[key] for each in figures) for key in figures[0]} if figures else {}
            rows.append({"probe": probe, "server": server.name, **medians, "note": notes.get(server.name, "")})
    return rows


def main(argv: list[str]) -> int:
    """Run the command; return its exit status: 0 measured, 1 aserve was not, 2 it could not begin."""
    parser = command.probes_parser(__doc__, PROBES)
    parser.add_argument("--rounds", type=command.positive(int), help=str(ROUNDS))
    return command.run("bench_probes", measure, parser.parse_args(argv), "wrk")


def measure(args: argparse.Namespace) -> int:
    """Measure, print the table, write the file; return the exit status."""
    pair = servers.find_pair(args.interpreter, args.aserve, args.peers)
    rows = measure_rows(pair, args.probes, args.only, args.rounds or (QUICK_ROUNDS if args.quick else ROUNDS))
    judged = judge(rows, pair.interpreter)
    command.write_probes(BENCH, args, pair, rows, judged)
    print(targets.format_judgement(judged))
    return int(any(row["note"] for row in rows if row["server"] == "aserve"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
