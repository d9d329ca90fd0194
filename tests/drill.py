"""Put ten faults into a Django site of two workers, and see what tells of each, and when: python tests/drill.py [NAME...] [--again]

Each fault meets a site of its own, with clients that ask all the time. `aserve status`, the status page's data, the metrics and the log must
be quiet before, and each must tell of the fault within the seconds that FAULTS says. Results are written as they come, to
build/drill.json; a run that was stopped goes on behind the last that is there, and --again begins anew, as does a run after one in which all was
told. Loopback only; ends by itself, within five minutes.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from harness.outages import Site, SlowHeads, clients_of
from harness.recordings import numbers_of
from harness.waiting import wait_until

from aserve.metrics.table import METRICS

RESULTS = pathlib.Path(__file__).parent.parent / "build/drill.json"
QUIET_SECONDS = 3.0  # before the fault
LOOK_SECONDS = 0.5  # between two looks
STATUS, PAGE, NUMBERS, LOG = TELLERS = ("status", "page", "metrics", "log")


class Told(NamedTuple):
    """What one of them must tell."""

    what: str  # a regular expression; of metrics, one that finds the series whose sum is looked at
    seconds: float
    at_least: float = 1  # of metrics: how much more than before the fault


class Fault(NamedTuple):
    """What goes wrong, and what tells of it."""

    name: str
    put: Callable[[Site], contextlib.AbstractContextManager[None]]
    status: Told  # of the page, too
    metrics: Told
    log: Told
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


@contextlib.contextmanager
def _broken_code(site: Site) -> Iterator[None]:
    site.write_app("import no_such_module\n")
    site.signal(signal.SIGHUP)
    yield


def _putting(name: str) -> Callable[[Site], contextlib.AbstractContextManager[None]]:
    @contextlib.contextmanager
    def put(site: Site) -> Iterator[None]:
        site.put(name)
        yield

    return put


# A warning waits for ten seconds of what may pass by itself; what is counted is told within two.
FAULTS = (
    Fault(
        "all threads are stuck", _putting("stuck"), clients=20,
        status=Told(r"2 of 2 workers: no thread is free, and for \d+ s none has begun a request", 15),
        metrics=Told("aserve_requests_stalled_seconds", 15, at_least=20),
        log=Told("no thread|no request", 20),
    ),
    Fault(
        "code in C holds a worker", _putting("hang-once"),
        status=Told(r"Worker \d: its event loop has not turned for \d+ s", 10),
        metrics=Told("aserve_loop_silent_seconds", 10, at_least=5),
        log=Told(r"its event loop has not turned for \d+ s", 20),
    ),
    Fault(
        "a worker is killed", _putting("die-once"), is_failure=False,
        status=Told(r"A worker has crashed: worker \d, \d s ago: it was killed by SIGKILL", 5),
        metrics=Told('aserve_worker_restarts_total{reason="crash"}', 5),
        log=Told(r"has crashed .*it was killed by SIGKILL", 5),
    ),
    Fault(
        "workers crash again and again", _putting("die"),
        status=Told(r"workers? (is|are) not ready", 10),
        metrics=Told('aserve_worker_restarts_total{reason="crash"}', 20, at_least=3),
        log=Told(r"(another is started|the next try is) in (0\.[248]|[1-9])", 20),
    ),
    Fault(
        "every answer is 500", _putting("errors"),
        status=Told(r"\d+ % of the responses of the last minute were errors of the app \(5xx\)", 20),
        metrics=Told('aserve_requests_total{.*status="5xx"', 5, at_least=10),
        log=Told("ConnectionError: the database is gone", 5),
    ),
    Fault(
        "the disk of the access log is full", _full_disk, is_failure=False,
        status=Told(r"Lines of the access log were lost in the last minute: \d+", 5),
        metrics=Told("aserve_access_log_lines_lost_total", 5),
        log=Told("No space left on device", 5),
    ),
    Fault(
        "all connections are taken", _slow_heads, flags=("--max-connections", "10"),
        status=Told("2 of 2 workers: as many connections are open as may be, 10 each; .* in the kernel", 10),
        metrics=Told("aserve_listen_queue{", 5),
        log=Told("--max-connections", 10),
    ),
    Fault(
        "the app keeps what it opens", _putting("leak"), descriptors=200,
        status=Told("No worker has descriptors left for new connections; [0-9]+ clients? waits? in the kernel", 20),
        metrics=Told("aserve_worker_descriptors{", 15, at_least=150),
        log=Told("Too many open files", 15),
    ),
    Fault(
        "the database is slow", _putting("slow"), clients=40, is_failure=False,
        status=Told(r"[Ee]very thread has been busy|threads were \d+ % busy", 20),
        metrics=Told('aserve_requests_waiting', 5, at_least=10),
        log=Told("slow", 10), flags=("--slow-request", "2s"),
    ),
    Fault(
        "a reload of broken code", _broken_code, is_failure=False,
        status=Told(r"Nothing was reloaded, \d+ s ago: worker 1 .*no_such_module", 10),
        metrics=Told('aserve_reloads_total{result="refused"}', 10),
        log=Told("no_such_module", 10),
    ),
)  # fmt: skip


def ask_status(site: Site) -> tuple[int, str]:
    """Return the exit status of `aserve status`, and what it writes."""
    command = [sys.executable, "-I", "-m", "aserve", "status", "--control", str(site.control)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    return done.returncode, done.stdout + done.stderr


def ask_page(site: Site) -> str:
    """Return the warnings of the status page."""
    return "\n".join(f"{each['text']} {each['do']}" for each in site.read_event()["warnings"])


class Look(NamedTuple):
    """What is told at one time."""

    status: str
    exit_status: int
    page: str
    numbers: dict[str, float]
    log: str


def look_at(site: Site) -> Look:
    """Ask all of them."""
    log, numbers = site.log, numbers_of(site.ask_metrics(), METRICS)
    exit_status, status = ask_status(site)
    return Look(status, exit_status, ask_page(site), numbers, log)


def tells(fault: Fault, before: Look, now: Look) -> dict[str, bool]:
    """Return which of them tell of a fault."""

    def sum_of(look: Look) -> float:
        return sum(value for name, value in look.numbers.items() if re.match(fault.metrics.what, name))

    needs_look = now.exit_status == int(fault.is_failure) or not fault.is_failure
    return {
        STATUS: needs_look and re.search(fault.status.what, now.status) is not None,
        PAGE: re.search(fault.status.what, now.page) is not None,
        NUMBERS: sum_of(now) - sum_of(before) >= fault.metrics.at_least,
        LOG: re.search(fault.log.what, now.log[len(before.log) :]) is not None,
    }


def drill(fault: Fault, folder: pathlib.Path) -> dict[str, Any]:
    """Put a fault in; return after how many seconds each has told of it, and what is wrong."""
    limits = dict(zip(TELLERS, (fault.status.seconds, fault.status.seconds, fault.metrics.seconds, fault.log.seconds)))
    site = Site(folder, *fault.flags, descriptors=fault.descriptors)
    told: dict[str, float] = {}
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
                    now, seconds = look_at(site), time.monotonic() - began  # with the time that the look takes
                    for name, does in tells(fault, before, now).items():
                        if does:
                            told.setdefault(name, round(seconds, 1))
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
    return {"seconds": told, "wrong": wrong, **seen}


def main(arguments: list[str]) -> int:
    """Try those of these names, or all; return an exit status."""
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
            f"{'WRONG' if result['wrong'] else 'told '}  {fault.name}: {seconds}",
            *result["wrong"],
            sep="\n       ",
            flush=True,
        )
        is_wrong |= bool(result["wrong"])
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
