"""Put ten faults into a Django site of two workers, and see the signs of each, and their times: python tests/drill.py [NAME...] [--again]

Each fault meets a new site, with clients that ask all the time. `aserve status`, the status page's data, the metrics and the log must
be quiet before, and each must tell of the fault within the seconds of FAULTS. Then the fault is taken out, and all four must be quiet
again within the seconds of FAULTS, too. Results are written at once, to
build/drill.json; a stopped run goes on behind the last result, and --again begins anew, as does a run after a run with all
signs told. Loopback only; ends within twelve minutes.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from harness.outages import APP, Site, SlowHeads, clients_of
from harness.process import run_command
from harness.recordings import numbers_of
from harness.waiting import wait_until

from aserve.features.metrics.table import METRICS

RESULTS = pathlib.Path(__file__).parent.parent / "build/drill.json"
QUIET_SECONDS = 3.0  # before the fault; and the least quiet time behind
LOOK_SECONDS = 0.5  # between two looks
STATUS, PAGE, NUMBERS, LOG = TELLERS = ("status", "page", "metrics", "log")


class Told(NamedTuple):
    """The words of a source."""

    what: str  # a regular expression; of metrics, to find the series to sum up
    seconds: float
    at_least: float = 1  # of metrics: how much more than before the fault


class Quiet(NamedTuple):
    """When all are quiet about a fault taken out."""

    seconds: float  # until quiet
    over: str = "^$"  # a regular expression: the warnings about the past, kept for ten minutes


class Fault(NamedTuple):
    """A fault, the words about the fault, and when all is over."""

    name: str
    put: Callable[[Site], contextlib.AbstractContextManager[None]]  # takes the fault out at the end of the block
    status: Told  # of the page, too
    metrics: Told
    log: Told
    quiet: Quiet
    is_failure: bool = True  # the exit status of `aserve status` is 1
    flags: tuple[str, ...] = ()
    clients: int = 8
    descriptors: int = 0


@contextlib.contextmanager
def _slow_heads(site: Site) -> Iterator[None]:
    slow = SlowHeads(site, 60)
    try:
        yield
    finally:
        slow.stop()


@contextlib.contextmanager
def _full_disk(site: Site) -> Iterator[None]:
    site.fill_disk()
    site.signal(signal.SIGUSR1)
    yield
    site.access_log.unlink()
    site.signal(signal.SIGUSR1)


@contextlib.contextmanager
def _broken_code(site: Site) -> Iterator[None]:
    site.write_app("import no_such_module\n")
    site.signal(signal.SIGHUP)
    yield
    site.write_app(APP)
    site.signal(signal.SIGHUP)


def _putting(
    name: str, cure: Callable[[Site], None] = lambda site: None
) -> Callable[[Site], contextlib.AbstractContextManager[None]]:
    """Return a function to put a fault in; `cure`: the act of a person once the fault is out."""

    @contextlib.contextmanager
    def put(site: Site) -> Iterator[None]:
        site.put(name)
        yield
        with contextlib.suppress(FileNotFoundError):  # a worker has taken the file
            site.take(name)
        cure(site)

    return put


def _reload(site: Site) -> None:
    site.signal(signal.SIGHUP)


def _kill_silent(site: Site) -> None:
    for worker in site.read_event()["workers"]:
        if (worker["silent_seconds"] or 0) > 5:
            os.kill(worker["pid"], signal.SIGKILL)


CRASHED = r"A worker has crashed|crashes of workers in the last ten minutes"
# A warning waits for ten seconds, as much passes by alone; counts are told within two. Behind the fault, words about the last ten seconds, or the
# last minute, stay for as long.
FAULTS = (
    Fault(
        "all threads are stuck", _putting("stuck"), clients=20,
        status=Told(r"2 of 2 workers: all threads busy: no queued request started for \d+ s", 15),
        metrics=Told("aserve_requests_stalled_seconds", 15, at_least=20),
        log=Told("all threads busy: no queued request started", 20),
        quiet=Quiet(20),
    ),
    Fault(
        "code in C holds a worker", _putting("hang-once", _kill_silent),
        status=Told(r"Worker \d: its event loop has not turned for \d+ s", 10),
        metrics=Told("aserve_loop_silent_seconds", 10, at_least=5),
        log=Told(r"its event loop has not turned for \d+ s", 20),
        quiet=Quiet(20, CRASHED),
    ),
    Fault(
        "a worker is killed", _putting("die-once"), is_failure=False,
        status=Told(r"A worker has crashed: worker \d, \d+ s ago: it was killed by SIGKILL", 5),
        metrics=Told('aserve_worker_restarts_total{reason="crash"}', 5),
        log=Told(r"has crashed .*it was killed by SIGKILL", 5),
        quiet=Quiet(10, CRASHED),
    ),
    Fault(
        "workers crash again and again", _putting("die"),
        status=Told(r"workers? (is|are) not ready", 10),
        metrics=Told('aserve_worker_restarts_total{reason="crash"}', 20, at_least=3),
        log=Told(r"(another is started|the next try is) in (0\.[248]|[1-9])", 20),
        quiet=Quiet(30, CRASHED),
    ),
    Fault(
        "every answer is 500", _putting("errors"),
        status=Told(r"\d+ % of the responses of the last minute were errors of the app \(5xx\)", 20),
        metrics=Told('aserve_requests_total{.*status="5xx"', 5, at_least=10),
        log=Told("ConnectionError: the database is gone", 5),
        quiet=Quiet(70),
    ),
    Fault(
        "the disk of the access log is full", _full_disk, is_failure=False,
        status=Told(r"Lines of the access log were lost in the last minute: \d+", 5),
        metrics=Told("aserve_access_log_lines_lost_total", 5),
        log=Told("No space left on device", 5),
        quiet=Quiet(70),
    ),
    Fault(
        "all connections are taken", _slow_heads, flags=("--max-connections", "10"),
        status=Told("2 of 2 workers: as many connections are open as may be, 10 each; .* in the kernel", 10),
        metrics=Told("aserve_listen_queue{", 5),
        log=Told("--max-connections", 10),
        quiet=Quiet(20),
    ),
    Fault(
        "the app keeps what it opens", _putting("leak", _reload), descriptors=200,
        status=Told("No worker has descriptors left for new connections; [0-9]+ clients? waits? in the kernel", 20),
        metrics=Told("aserve_worker_descriptors{", 15, at_least=150),
        log=Told("Too many open files", 15),
        quiet=Quiet(70),
    ),
    Fault(
        "the database is slow", _putting("slow"), clients=40, is_failure=False,
        status=Told(r"[Ee]very thread has been busy|threads were \d+ % busy", 20),
        metrics=Told('aserve_requests_waiting', 5, at_least=10),
        log=Told("slow", 10), flags=("--slow-request", "2s"),
        quiet=Quiet(30),
    ),
    Fault(
        "a reload of broken code", _broken_code, is_failure=False,
        status=Told(r"Nothing was reloaded, \d+ s ago: worker 1 .*no_such_module", 10),
        metrics=Told('aserve_reloads_total{result="refused"}', 10),
        log=Told("no_such_module", 10),
        quiet=Quiet(20),
    ),
)  # fmt: skip


def ask_status(site: Site) -> tuple[int, str]:
    """Return exit status and output of `aserve status`."""
    done = run_command("status", "--control", site.control)
    return done.returncode, done.stdout + done.stderr


def ask_page(site: Site) -> str:
    """Return the warnings of the status page."""
    return "\n".join(f"{each['text']} {each['do']}" for each in site.read_event()["warnings"])


class Look(NamedTuple):
    """The words told at a time."""

    status: str
    exit_status: int
    page: str
    numbers: dict[str, float]
    log: str


def look_at(site: Site) -> Look:
    """Ask all sources."""
    log, numbers = site.log, numbers_of(site.ask_metrics(), METRICS)
    exit_status, status = ask_status(site)
    return Look(status, exit_status, ask_page(site), numbers, log)


def _sum_of(fault: Fault, look: Look) -> float:
    return sum(value for name, value in look.numbers.items() if re.match(fault.metrics.what, name))


def tells(fault: Fault, before: Look, now: Look) -> dict[str, bool]:
    """Return the sources telling of a fault."""
    needs_look = now.exit_status == int(fault.is_failure) or not fault.is_failure
    return {
        STATUS: needs_look and re.search(fault.status.what, now.status) is not None,
        PAGE: re.search(fault.status.what, now.page) is not None,
        NUMBERS: _sum_of(fault, now) - _sum_of(fault, before) >= fault.metrics.at_least,
        LOG: re.search(fault.log.what, now.log[len(before.log) :]) is not None,
    }


def still_tells(fault: Fault, before: Look, last: Look, now: Look) -> dict[str, bool]:
    """Return the sources still telling behind a fault: `before` is from before the fault, and `last` the look before this."""

    def warns(lines: list[str]) -> bool:
        return any(re.search(fault.quiet.over, line) is None for line in lines)

    # A counter stands still; a gauge is nearer to the value of before than to the fault's.
    is_counter = "_total" in fault.metrics.what
    more = _sum_of(fault, now) - _sum_of(fault, last if is_counter else before)
    return {
        STATUS: now.exit_status != 0 or warns(re.findall("^- (.*)", now.status, re.M)),
        PAGE: warns(now.page.splitlines()),
        NUMBERS: more > 0 if is_counter else more >= fault.metrics.at_least / 2,
        LOG: re.search(" (WARNING|ERROR|CRITICAL) ", now.log[len(last.log) :]) is not None,
    }


def wait_for_quiet(fault: Fault, before: Look, look: Callable[[], Look]) -> tuple[float | None, list[str]]:
    """Return after how many seconds all were quiet about a fault, for QUIET_SECONDS; None: the sources still telling."""
    began = time.monotonic()
    last, quiet_at, telling = look(), None, list(TELLERS)
    while time.monotonic() < began + fault.quiet.seconds + QUIET_SECONDS:
        time.sleep(LOOK_SECONDS)
        now, seconds = look(), time.monotonic() - began
        telling = [name for name, does in still_tells(fault, before, last, now).items() if does]
        last, quiet_at = now, None if telling else quiet_at or seconds
        if quiet_at and seconds - quiet_at >= QUIET_SECONDS:
            return round(quiet_at, 1), []
    return None, [f"{name}: still tells of it" for name in telling] or ["quiet, but not for long"]


def drill(fault: Fault, folder: pathlib.Path) -> dict[str, Any]:
    """Put a fault in; return after how many seconds each source has told, and all mistakes."""
    limits = dict(zip(TELLERS, (fault.status.seconds, fault.status.seconds, fault.metrics.seconds, fault.log.seconds)))
    site = Site(folder, *fault.flags, descriptors=fault.descriptors)
    told: dict[str, float] = {}
    quiet: float | None = None
    try:
        site.wait_for_workers(2)
        with clients_of(site, count=fault.clients) as clients:
            wait_until(lambda: clients.seen["200"] > 50)
            time.sleep(QUIET_SECONDS)
            before = now = look_at(site)
            wrong = [f"{name} before the fault" for name, does in tells(fault, before, before).items() if does]
            wrong += [f"a warning before the fault: {before.page}"] if before.page or before.exit_status else []
            with fault.put(site):
                began = time.monotonic()
                while len(told) < len(TELLERS) and time.monotonic() < began + max(limits.values()):
                    time.sleep(LOOK_SECONDS)
                    now, seconds = look_at(site), time.monotonic() - began  # with the time for the look
                    for name, does in tells(fault, before, now).items():
                        if does:
                            told.setdefault(name, round(seconds, 1))
            if len(told) == len(TELLERS):  # or there is enough to be looked at
                quiet, noise = wait_for_quiet(fault, before, lambda: look_at(site))
                wrong += [f"{each}, {fault.quiet.seconds} s behind the fault" for each in noise]
                now = look_at(site) if noise else now
        for name, limit in limits.items():
            if told.get(name, limit + 1) > limit:
                wrong.append(f"{name}: {f'after {told[name]} s' if name in told else 'nothing'} within {limit} s")
        seen = (
            {}
            if not wrong
            else {"status": now.status, "exit_status": now.exit_status, "page": now.page, "log": now.log[-2000:]}
        )
    finally:
        site.end()
    return {"seconds": told, "quiet": quiet, "wrong": wrong, **seen}


def main(arguments: list[str]) -> int:
    """Try the faults of these names, or all; return an exit status."""
    names = [name for name in arguments if not name.startswith("--")]
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    told = {name for name, result in results.items() if not result["wrong"]}
    if not names and ("--again" in arguments or len(told) == len(FAULTS)):
        results, told = {}, set()
    is_wrong = False
    for fault in FAULTS:
        if not any(name in fault.name for name in names) if names else fault.name in told:
            continue
        with tempfile.TemporaryDirectory() as folder:
            result = results[fault.name] = drill(fault, pathlib.Path(folder))
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        seconds = ", ".join(f"{name} {result['seconds'].get(name, '-')} s" for name in TELLERS)
        print(
            f"{'WRONG' if result['wrong'] else 'told '}  {fault.name}: {seconds}; quiet again after {result['quiet']} s",
            *result["wrong"],
            sep="\n       ",
            flush=True,
        )
        is_wrong |= bool(result["wrong"])
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
