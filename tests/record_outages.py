"""Record the words of --metrics in outages: python tests/record_outages.py [NAME...]

Each is a Django site of two workers with clients without a break, on loopback; all run side by side, for three to
eight minutes, and end by themselves. Writes tests/recordings/NAME.json, for tests/e2e/test_alerts.py, which replays the recordings to the rules of
examples/prometheus. Run the program again for a rule with an unrecorded metric, or for changed words of the server.
"""

from __future__ import annotations

import contextlib
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from harness.outages import Clients, Site, SlowHeads
from harness.recordings import FOLDER, STEP_SECONDS, Recording, numbers_of

from aserve.features.metrics.table import METRICS

ROOT = pathlib.Path(__file__).parent.parent
# The metrics of the rules, and of threads in docs/metrics.md; a rate of the rest needs no outage.
RULES = (ROOT / "examples/prometheus/alerts.yml").read_text()
READ = ("aserve_threads", "aserve_requests_waiting")
NAMES = {name for name in METRICS if name in READ or re.search(rf"\b{name}(_bucket|_count)?\b", RULES)}
BEFORE_SECONDS = 45


class Recorder:
    """An outage."""

    def __init__(self, outage: Outage, folder: pathlib.Path) -> None:
        self.name = outage.name
        self.outage, self.folder = outage, folder
        self.scrapes: list[dict[str, float]] = []
        self.began_at = 0.0
        self.options = {"patience_seconds": outage.patience_seconds}
        self.failure = ""

    def run(self) -> None:
        """Let the outage happen, and save the recording."""
        try:
            with contextlib.ExitStack() as stack:
                self.stack = stack
                self.site = self.start()
                self.site.wait_for_workers(2)
                self.clients = Clients(self.site, count=self.outage.clients, **self.options)
                stack.callback(lambda: self.clients.stop())
                self.began_at = time.monotonic()
                if self.outage.name == "good":
                    fault_at = 0
                    self.outage.happen(self)
                else:
                    fault_at = BEFORE_SECONDS
                    self.scrape_until(fault_at)
                    self.outage.happen(self)
                    self.scrape_until(fault_at + self.outage.seconds)
            self.save(fault_at)
            print(self.name, dict(self.clients.seen), flush=True)
        except BaseException as exc:
            print(self.name, repr(exc), self.site.log[-2000:], flush=True)
            self.failure = repr(exc)

    def start(self) -> Site:
        """Start the server; the server ends with the recording."""
        site = Site(self.folder, *self.outage.flags, descriptors=self.outage.descriptors)
        self.stack.callback(site.end)
        return site

    def restart(self) -> None:
        """Start the server once more."""
        self.site = self.clients.site = self.start()

    def scrape_until(self, seconds: float) -> None:
        """Look at --metrics, every few seconds."""
        while len(self.scrapes) * STEP_SECONDS < seconds:
            time.sleep(max(self.began_at + len(self.scrapes) * STEP_SECONDS - time.monotonic(), 0))
            try:
                text = self.site.ask_metrics(seconds=STEP_SECONDS - 1)
            except OSError:
                text = ""
            self.scrapes.append({**numbers_of(text, NAMES), "up": int(bool(text))})

    def save(self, fault_at: int) -> None:
        """Write the seen numbers."""
        names = {name for scrape in self.scrapes for name in scrape}
        series = {name: [scrape.get(name) for scrape in self.scrapes] for name in names}
        FOLDER.mkdir(exist_ok=True)
        Recording(fault_at, len(self.scrapes) * STEP_SECONDS, series).save(FOLDER / f"{self.name}.json")


class Outage(NamedTuple):
    """What happens, and to which server."""

    name: str
    happen: Callable[[Recorder], None]
    flags: tuple[str, ...] = ()
    clients: int = 8
    patience_seconds: float = 60.0
    descriptors: int = 0
    seconds: int = 135


def putting(fault: str) -> Callable[[Recorder], None]:
    """Let a fault stay."""
    return lambda recorder: recorder.site.put(fault)


def fill_disk(recorder: Recorder) -> None:
    """Let the access log's disk be full."""
    recorder.site.fill_disk()
    recorder.site.signal(signal.SIGUSR1)


def take_connections(recorder: Recorder) -> None:
    """Let slow clients have all threads."""
    slow = SlowHeads(recorder.site, 60)
    recorder.stack.callback(slow.stop)


def refuse_reload(recorder: Recorder) -> None:
    """Put broken code in, and reload."""
    recorder.site.write_app("import no_such_module\n")
    recorder.site.signal(signal.SIGHUP)


def go(recorder: Recorder) -> None:
    recorder.site.end()


def start_again(recorder: Recorder) -> None:
    """Let the command end once serving, and start the command again."""
    for number in range(1, 9):
        recorder.site.end()
        recorder.scrape_until(BEFORE_SECONDS + 15 * number - 10)
        recorder.restart()
        recorder.scrape_until(BEFORE_SECONDS + 15 * number)


def ask_without_pause(recorder: Recorder) -> None:
    """Let quick requests have all threads: no outage, but as much as this server can do."""
    host, port = recorder.site.address
    wrk = subprocess.Popen(["wrk", "-t1", "-c64", "-d300s", f"http://{host}:{port}/"], stdout=subprocess.DEVNULL)
    recorder.stack.callback(wrk.wait)
    recorder.stack.callback(wrk.kill)


def be_good(recorder: Recorder) -> None:
    """Traffic, some failing or waiting requests, a reload, a crash, an hour without requests (much shorter), and a restart."""
    recorder.scrape_until(60)
    recorder.site.put("die-once")
    recorder.scrape_until(90)
    recorder.site.signal(signal.SIGHUP)
    recorder.scrape_until(120)
    recorder.site.put("slow")
    recorder.scrape_until(125)
    recorder.site.take("slow")
    recorder.scrape_until(180)
    recorder.clients.stop()
    recorder.scrape_until(240)
    recorder.site.put("errors")  # at night, one
    night = Clients(recorder.site, count=1, pause_seconds=600)
    recorder.scrape_until(245)
    night.stop()
    recorder.site.take("errors")
    recorder.scrape_until(360)
    recorder.site.stop()
    recorder.scrape_until(370)
    recorder.restart()
    recorder.clients = Clients(recorder.site)
    recorder.scrape_until(450)


OUTAGES = [
    Outage("good", be_good),
    Outage("stuck", putting("stuck"), clients=20),
    Outage("stuck-impatient", putting("stuck"), clients=40, patience_seconds=8.0),
    Outage("stuck-timeout", putting("stuck"), ("--request-timeout", "2s"), clients=20),
    Outage("hang-all", putting("hang")),
    Outage("hang-one", putting("hang-once")),
    Outage("killed", putting("die-once")),
    Outage("crash-loop", putting("die")),
    Outage("errors", putting("errors")),
    Outage("disk-full", fill_disk),
    Outage("connections", take_connections, ("--max-connections", "10")),
    Outage("descriptors", putting("leak"), descriptors=200),
    Outage("queue", putting("slow"), clients=40),
    Outage("reload-refused", refuse_reload),
    Outage("full-load", ask_without_pause, seconds=90),
    Outage("gone", go),
    Outage("starts-again", start_again),
]


def main(names: list[str]) -> int:
    """Record these outages, or all; return an exit status."""
    with tempfile.TemporaryDirectory() as folder:
        recorders, threads = [], []
        for outage in OUTAGES:
            if not names or outage.name in names:
                (place := pathlib.Path(folder, outage.name)).mkdir()
                recorders.append(Recorder(outage, place))
                threads.append(threading.Thread(target=recorders[-1].run))
                threads[-1].start()
        for thread in threads:
            thread.join()
    return int(any(recorder.failure for recorder in recorders))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
