"""Processes: started on one CPU, read through /proc, stopped for sure.

Owns:     every server of a benchmark as a process; what /proc tells of a process tree; free ports.
Figures:  CPU seconds are user plus system time of the whole tree, threads and reaped children
          included. Linux only.
Not here: which servers there are (servers.py), who loads them (clients.py), what is done with the
          figures (rounds.py).
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
STOP_SECONDS = 5.0  # Guess: servers that drain have nothing left to drain
SEARCH_PATH = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/usr/local/sbin"  # where web servers are


class BenchmarkError(Exception):
    """Something could not be measured; the text says what, in one line."""


# Starting and stopping


@contextlib.contextmanager
def running(
    words: Sequence[str], cpu: int | str, env: Mapping[str, str], cwd: str, log: IO[bytes]
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


def environment(home: str, modules: str | os.PathLike[str]) -> dict[str, str]:
    """Return a server's environment, and where its app is imported from: no setting of the caller's reaches it."""
    return {
        "PATH": SEARCH_PATH,
        "HOME": home,
        "TMPDIR": home,
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(modules),
    }


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


# A busy neighbour: it ends with this process, also when that is killed.
COMPUTE = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    for number in range(1_000_000): pass"


@contextlib.contextmanager
def computing(cpu: int) -> Iterator[int]:
    """Let a process compute on a CPU; give its number."""
    process = subprocess.Popen(["taskset", "-c", str(cpu), sys.executable, "-I", "-c", COMPUTE])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


# What /proc tells


def tree(pid: int) -> list[int]:
    """Return the process and all its descendants."""
    pids = [pid]
    for thread in _threads(pid):
        for child in _read(f"/proc/{pid}/task/{thread}/children").split():
            pids += tree(int(child))
    return pids


def command_of(pid: int) -> str:
    """Return the words of a process's command; empty: it has ended."""
    return _read(f"/proc/{pid}/cmdline").replace("\0", " ")


def is_traced(pid: int) -> bool:
    """Return whether a tracer holds every thread of the tree."""
    statuses = [_read(f"/proc/{each}/task/{thread}/status") for each in tree(pid) for thread in _threads(each)]
    return all(re.search(r"^TracerPid:\s*[1-9]", text, re.MULTILINE) for text in statuses if text)


def cpu_seconds(pid: int) -> float:
    """Return user plus system CPU seconds of the process tree so far."""
    seconds = 0.0
    for each in tree(pid):
        # proc(5): after the name in parentheses, utime, stime, cutime and cstime are 12th to 15th.
        ticks = [int(field) for field in _read(f"/proc/{each}/stat").rpartition(")")[2].split()[11:15]]
        # A tick is 10 ms, too coarse for a short load; a thread's schedstat begins with its nanoseconds on a CPU, but
        # those of threads that have ended are in the ticks alone.
        schedstats = (_read(f"/proc/{each}/task/{thread}/schedstat").split() for thread in _threads(each))
        exact = sum(int(fields[0]) for fields in schedstats if fields) / 1e9
        seconds += max(sum(ticks[:2]) / TICKS_PER_SECOND, exact) + sum(ticks[2:]) / TICKS_PER_SECOND
    return seconds


def context_switches(pid: int) -> int:
    """Return how often the threads of the tree were switched out so far, willing or not."""
    statuses = (_read(f"/proc/{each}/task/{thread}/status") for each in tree(pid) for thread in _threads(each))
    return sum(int(count) for text in statuses for count in re.findall(r"ctxt_switches:\s*(\d+)", text))


def pss_mb(pid: int) -> float:
    """Return the proportional set size of the tree: shared pages count once, by parts."""
    rollups = (_read(f"/proc/{each}/smaps_rollup") for each in tree(pid))
    return sum(int(kb) for text in rollups for kb in re.findall(r"^Pss:\s*(\d+)", text, re.MULTILINE)) / 1024


def busy_seconds(cpu: int) -> float:
    """Return how long a CPU has run any processes, or was taken away by the hypervisor, in seconds."""
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


def is_listening_at(path: str) -> bool:
    """Return whether a connection to the unix socket is accepted."""
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(0.5)
            probe.connect(path)
    except OSError:
        return False
    return True


def wait_until(is_true: Callable[[], bool], seconds: float) -> bool:
    """Ask again and again, at most this long; return the last answer."""
    end = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


# Tools


def need_tools(*names: str) -> None:
    """
    Check that these commands are there.

    Raises:
        BenchmarkError: one is not; the text names it.
    """
    for name in names:
        if not shutil.which(name, path=SEARCH_PATH):
            raise BenchmarkError(f"there is no {name} here; benchmarks/setup_peers.sh installs or names what is needed")
