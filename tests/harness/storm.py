"""Storms: clients ask without a break, on each way to a server, while its processes are replaced, stopped and killed.

A storm is over after one round of events; with STORM_SECONDS=60 (`make storm SECONDS=60`) rounds follow one another for so long, and with
STORM_SAVE=1 the results are kept in benchmarks/results.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import pathlib
import platform
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from .client import RawClient
from .front import Fronts, Page
from .load import KINDS, Load
from .waiting import wait_until
from .workers import Workers

SECONDS = float(os.environ.get("STORM_SECONDS", "0"))
IS_LONG = SECONDS > 0
CLIENTS = KINDS * 4
WAYS = ("tcp", "unix", "nginx")
# The replaced and ended processes, and the times, are the same over each way. How a request comes to a leaving process is not: two tests have all
# ways also in a short run, but for the front server in a brief one: test_nginx.py has restarts behind it.
every_way = pytest.mark.parametrize(
    "start_storm", ["tcp", "unix", pytest.param("nginx", marks=pytest.mark.long)], indirect=True
)
# Of a start, or any wait for one, on a busy machine.
START_SECONDS = 60.0
TEST_SECONDS = 120 + 2 * SECONDS

BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"
_ROWS: list[dict[str, Any]] = []  # results of all storms of this run


class Storm:
    """Workers, and clients that ask them in one way."""

    def __init__(self, name: str, way: str, process: Workers, address: Any) -> None:
        self.process = process
        self.connect = functools.partial(RawClient, address)
        self._row: dict[str, Any] = {"storm": name, "over": way, "rounds": 0}
        self.load = Load(self.connect, kinds=CLIENTS, **({"pause_seconds": 0} if IS_LONG else {}))
        self._begin = time.monotonic()

    # Events

    def rounds(self) -> Iterator[int]:
        """Yield at least once, and until the time is over."""
        number = 0
        while number == 0 or time.monotonic() - self._begin < SECONDS:
            yield number
            number += 1
            self._row["rounds"] = number

    def wait_for(self, pattern: str, count: int) -> None:
        """Wait until the log matches so often."""
        wait_until(
            lambda: self.process.count(pattern) >= count,
            START_SECONDS,
            lambda: f"no {pattern!r}, {count} times, in:\n{self.process.log}",
        )

    @contextlib.contextmanager
    def logging(self, pattern: str) -> Iterator[None]:
        """Do the block, and wait until the log matches once more than before."""
        before = self.process.count(pattern)
        yield
        self.wait_for(pattern, before + 1)

    def signal(self, number: signal.Signals, pattern: str) -> None:
        """Send the supervisor a signal, and wait for the line of its effect."""
        with self.logging(pattern):
            self.process.signal(number)

    def reload(self) -> None:
        """Send SIGHUP, and wait until every worker is new."""
        self.signal(signal.SIGHUP, "SIGHUP: done")

    def ask_more(self, count: int = 50) -> None:
        """Wait until `count` more requests are answered."""
        wanted = self.load.count + count
        wait_until(lambda: self.load.count >= wanted, START_SECONDS, lambda: f"{self.seen()}\n{self.process.log}")

    def wait_for_workers(self, count: int) -> list[int]:
        """Wait until there are `count` workers, and all are ready; return their pids."""

        def look() -> list[int]:
            pids, log = self.process.workers, self.process.log
            return pids if len(pids) == count and all(f"(pid {pid}) is ready" in log for pid in pids) else []

        return wait_until(look, START_SECONDS, lambda: f"{self.process.workers}:\n{self.process.log}")

    # Results

    def seen(self) -> dict[str, int]:
        """Return the number of requests by their end."""
        return {"answered": self.load.count, **collections.Counter(failure.what for failure in self.load.failures)}

    def end_load(self) -> None:
        """Let the clients have their last answers, and note their results."""
        self.load.stop()
        if self._row not in _ROWS:
            _ROWS.append(self._row)
        self._row.update(requests=self.seen(), seconds=round(time.monotonic() - self._begin, 1))

    def check_nothing_lost(self) -> None:
        """Every request was answered, with status 200."""
        self.end_load()
        assert not self.load.failures, (self.seen(), self.load.failures[:5], self.process.log)

    def check_none_cut_off(self) -> None:
        """Check after an end: each begun response was whole; a client without one came when no worker served any more."""
        self.end_load()
        cut = [failure for failure in self.load.failures if failure.has_begun and failure.what != "status 502"]
        assert not cut, (self.seen(), cut[:5], self.process.log)

    def stop(self) -> None:
        """Let the server end properly."""
        assert self.process.stop() == 0, self.process.log

    def close(self) -> None:
        """End everything in any case."""
        self.process.end()
        self.load.stop()


@pytest.fixture(params=WAYS if IS_LONG else WAYS[:1])
def start_storm(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[Any]:
    """Start workers, and clients that ask: start_storm(*flags, app="one") -> Storm."""
    way: str = request.param
    storms: list[Storm] = []

    def start(*flags: str, app: str = "one", **env: str) -> Storm:
        fronts: Fronts | None = request.getfixturevalue("fronts") if way == "nginx" else None
        path = str(tmp_path / "s") if fronts is None else fronts.socket
        binds = {"tcp": (), "unix": ("--bind", f"unix:{path}"), "nginx": ("--bind", f"uwsgi://unix:{path}")}
        process = Workers(tmp_path, app, *binds[way], *flags, **env)
        try:
            address: Any = {"tcp": process.address, "unix": path}.get(way)
            if fronts is not None:
                front = fronts.nginx(Page("nginx").block("uwsgi", "nginx"), {"/run/app/app.sock": path})
                address = ("127.0.0.1", front.port)
            storms.append(Storm(request.node.originalname, way, process, address))
        except BaseException:
            process.end()
            raise
        return storms[-1]

    yield start
    for storm in storms:
        storm.close()
    for storm in storms:
        patterns = [pattern for marker in request.node.iter_markers("provokes") for pattern in marker.args]
        text = storm.process.faults(tuple(patterns))
        assert not text, text


@pytest.fixture(scope="session", autouse=True)
def kept_results() -> Iterator[None]:
    """Keep the results, if asked for."""
    yield
    if os.environ.get("STORM_SAVE"):
        sys.path.append(str(BENCHMARKS))
        import record

        path = record.default_path("storm", platform.python_implementation().lower())
        server = f"{platform.python_implementation()} {platform.python_version()}"
        record.write(path, {**record.describe_run("storm"), "server": server, "seconds": SECONDS, "storms": _ROWS})
