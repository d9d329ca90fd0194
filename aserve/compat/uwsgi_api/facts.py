"""The functions of the module `uwsgi` about this server: its workers, their counts, this process; and those that reload or stop it.

Owns:     FACTS, by their names.
Thread:   any.
Spec:     uWSGI 2.0.30, "The uWSGI API - Python".
Not here: the facts of this process (process.py), the counts (tallies.py), the module (module.py).
"""

from __future__ import annotations

import logging
import os
import signal
import time
from typing import Any, Callable, Union

from ...core.page import MOLD, Field
from . import memory
from .process import present
from .tallies import TallyRow

app_logger = logging.getLogger("aserve.app")
Text = Union[str, bytes]

ALONE_TEXT = "there is no supervisor to do it; with --workers 1 there is one"
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


def worker_id() -> int:
    """Return the number of this worker process; without workers it is 1."""
    return present().worker_id


def masterpid() -> int:
    """Return the pid of the supervisor; 0: there is none."""
    return present().masterpid


def workers() -> tuple[dict[str, Any], ...]:
    """Return a dict for each worker, as uWSGI has it; without workers for this process."""
    process, tallies = present(), memory.shared().tallies
    if process.pages is None:
        return (_describe(worker_id(), os.getpid(), 0, tallies.row(0, os.getpid()), True),)
    found: dict[int, dict[str, Any]] = {}
    for number in range(1, process.pages.top):
        page = process.pages.page(number)
        pid, slot, generation = page[Field.PID], page[Field.SLOT], page[Field.GENERATION]
        if not pid or slot not in range(1, MOLD):
            continue
        respawns = max(generation - 1, 0)  # uWSGI does not count the first start
        if slot in found and found[slot]["respawn_count"] >= respawns:
            continue  # draining
        row = tallies.row(number, pid)
        row = row if row.spawned_at else TallyRow(requests=page[Field.REQUESTS])  # it does not count
        is_busy = bool(page[Field.THREADS_BUSY]) or pid == os.getpid()
        found[slot] = _describe(slot, pid, respawns, row, is_busy, tallies.ended(slot))
    return tuple(found[slot] for slot in sorted(found))


def _describe(
    slot: int, pid: int, respawns: int, row: TallyRow, is_busy: bool, ended: TallyRow = TallyRow()  # noqa: B008
) -> dict[str, Any]:  # fmt: skip
    """Return the dict of a worker. `row`: since its process began; `ended`: of the processes before it."""
    sums, (rss, vsz) = row.plus(ended), memory_of(pid)
    app = {
        "id": 0, "modifier1": 0, "mountpoint": b"", "startup_time": 0, "interpreter": 0, "callable": 0,
        "requests": sums.requests, "exceptions": sums.exceptions, "chdir": b"",
    }  # fmt: skip
    return {
        "id": slot, "pid": pid, "requests": sums.requests, "delta_requests": row.requests, "signals": sums.signals,
        "exceptions": sums.exceptions, "status": b"busy" if is_busy else b"idle", "rss": rss, "vsz": vsz,
        "running_time": sums.microseconds, "last_spawn": row.spawned_at or began_at(pid), "respawn_count": respawns,
        "tx": sums.octets, "avg_rt": sums.microseconds // sums.requests if sums.requests else 0, "apps": (app,),
    }  # fmt: skip


def memory_of(pid: int) -> tuple[int, int]:
    """Return the octets of memory that a process has, resident and in all; zeros, if they are not known."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            pages, resident = file.read().split()[:2]
    except OSError:
        return 0, 0
    return int(resident) * _PAGE_BYTES, int(pages) * _PAGE_BYTES


def began_at(pid: int) -> int:
    """Return when a process began, in seconds since 1970; 0, if that is not known."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])
        with open("/proc/uptime", encoding="ascii") as file:
            up_seconds = float(file.read().split()[0])
    except OSError:
        return 0
    return int(time.time() - up_seconds + ticks / _TICKS)


def total_requests() -> int:
    """Return the number of requests that all workers have answered, also those that have ended."""
    return sum(worker["requests"] for worker in workers())


def request_id() -> int:
    """Return the number of requests that this worker has answered."""
    return sum(worker["requests"] for worker in workers() if worker["id"] == worker_id())


def mem() -> tuple[int, int]:
    """Return the octets of memory that this process has, resident and in all."""
    return memory_of(os.getpid())


def micros() -> int:
    """Return the microseconds since 1970."""
    return time.time_ns() // 1000


def logsize() -> int:
    """Return 0, as uWSGI does where its log is no file of its own."""
    return 0


def ready() -> bool | None:
    """Return True if this process serves, or None."""
    return present().serves or None


def accepting() -> None:
    """Do nothing: a worker accepts connections as soon as it has imported the app."""


def reload() -> bool:
    """
    Replace all workers one after another, as SIGHUP does.

    Raises:
        RuntimeError: there is no supervisor.
    """
    if not masterpid():
        raise RuntimeError(f"uwsgi.reload: {ALONE_TEXT}")
    os.kill(masterpid(), signal.SIGHUP)
    return True


def stop() -> bool:
    """Make the server drain and end."""
    os.kill(masterpid() or os.getpid(), signal.SIGTERM)
    return True


def i_am_the_spooler() -> bool:
    """Return whether this process does jobs."""
    return present().is_spooler


def log(text: Text) -> bool:
    """Write a line to the server's log."""
    app_logger.info("%s", text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else text)
    return True


FACTS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        worker_id, masterpid, workers, total_requests, request_id, mem, micros, logsize, ready, accepting, reload, stop,
        i_am_the_spooler, log,
    )
}  # fmt: skip
