"""A set of rounds: servers in turn (A B A B ...), each round a fresh server; medians and ratios.

Owns:     what is measured and when, what a wrong server is, medians, ratios, the table.
Figure:   requests per CPU second of the server's whole process tree. Unlike requests per second it
          holds still when the machine does not.
Ratio:    taken within each round, then the median of these; never of figures from two runs.
Not here: processes and clients (procs.py), commands (servers.py), what is to be reached (targets.py).
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import os
import pathlib
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple
from wsgiref.util import setup_testing_defaults

import apps
import procs
import servers
from procs import BenchmarkError, Row
from servers import Pair, Server

START_SECONDS = 30.0  # Guess: PyPy on a busy machine takes two
CLOSE_SECONDS = {False: 0.2, True: 2.0}  # Guess: by then a server has closed; longer where that is asked of it
ECHO_OCTETS = 71_453  # the body of the uwsgi and SCGI comparisons that others have published
WHOLE_REQUESTS_ONLY = {"fib36"}  # each takes so long that the one cut off at the end would count
BARE = "bare"  # fib(36) called without a server
COLUMNS = ("per_cpu_s", "rps", "p50_ms", "p99_ms", "pss_mb", "switches", "others")
OTHERS_SHARE = 0.05  # of the server's CPU, spent by other processes: beyond it, say so

Round = dict[str, dict[int, Row]]  # server name, connections


class Plan(NamedTuple):
    """What one set of rounds measures."""

    pair: Pair
    servers: list[Server]
    app: str = "hello"
    connections: tuple[int, ...] = (1, 10, 100)
    seconds: float = 4.0
    warm_up_seconds: float = 1.0  # before each number of connections, not counted
    rounds: int = 5
    has_browser_fields: bool = False
    is_close: bool = False  # one request per connection
    with_bare: bool = False
    cpus: tuple[int, int] = (0, 1)  # the server's, the client's

    @property
    def title(self) -> str:
        """What is measured, in words."""
        head = "a browser's fields" if self.has_browser_fields else "wrk's bare head"
        if self.app in WHOLE_REQUESTS_ONLY:
            return f"{self.app}, one request after the other, {self.pair.title}"
        kept = "one request per connection" if self.is_close else "keep-alive"
        return f"{self.app}, {kept}, {head}, {self.pair.title}"

    @property
    def estimate_seconds(self) -> float:
        """About how long it takes."""
        per_server = len(self.connections) * (self.seconds + self.warm_up_seconds) + 2.0
        return self.rounds * (len(self.servers) + self.with_bare) * per_server


class Result(NamedTuple):
    """What the rounds gave."""

    plan: Plan
    rounds: list[Round]
    left_out: dict[str, str]  # server name: why

    def rows(self, name: str, connections: int) -> list[Row]:
        """Return a server's rows, of the rounds that have one."""
        return [each[name][connections] for each in self.rounds if connections in each.get(name, {})]

    def median(self, name: str, connections: int, column: str) -> float | None:
        """Return the median of a column, None where it was not measured."""
        values = [row[column] for row in self.rows(name, connections) if row.get(column) is not None]
        return statistics.median(values) if values else None

    def ratio(self, name: str, base: str, connections: int) -> float | None:
        """Return the median over the rounds of the ratio within each; None: never both measured."""
        pairs = [
            (each[name][connections]["per_cpu_s"], each[base][connections]["per_cpu_s"])
            for each in self.rounds
            if connections in each.get(name, {}) and connections in each.get(base, {})
        ]
        return statistics.median(ours / theirs for ours, theirs in pairs) if pairs else None

    def errors(self, name: str, connections: int) -> dict[str, int]:
        """Return the errors of all rounds by kind; empty: none."""
        sums: dict[str, int] = {}
        for row in self.rows(name, connections):
            for kind, count in row["errors"].items():
                sums[kind] = sums.get(kind, 0) + count
        return sums


# Running


def run_plan(plan: Plan) -> Result:
    """Measure; say on standard error how far it is."""
    result = Result(plan, [], {})
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="aserve-bench-"))
        floor = _compile_floor(folder)
        for number in range(1, plan.rounds + 1):
            result.rounds.append({})
            for server in plan.servers:
                if server.name not in result.left_out:
                    _run_server(plan, server, folder, floor, result)
                    _say_progress(result, number, server.name)
            if plan.with_bare:
                row = _time_bare(plan)
                result.rounds[-1][BARE] = dict.fromkeys(plan.connections, row)
                _say_progress(result, number, BARE)
    return result


def _run_server(plan: Plan, server: Server, folder: str, floor: str, result: Result) -> None:
    reason = _why_not(plan, server, floor)
    if not reason:
        try:
            result.rounds[-1][server.name] = _measure(plan, server, folder, floor)
            return
        except BenchmarkError as fault:
            reason = str(fault)
    result.left_out[server.name] = reason


def _why_not(plan: Plan, server: Server, floor: str) -> str:
    """Return why a server cannot be measured at all; empty: it can."""
    if plan.pair.version(server) is None:
        return f"{server.package} is not installed"
    if server.name == "floor" and (plan.app != "hello" or plan.is_close):
        return "it knows only hello on kept connections"
    if server.name == "floor" and not floor:
        return "no C compiler"
    return ""


def _measure(plan: Plan, server: Server, folder: str, floor: str) -> dict[int, Row]:
    """Start a fresh server; return its rows by number of connections."""
    with tempfile.TemporaryDirectory(dir=folder) as home, open(f"{home}/output", "w+b") as output:
        port = procs.free_port()
        values = {
            "aserve": str(plan.pair.aserve),
            "peer": str(plan.pair.peer),
            "bin": str(plan.pair.peer.parent),
            "floor": floor,
            "port": str(port),
            "app": plan.app,
            "log": f"{home}/access.log",
        }
        command = servers.build_command(server, values)
        env = _environment(home)
        with procs.running(command, plan.cpus[0], env, str(servers.HERE), output) as process:
            listening = procs.wait_until(lambda: process.poll() is not None or procs.is_listening(port), START_SECONDS)
            if not listening or process.poll() is not None:
                output.seek(0)
                text = " ".join(output.read().decode(errors="replace").split())
                raise BenchmarkError(f"did not start: {text[-300:] or shlex.join(command)}")
            is_kept = _check_response(plan, port)
            words = wrk_words(plan, home)
            rows = {count: _measure_load(plan, process.pid, port, count, words) for count in plan.connections}
            return {count: {**row, "is_kept": is_kept} for count, row in rows.items()}


def _environment(home: str) -> dict[str, str]:
    """Return a server's environment: no setting of the caller's reaches it."""
    path = os.environ.get("PATH", os.defpath)
    return {"PATH": path, "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", "PYTHONPATH": str(servers.HERE)}


def _measure_load(plan: Plan, pid: int, port: int, connections: int, words: list[str]) -> Row:
    """Warm up, then measure; the warm-up also takes what an earlier load has left behind."""
    _load(plan, port, connections, plan.warm_up_seconds, words)
    started, busy = time.monotonic(), procs.busy_seconds(plan.cpus[0])
    cpu, switches = procs.cpu_seconds(pid), procs.context_switches(pid)
    row = _load(plan, port, connections, plan.seconds, words)
    cpu = procs.cpu_seconds(pid) - cpu
    if not row["n"] or cpu <= 0:
        raise BenchmarkError(f"{row['n']} requests in {cpu} CPU seconds at {connections} connections: {row['errors']}")
    wall = time.monotonic() - started
    row["cpu_seconds"] = cpu
    row["per_cpu_s"] = row["n"] / cpu
    row["switches"] = (procs.context_switches(pid) - switches) / row["n"]
    row["others"] = max(0.0, procs.busy_seconds(plan.cpus[0]) - busy - cpu) / wall
    row["pss_mb"] = procs.pss_mb(pid)
    return row


def _load(plan: Plan, port: int, connections: int, seconds: float, words: list[str]) -> Row:
    if plan.app in WHOLE_REQUESTS_ONLY:
        return procs.whole_requests(port, seconds)
    return procs.wrk(port, connections, seconds, plan.cpus[1], words)


def wrk_words(plan: Plan, home: str) -> list[str]:
    """Return the flags that make wrk send what the plan says; `home`: where a script may be put."""
    fields = servers.browser_fields() if plan.has_browser_fields else []
    fields += ["Connection: close"] if plan.is_close else []
    words = [word for field in fields for word in ("-H", field)]
    if plan.app == "echo":
        script = pathlib.Path(home, "post.lua")
        script.write_text(f'wrk.method = "POST"\nwrk.body = string.rep("x", {ECHO_OCTETS})\n')
        words += ["-s", str(script)]
    return words


def _check_response(plan: Plan, port: int) -> bool:
    """
    Ask once and look at the answer; return whether the connection is kept.

    Raises:
        BenchmarkError: the answer is not the app's, or the wish to close is not respected.
    """
    data = b"x" * ECHO_OCTETS if plan.app == "echo" else None
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)
    try:
        fields = {"Connection": "close"} if plan.is_close else {}
        connection.request("POST" if data else "GET", "/", data, fields)
        response = connection.getresponse()
        body = response.read()
        is_kept = not response.will_close and _stays_open(connection.sock, CLOSE_SECONDS[plan.is_close])
    except (OSError, http.client.HTTPException) as fault:
        raise BenchmarkError(f"does not answer: {fault!r}")
    finally:
        connection.close()
    wanted = data or _expected_body(plan.app)
    if response.status != 200 or (wanted and body != wanted):
        raise BenchmarkError(f"answers wrongly: status {response.status}, {len(body)} octets, begins {body[:60]!r}")
    if plan.is_close and is_kept:
        raise BenchmarkError("keeps the connection although asked to close it")
    return is_kept


def _stays_open(connection: socket.socket, seconds: float) -> bool:
    connection.settimeout(seconds)
    try:
        return bool(connection.recv(1))
    except socket.timeout:
        return True


@functools.lru_cache(None)
def _expected_body(app: str) -> bytes:
    """Return what the app answers when it is called without a server; empty: that depends on the server."""
    if app == "testapp":
        return b""
    environ: dict[str, Any] = {}
    setup_testing_defaults(environ)
    return b"".join(getattr(apps, app)(environ, lambda status, headers: None))


def _compile_floor(folder: str) -> str:
    """Return the path of the compiled floor.c; empty: there is no compiler."""
    path = f"{folder}/floor"
    try:
        subprocess.run(["cc", "-O2", "-o", path, str(servers.HERE / "floor.c")], check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return ""
    return path


def _time_bare(plan: Plan) -> Row:
    """Time fib(36) in a process of its own, on the server's CPU and interpreter."""
    command = ["taskset", "-c", str(plan.cpus[0]), str(plan.pair.aserve), "apps.py"]
    command += [str(plan.warm_up_seconds), str(plan.seconds)]
    limit = plan.warm_up_seconds + plan.seconds + procs.CLIENT_GRACE_SECONDS
    done = subprocess.run(command, cwd=servers.HERE, capture_output=True, text=True, timeout=limit, check=True)
    row: Row = json.loads(done.stdout)
    return {**row, "per_cpu_s": row["n"] / row["cpu_seconds"], "errors": {}}


# Showing


def _rate(value: float) -> str:
    return f"{value:.0f}" if value > 100 else f"{value:.2f}"


def _say_progress(result: Result, number: int, name: str) -> None:
    plan, rows = result.plan, result.rounds[-1].get(name)
    text = "  ".join(f"{count}: {_rate(row['per_cpu_s'])}" for count, row in rows.items()) if rows else "left out"
    print(f"round {number}/{plan.rounds}  {name:24}{text}", file=sys.stderr, flush=True)


def format_table(result: Result, base: str) -> str:
    """Return the medians as a table, with the ratio to one of the servers."""
    plan = result.plan
    lines = [
        f"{plan.title}; medians of {plan.rounds} rounds of {plan.seconds:g} s; x: ratio to {base}",
        f"{'server':22}{'conns':>6}{'req/cpu-s':>11}{'x':>7}{'rps':>9}{'p50 ms':>9}{'p99 ms':>9}{'PSS MB':>8}"
        f"{'switches':>10}  errors",
    ]
    names = [server.name for server in plan.servers] + [BARE] * plan.with_bare
    for connections in plan.connections:
        lines += [_format_row(result, name, base, connections) for name in names if name not in result.left_out]
    lines += [f"left out: {name}: {reason}" for name, reason in result.left_out.items()]
    if base in result.left_out or base not in names:
        lines.append(f"no ratios: {base} was not measured")
    return "\n".join(lines + warnings(result))


def _format_row(result: Result, name: str, base: str, connections: int) -> str:
    plan = result.plan

    def cell(value: float | None, width: int, digits: int) -> str:
        return f"{'-' if value is None else format(value, f'.{digits}f'):>{width}}"

    median = {column: result.median(name, connections, column) for column in COLUMNS}
    rate = median["per_cpu_s"]
    notes = [f"{kind} {count}" for kind, count in result.errors(name, connections).items()]
    if not plan.is_close and not all(row.get("is_kept", True) for row in result.rows(name, connections)):
        notes.append("keeps no connection")
    return (
        f"{name:22}{connections:>6}{'-' if rate is None else _rate(rate):>11}"
        f"{cell(result.ratio(name, base, connections), 7, 2)}{cell(median['rps'], 9, 0)}"
        f"{cell(median['p50_ms'], 9, 2)}{cell(median['p99_ms'], 9, 2)}{cell(median['pss_mb'], 8, 1)}"
        f"{cell(median['switches'], 10, 3)}  {', '.join(notes)}"
    ).rstrip()


def warnings(result: Result) -> list[str]:
    """Return what makes the figures doubtful, a line each."""
    plan = result.plan
    lines = []
    if not plan.pair.is_fair:
        lines.append("WARNING: aserve and its peers are on different builds of Python; do not quote the ratios")
    shares = [row.get("others", 0.0) for each in result.rounds for rows in each.values() for row in rows.values()]
    if shares and statistics.median(shares) > OTHERS_SHARE:
        share = statistics.median(shares)
        lines.append(f"WARNING: the machine was not quiet: others took {share:.0%} of the server's CPU")
    return lines
