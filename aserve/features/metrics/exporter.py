"""What others see of a server from outside: Prometheus, a person on the status page, balancers, statsd.

Owns:     Exporter: the text of all metrics, and what is done for them once a second.
Thread:   that of its owner: a supervisor's, or an event loop's.
Not here: the names (table.py), connections (scrapes.py), which processes there are (lone.py, processes/overview.py; Observed in lifecycle/status.py).

One process is a list of one: the same numbers are read from the same places, with a supervisor and without. What there is only with one, an
Observed without a Fleet has not.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ...connections.listeners import Listener
from ...core.page import Field, Process
from ...lifecycle.status import Fleet, Observed
from .balance import Balance, Host, Reading
from .counting import read_words
from .pages import Pages
from .picture import Picture, WordsBySlot
from .scrapes import Scrapes
from .settings import settings_of
from .statsd import Statsd
from .table import (
    ATTACHED,
    DESCRIPTOR_LIMIT,
    DESCRIPTORS,
    ERROR_LINES_LOST,
    JOBS,
    JOBS_WAITING,
    LONGEST_WAIT,
    OLDEST,
    PROPORTIONAL,
    RESIDENT,
    SILENT,
    UNIQUE,
    WORKER_START,
    WORKERS,
)
from .text import Samples, label, worker
from .totals import Totals, describe_words

LONE = 1  # a process without a supervisor, as if it were the only worker of one: the same queries do for both
# By what is said of workers: the states of their processes.
STATES = {"ready": ("ready",), "starting": ("starting",), "draining": ("draining", "killed")}


class Exporter:
    """What is told of one server."""

    def __init__(self, observed: Observed, listeners: Sequence[Listener], ask_app: Callable[[], bool]) -> None:
        """`listeners`: see open_metrics; `ask_app`: see Scrapes."""
        self.started_at = time.time()  # that of code of before, if it goes on from there
        self._monotonic_at = time.time() - time.monotonic()  # when that clock began
        self._observed = observed
        self.totals = Totals()  # what those have counted that are gone
        self._picture = Picture(lambda: observed.config, observed.statuses.describe, self.words)
        self.balance = Balance(self._look)
        self.counted = self._picture.counted
        pages = Pages(
            self.render,
            self._picture.event,
            self._picture.stats,
            lambda: settings_of(observed.config).status_page,
            self.balance,
        )
        self.scrapes = Scrapes(listeners, pages, ask_app) if listeners else None
        self._statsd = Statsd.of(settings_of(observed.config))

    def words(self) -> WordsBySlot:
        """Return what is counted, by slot."""
        return self.totals.with_present((slot, read_words(page)) for slot, page in self._observed.pages())

    def add_gone(self, slot: int, page: Any) -> None:
        """Keep what a process has counted that has ended."""
        self.totals.add_gone(slot, read_words(page))

    def on_second(self) -> None:
        """Called once a second."""
        if self.scrapes is not None or (self._statsd is not None and self._observed.fleet is None):
            self._picture.on_second()  # a process alone warns by it
        if self.scrapes is not None:
            self.balance.on_second()
            self.scrapes.on_second()
        if self._statsd is not None:
            self._statsd.send(self.words(), self._observed.ready_count)

    def on_app_metrics(self, text: bytes, fault: str) -> None:
        """See Scrapes.on_app_metrics."""
        if self.scrapes is not None:
            self.scrapes.on_app_metrics(text, fault)

    def close(self, is_end: bool) -> None:
        """Answer nobody any more; without `is_end`, others go on to."""
        if self.scrapes is not None:
            self.scrapes.close(is_end)
        if self._statsd is not None:
            if is_end:
                self._statsd.send(self.words(), 0)
            self._statsd.close()

    def _look(self) -> Host:
        """Return how balancers see it."""
        observed, config, found = self._observed, self._observed.config, self._observed.processes()
        serving = [each for each in found if each.state == "ready"] or [e for e in found if e.state == "draining"]
        readings = [
            Reading(
                each.page[Field.THREADS_BUSY_LATELY] / 1000,
                each.page[Field.WAITING_MILLISECONDS] / 1000,
                observed.silent_seconds(each),
            )
            for each in serving
        ]
        limits = observed.process_count, config.threads, config.healthcheck_max_wait_seconds
        return Host(readings, *limits, observed.is_draining, observed.why_unready)

    # Over an exec, to code that may have other words

    def describe_counted(self) -> dict[str, Any]:
        """Return what is counted, by names: for `restore_counted`."""
        present = [(str(slot), describe_words(read_words(page))) for slot, page in self._observed.pages()]
        return {"gone": self.totals.describe(), "present": present}

    def restore_counted(self, state: Mapping[str, Any], has_processes: bool) -> None:
        """Go on from there, where statsd was told all of it; without its processes, what they had counted is all that is known of them."""
        self.totals.restore(state["gone"])
        for slot, counts in state["present"] if not has_processes else ():
            self.totals.restore({slot: counts})
        if self._statsd is not None:
            self._statsd.begin_at(self.words())

    # The text

    def render(self) -> bytes:
        """Return it."""
        observed, samples = self._observed, Samples()
        processes, fleet = observed.processes(), observed.fleet
        samples.add_process(self.started_at)
        if fleet is not None:
            self._add_fleet(samples, fleet, processes)
        samples.add_listening(observed.listening)
        samples.add_workers({slot or LONE: words for slot, words in self.words().items()})
        if fleet is not None:
            samples.add(ERROR_LINES_LOST, fleet.lost_messages, worker(0))
        present = sorted((each for each in processes if each.pid), key=lambda each: each.slot)
        for slot, group in itertools.groupby(present, lambda each: each.slot):
            self._add_slot(samples, slot, list(group))
        return samples.encode()

    def _add_fleet(self, samples: Samples, fleet: Fleet, processes: Sequence[Process]) -> None:
        samples.add(WORKERS, self._observed.process_count, 'state="wanted"')
        for name, states in STATES.items():
            samples.add(WORKERS, sum(each.state in states for each in processes), f'state="{name}"')
        lasting = [each for each in fleet.attached if not each["when"]]  # of --cron none is to run for long
        samples.add(ATTACHED, sum(each["is_wanted"] for each in lasting), 'state="wanted"')
        samples.add(ATTACHED, sum(each["state"] == "running" for each in lasting), 'state="running"')
        if fleet.jobs is not None:
            for result, number in fleet.jobs["ended"].items():
                samples.add(JOBS, number, label("result", result))
            for folder, number in fleet.jobs["waiting"].items():
                samples.add(JOBS_WAITING, number, label("folder", folder))
        for name, cell, count in fleet.counted:
            samples.add(name, count, cell)

    def _add_slot(self, samples: Samples, slot: int, both: Sequence[Process]) -> None:
        """Add what is found of the processes in a slot; while one replaces another, there are two."""
        labels = worker(slot or LONE)
        if slot:  # a process by itself starts with the server
            samples.add(WORKER_START, self._monotonic_at + max(each.began_at for each in both), labels)
        samples.add(OLDEST, max(each.oldest_seconds() for each in both), labels)
        samples.add(LONGEST_WAIT, max(each.page[Field.WAITING_MILLISECONDS] for each in both) / 1000, labels)
        # One that hangs and is replaced hangs no longer for those who wait.
        serving = [each for each in both if each.state == "ready"] or both
        ticks = [ticked for each in serving if (ticked := each.page[Field.TICKED_AT])]
        if slot and ticks:  # one that starts has no loop yet; and who answers by itself does not hang
            samples.add(SILENT, max((time.monotonic_ns() - min(ticks)) / 1e9, 0.0), labels)
        self._add_footprints(samples, both, labels)

    def _add_footprints(self, samples: Samples, group: Sequence[Process], labels: str) -> None:
        """Add what those in one slot take, together; descriptors of the one that has most, as the limit is of a process."""
        footprints = list(filter(None, (self._observed.statuses.footprint_of(each.pid) for each in group)))
        known = [found.memory for found in footprints if found.memory is not None]
        counts = [found.descriptors for found in footprints if found.descriptors is not None]
        limits = [found.descriptor_limit for found in footprints if found.descriptor_limit is not None]
        for name, combine, numbers in (
            (DESCRIPTORS, max, counts),
            (DESCRIPTOR_LIMIT, max, limits),
            (RESIDENT, sum, [one.rss_bytes for one in known]),
            (PROPORTIONAL, sum, [one.pss_bytes for one in known if one.pss_bytes is not None]),
            (UNIQUE, sum, [one.uss_bytes for one in known if one.uss_bytes is not None]),
        ):
            if numbers:
                samples.add(name, combine(numbers), labels)
