"""Processes: started on one CPU, read through /proc, loaded by a client on another, stopped for sure.

Owns:     every child process of a benchmark; what /proc tells of a process tree; the two clients.
Figures:  CPU seconds are user plus system time of the whole tree, threads and reaped children
          included. Linux only.
Not here: which servers there are (servers.py), what is done with the figures (rounds.py).
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import math
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

Row = dict[str, Any]  # the figures of one server at one number of connections in one round

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
STOP_SECONDS = 5.0  # Guess: servers that drain have nothing left to drain
CLIENT_GRACE_SECONDS = 30.0  # Guess: beyond its own time, for a machine that is busy


class BenchmarkError(Exception):
    """Something could not be measured; the text says what, in one line."""


# Starting and stopping


@contextlib.contextmanager
def running(
    words: Sequence[str], cpu: int, env: Mapping[str, str], cwd: str, log: IO[bytes]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server on one CPU in a process group of its own; nothing of it is left afterwards."""
    process = subprocess.Popen(
        ["taskset", "-c", str(cpu), *words],
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the process and all it has started, gently first; a ^C meanwhile waits."""
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        members = tree(process.pid)
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS)
        if any(_is_in_group(pid, process.pid) for pid in members):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait(STOP_SECONDS)
    finally:
        signal.signal(signal.SIGINT, previous)


def _is_in_group(pid: int, group: int) -> bool:
    try:
        return os.getpgid(pid) == group
    except ProcessLookupError:
        return False


def exit_on_signals() -> None:
    """Let SIGTERM and SIGHUP unwind the stack as ^C does, so that servers are stopped."""

    def unwind(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, unwind)
    signal.signal(signal.SIGHUP, unwind)


@functools.lru_cache(None)  # for good: afterwards there is only one CPU to choose from
def choose_cpus() -> tuple[int, int]:
    """
    Return a CPU for the server and one for the client; keep this process off the former.

    Raises:
        BenchmarkError: there are not two.
    """
    has_affinity = hasattr(os, "sched_setaffinity")  # PyPy 3.9 has not
    cpus = sorted(os.sched_getaffinity(0)) if has_affinity else list(range(os.cpu_count() or 1))
    if len(cpus) < 2:
        raise BenchmarkError("two CPUs are needed: one for the server, one for the client")
    if has_affinity:
        os.sched_setaffinity(0, {cpus[1]})
    return cpus[0], cpus[1]


# What /proc tells


def tree(pid: int) -> list[int]:
    """Return the process and all its descendants."""
    pids = [pid]
    for thread in _threads(pid):
        for child in _read(f"/proc/{pid}/task/{thread}/children").split():
            pids += tree(int(child))
    return pids


def cpu_seconds(pid: int) -> float:
    """Return user plus system CPU seconds of the process tree so far."""
    ticks = 0
    for each in tree(pid):
        # proc(5): after the name in parentheses, utime, stime, cutime and cstime are 12th to 15th.
        fields = _read(f"/proc/{each}/stat").rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / TICKS_PER_SECOND


def context_switches(pid: int) -> int:
    """Return how often the threads of the tree were switched out so far, willing or not."""
    statuses = (_read(f"/proc/{each}/task/{thread}/status") for each in tree(pid) for thread in _threads(each))
    return sum(int(count) for text in statuses for count in re.findall(r"ctxt_switches:\s*(\d+)", text))


def pss_mb(pid: int) -> float:
    """Return the proportional set size of the tree: shared pages count once, by parts."""
    rollups = (_read(f"/proc/{each}/smaps_rollup") for each in tree(pid))
    return sum(int(kb) for text in rollups for kb in re.findall(r"^Pss:\s*(\d+)", text, re.MULTILINE)) / 1024


def busy_seconds(cpu: int) -> float:
    """Return how long a CPU has run processes, anybody's, or was taken away by the hypervisor."""
    match = re.search(rf"^cpu{cpu} (.*)", _read("/proc/stat"), re.MULTILINE)
    # proc(5): user nice system idle iowait irq softirq steal
    user, nice, system, _, _, _, _, steal = map(int, match[1].split()[:8]) if match else [0] * 8
    return (user + nice + system + steal) / TICKS_PER_SECOND


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:  # it has ended
        return []


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


# Ports


def free_port() -> int:
    """Return a port of the loopback address on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_listening(port: int) -> bool:
    """Return whether a connection to the port is accepted."""
    try:
        socket.create_connection(("127.0.0.1", port), 0.5).close()
    except OSError:
        return False
    return True


def wait_until(is_true: Callable[[], bool], seconds: float) -> bool:
    """Ask again and again for so long; return the last answer."""
    end = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


# Clients


def wrk(port: int, connections: int, seconds: float, cpu: int, words: Sequence[str] = ()) -> Row:
    """
    Load the server with wrk, one thread, for so long; return its figures.

    Raises:
        BenchmarkError: wrk did not run to its end.
    """
    process = subprocess.Popen(
        ["taskset", "-c", str(cpu), "wrk", "-t1", f"-c{connections}", f"-d{math.ceil(seconds)}s", "--latency", *words]
        + [f"http://127.0.0.1:{port}/"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        if seconds != int(seconds):
            # wrk takes whole seconds only; interrupted, it reports what it has.
            time.sleep(seconds)
            process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=seconds + CLIENT_GRACE_SECONDS)[0]
    except subprocess.TimeoutExpired:
        raise BenchmarkError(f"wrk did not end within {seconds + CLIENT_GRACE_SECONDS:.0f} s")
    finally:
        process.kill()
        process.wait()
    return parse_wrk(output)


UNITS_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}


def parse_wrk(output: str) -> Row:
    """
    Return the figures in wrk's report: n, rps, p50_ms, p99_ms, errors.

    Raises:
        BenchmarkError: it is not one.
    """
    match = re.search(r"(\d+) requests in ", output)
    rps = re.search(r"Requests/sec:\s+([\d.]+)", output)
    if not match or not rps:
        raise BenchmarkError("wrk: " + " ".join(output.split())[-300:])
    row: Row = {"n": int(match[1]), "rps": float(rps[1]), "errors": {}}
    for percent in (50, 99):
        found = re.search(rf"^\s+{percent}%\s+([\d.]+)(us|ms|s|m)$", output, re.MULTILINE)
        row[f"p{percent}_ms"] = float(found[1]) * UNITS_MS[found[2]] if found else None
    socket_errors = re.search(r"Socket errors: (.*)", output)
    counts = re.findall(r"(\w+) (\d+)", socket_errors[1]) if socket_errors else []
    counts += [("status", count) for count in re.findall(r"Non-2xx or 3xx responses: (\d+)", output)]
    row["errors"] = {kind: int(count) for kind, count in counts if int(count)}
    return row


def whole_requests(port: int, seconds: float) -> Row:
    """
    Send requests one after the other for so long, the last one to its end; same figures as wrk.

    For slow apps: wrk leaves off in the middle of a request, whose CPU time then counts for none.
    """
    times_ms = []
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=CLIENT_GRACE_SECONDS)
    started = now = time.perf_counter()
    bad = 0
    while now - started < seconds:
        connection.request("GET", "/")
        response = connection.getresponse()
        response.read()
        bad += response.status != 200
        before, now = now, time.perf_counter()
        times_ms.append((now - before) * 1000)
    connection.close()
    return {
        "n": len(times_ms),
        "rps": len(times_ms) / (now - started),
        "p50_ms": statistics.median(times_ms),
        "p99_ms": sorted(times_ms)[int(len(times_ms) * 0.99)],
        "errors": {"status": bad} if bad else {},
    }


def need_tools(*names: str) -> None:
    """
    Check that these commands are there.

    Raises:
        BenchmarkError: one is not; the text names it.
    """
    for name in names:
        if not shutil.which(name):
            raise BenchmarkError(f"there is no {name} here; benchmarks/setup_peers.sh installs or names what is needed")
