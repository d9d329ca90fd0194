"""The signs of each outage of docs/trouble.md, by the patience of clients: an alert rule, `aserve status`, /ready and the log.

Each outage meets four sites side by side; the clients of the first give up after 3 s, the clients of the last never do. The faults are those of `make
drill`, and some more. tests/e2e/test_alerts.py replays recordings of outages for the times of the alerts.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import pathlib
import re
import time
from typing import NamedTuple

import pytest
from drill import FAULTS, LOG, STATUS, Fault, Look, Quiet, Told, ask_status, tells
from harness.interpreter import ONCE
from harness.metrics import ready_of
from harness.outages import Site, clients_of
from harness.promtool import HAS_PROMTOOL, RuleTest, raised, run
from harness.recordings import STEP_SECONDS, Recording, numbers_of
from harness.waiting import wait_until
from record_outages import NAMES

from aserve.features.metrics.table import METRICS

ROOT = pathlib.Path(__file__).parents[2]
ALERTS = ROOT / "examples/prometheus/alerts.yml"
pytestmark = [pytest.mark.checkout, ONCE, pytest.mark.any_parser]
PATIENCES = (3.0, 8.0, 20.0, None)  # seconds; None: a client waits until its server answers
BEFORE_SECONDS = 15
LIMIT_SECONDS = 240  # of one outage, on a busy machine; an alert that pages takes 60 to 90 s
ALERT, READY = "alert", "ready"


@contextlib.contextmanager
def ending(site):
    """Kill the command and all workers."""
    site.end()
    yield


@contextlib.contextmanager
def hanging(site):
    """Hold each event loop until the site ends."""
    site.put("hang")
    yield


STUCK, HOLDS, KILLED, CRASHES, ERRORS, DISK, CONNECTIONS, DESCRIPTORS, SLOW, RELOAD = FAULTS
ANYTHING = Told("", 0)  # for `make drill` alone
# A killed command writes no line, and the exit status of `aserve status` is 2.
GONE = Fault(
    "the command is gone", ending, Told("no server answers", 0), ANYTHING, ANYTHING, Quiet(0), is_failure=False
)
SILENT = Told("event loop has not turned", 0)
HANGS = Fault("code in C holds each worker", hanging, SILENT, ANYTHING, SILENT, Quiet(0))
CUT = STUCK._replace(
    name="all threads are stuck, and --request-timeout answers", flags=("--request-timeout", "2s", "--max-stuck", "100"),
    status=Told(r"\d+ % of the responses of the last minute were errors", 0), log=Told("longer than --request-timeout", 0),
)  # fmt: skip


class Cell(NamedTuple):
    """The expected signs of a fault; `alert`: one name of the page's row."""

    fault: Fault
    row: str  # of the table of docs/trouble.md
    alert: str
    ready: int  # the expected status of /ready
    patiences: tuple[float | None, ...] = PATIENCES


CELLS = [
    Cell(STUCK, "every thread waits inside the app", "AserveNothingBegins", 503),
    Cell(CUT, "every thread waits inside the app", "AserveServerErrors", 200),
    Cell(HANGS, "no event loop turns", "AserveAllLoopsHang", 503),
    Cell(HOLDS, "no event loop turns", "AserveLoopHangs", 200),
    Cell(KILLED, "workers die again and again", "AserveRequestsLost", 200),
    Cell(CRASHES, "workers die again and again", "AserveWorkersCrash", 503),
    Cell(ERRORS, "many answers are 5xx, or requests are refused with 503 or 504", "AserveServerErrors", 200),
    Cell(DISK, "the disk of the log is full", "AserveLogLinesLost", 200),
    Cell(CONNECTIONS, "all connections are taken", "AserveConnectionsAtLimit", 200),
    # Either the app or the server takes the last one.
    Cell(DESCRIPTORS, "the app keeps descriptors", "AserveClientsWaitInKernel|AserveServerErrors", 200),
    Cell(SLOW, "requests wait behind a slow database", "AserveRequestsWait", 200),
    Cell(SLOW, "clients leave before a thread begins their requests", "AserveClientsGiveUp", 200, (3.0,)),
    Cell(RELOAD, "a deploy went wrong", "AserveReloadRefused", 200),
    Cell(GONE, "nothing answers: the command, or its host, is gone", "AserveDown", 0),
]
# No client has a part in these.
ROWS_WITHOUT_CELLS = {"the command ends again and again", "a certificate is not renewed in time"}


def test_each_outage_of_the_page_has_a_cell():
    """The table of docs/trouble.md and CELLS have the same rows, and a row of the page has the alerts of its cells."""
    page = (ROOT / "docs/trouble.md").read_text()
    rows = re.findall(r"^\| (.*) \| (`.*) \|$", page.split("| outage | alert |")[1], re.M)
    assert {row for row, _ in rows} == {cell.row for cell in CELLS} | ROWS_WITHOUT_CELLS
    for row, alerts in rows:
        assert all({*cell.alert.split("|")} <= {*re.findall(r"`(\w+)`", alerts)} for cell in CELLS if cell.row == row)


class Scraper:
    """A growing recording, with Prometheus' series of a site."""

    def __init__(self, folder, began_at):
        self._folder, self._began_at = folder, began_at
        self._scrapes = []

    @property
    def seconds(self):
        """How long the recording is."""
        return (len(self._scrapes) - 1) * STEP_SECONDS

    def add(self, numbers):
        """Add the latest answer of --metrics; a step missed on a busy machine repeats the one before."""
        count = int((time.monotonic() - self._began_at) / STEP_SECONDS) + 1
        now = {
            **{name: number for name, number in numbers.items() if re.sub(r"{.*", "", name).startswith(tuple(NAMES))},
            "up": int(bool(numbers)),
        }
        self._scrapes += [(self._scrapes or [now])[-1]] * (count - 1 - len(self._scrapes))
        self._scrapes += [now][: count - len(self._scrapes)]

    def has_raised(self, alert):
        """Whether the rules raise this alert."""
        scrapes = self._scrapes
        series = {
            name: [scrape.get(name) for scrape in scrapes] for name in {name for scrape in scrapes for name in scrape}
        }
        seconds = self.seconds
        test = RuleTest(Recording(0, seconds, series).replay(STEP_SECONDS, 0, 'job="site",instance="a"'), STEP_SECONDS)
        test.expect(raised(alert, seconds + 1), seconds, {"{}": 1})
        return run([test], ALERTS, self._folder, STEP_SECONDS) == ""


def look_at(site):
    """Ask all but the status page."""
    log, numbers = site.log, numbers_of(site.ask_metrics(), METRICS)
    exit_status, status = ask_status(site)
    return Look(status, exit_status, "", numbers, log)


def find_silent(cell, patience, folder):
    """Let an outage happen to clients of this patience; return the silent signs, and the last of the told."""
    folder.mkdir()
    fault = cell.fault
    site = Site(folder, *fault.flags, descriptors=fault.descriptors)
    try:
        site.wait_for_workers(2)
        with clients_of(site, count=fault.clients, patience_seconds=patience) as clients:
            wait_until(lambda: clients.seen["200"] > 50)
            before, scraper = look_at(site), Scraper(folder, time.monotonic())
            wait_until(lambda: scraper.add(look_at(site).numbers) or scraper.seconds >= BEFORE_SECONDS)
            with fault.put(site):
                silent, until = {ALERT, STATUS, READY, LOG}, time.monotonic() + LIMIT_SECONDS
                while silent and time.monotonic() < until:
                    now = look_at(site)
                    scraper.add(now.numbers)
                    told = tells(fault, before, now)
                    # An unchanging 200 is looked at when the rest has told: the outage has come by then.
                    told[READY] = (cell.ready != 200 or silent == {READY}) and ready_of(site.metrics) == cell.ready
                    told[ALERT] = ALERT in silent and scraper.has_raised(cell.alert)
                    silent -= {name for name, does in told.items() if does}
                    time.sleep(STEP_SECONDS / 5)
        return silent and (silent, dict(clients.seen), now.exit_status, now.status, now.log[-2000:])
    finally:
        site.end()


@pytest.mark.long
@pytest.mark.timeout(2 * LIMIT_SECONDS)
@pytest.mark.skipif(not HAS_PROMTOOL, reason="promtool is not installed: Debian has it in prometheus")
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.fault.name}: {cell.alert}")
def test_what_tells_of_an_outage(tmp_path, cell):
    """The alert rule on --metrics, `aserve status` with its exit status, /ready and the log tell, whenever the clients give up."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        found = {
            patience: pool.submit(find_silent, cell, patience, tmp_path / str(patience)) for patience in cell.patiences
        }
    assert {patience: future.result() for patience, future in found.items() if future.result()} == {}
