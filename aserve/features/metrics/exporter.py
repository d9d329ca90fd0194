"""The outside view of a server: for Prometheus, the status page, balancers, statsd.

Owns:     Exporter: the text of all metrics, and the work for them once a second.
Thread:   that of its owner: a supervisor's, or an event loop's.
Not here: the names (table.py), connections (scrapes.py), the list of processes (lone.py, processes/monitoring/overview.py; Observed in lifecycle/status.py).

One process is a list of one: the same numbers are read from the same places, with a supervisor and without. Metrics of a supervisor need an
Observed with BesideWorkers.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ...connections.listeners import Listener
from ...core.page import Field, Process
from ...lifecycle.status import BesideWorkers, Observed
from .balance import Balance, Host, Reading
from .certificates import CertificateFiles
from .counting import read_words
from .pages import MetricsPages
from .picture import Picture, WordsBySlot
from .scrapes import Scrapes
from .settings import settings_of
from .statsd import Statsd
from .table import (
    ALL_BUSY,
    ATTACHED,
    CERTIFICATE_END,
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

LONE = 1  # the label of a process without a supervisor, like an only worker: the same queries fit both
# By the label of workers: the states of their processes.
STATES = {"ready": ("ready",), "starting": ("starting",), "draining": ("draining", "killed")}


class Exporter:
    """The metrics of one server, and their outlets."""

    def __init__(self, observed: Observed, listeners: Sequence[Listener], ask_app: Callable[[], bool]) -> None:
        """`listeners`: see open_metrics; `ask_app`: see Scrapes."""
        self.started_at = time.time()  # after an upgrade in place, the previous supervisor's
        self._monotonic_at = time.time() - time.monotonic()  # the monotonic clock's zero, in seconds since 1970
        self._observed = observed
        self._certificates = CertificateFiles(observed.config)
        self.totals = Totals()  # the counts of ended processes
        self._picture = Picture(lambda: observed.config, observed.statuses.describe, self.words)
        self.balance = Balance(self._look)
        self.counted = self._picture.counted
        pages = MetricsPages(
            self.render,
            self._picture.event,
            self._picture.stats,
            lambda: settings_of(observed.config).status_page,
            self.balance,
        )
        self.scrapes = Scrapes(listeners, pages, ask_app) if listeners else None
        self._statsd = Statsd.of(settings_of(observed.config))

    def words(self) -> WordsBySlot:
        """Return the counts, by slot."""
        return self.totals.with_present((slot, read_words(page)) for slot, page in self._observed.pages())

    def add_gone(self, slot: int, page: Any) -> None:
        """Keep the counts of a process that has ended."""
        self.totals.add_gone(slot, read_words(page))

    def on_second(self) -> None:
        """Update balancers, statsd and the status page, once a second."""
        if self.scrapes is not None or (self._statsd is not None and self._observed.fleet is None):
            self._picture.on_second()  # a single process makes its warnings from it
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
        """Stop answering; without `is_end`, other processes still answer on the listeners."""
        if self.scrapes is not None:
            self.scrapes.close(is_end)
        if self._statsd is not None:
            if is_end:
                self._statsd.send(self.words(), 0)
            self._statsd.close()

    def _look(self) -> Host:
        """Return the host's state for balancers."""
        observed, config, found = self._observed, self._observed.config, self._observed.processes()
        serving = [each for each in found if each.state == "ready"] or [e for e in found if e.state == "draining"]
        readings = [
            Reading(
                each.page[Field.THREADS_BUSY_LATELY] / 1000,
                max(each.page[Field.WAITING_MILLISECONDS] / 1000, each.page[Field.STALLED_SECONDS]),
                each.still_seconds,
            )
            for each in serving
        ]
        limits = observed.process_count, config.threads, config.healthcheck_max_wait_seconds
        return Host(readings, *limits, observed.is_draining, observed.why_unready)

    # Over an exec, to a version that may have other words

    def describe_counted(self) -> dict[str, Any]:
        """Return the counts by name, for `restore_counted`."""
        present = [(str(slot), describe_words(read_words(page))) for slot, page in self._observed.pages()]
        return {"gone": self.totals.describe(), "present": present}

    def restore_counted(self, state: Mapping[str, Any], has_processes: bool) -> None:
        """Take over these counts, all of which statsd has got; if the processes are gone, keep their counts as those of ended ones."""
        self.totals.restore(state["gone"])
        for slot, counts in state["present"] if not has_processes else ():
            self.totals.restore({slot: counts})
        if self._statsd is not None:
            self._statsd.begin_at(self.words())

    # The text

    def render(self) -> bytes:
        """Return the text of all metrics."""
        observed, samples = self._observed, Samples()
        processes, fleet = observed.processes(), observed.fleet
        samples.add_process(self.started_at)
        if fleet is not None:
            self._add_fleet(samples, fleet, processes)
        samples.add_listening(observed.listening)
        samples.add(ALL_BUSY, self._picture.history.all_busy_seconds)
        for path, end in self._certificates.ends(observed.config):
            samples.add(CERTIFICATE_END, end, label("file", path))
        samples.add_workers({slot or LONE: words for slot, words in self.words().items()})
        if fleet is not None:
            samples.add(ERROR_LINES_LOST, fleet.lost_messages, worker(0))
        present = sorted((each for each in processes if each.pid), key=lambda each: each.slot)
        for slot, group in itertools.groupby(present, lambda each: each.slot):
            self._add_slot(samples, slot, list(group))
        return samples.encode()

    def _add_fleet(self, samples: Samples, fleet: BesideWorkers, processes: Sequence[Process]) -> None:
        samples.add(WORKERS, self._observed.process_count, 'state="wanted"')
        for name, states in STATES.items():
            samples.add(WORKERS, sum(each.state in states for each in processes), f'state="{name}"')
        lasting = [each for each in fleet.attached if not each["when"]]  # commands of --cron end by themselves
        samples.add(ATTACHED, sum(each["is_wanted"] for each in lasting), 'state="wanted"')
        samples.add(ATTACHED, sum(each["state"] == "running" for each in lasting), 'state="running"')
        jobs = fleet.facts.get("jobs")
        if jobs is not None:
            for result, number in jobs["ended"].items():
                samples.add(JOBS, number, label("result", result))
            for folder, number in jobs["waiting"].items():
                samples.add(JOBS_WAITING, number, label("folder", folder))
        for name, cell, count in fleet.counted:
            samples.add(name, count, cell)

    def _add_slot(self, samples: Samples, slot: int, both: Sequence[Process]) -> None:
        """Add the facts about the processes in a slot; during a replacement there are two."""
        labels = worker(slot or LONE)
        if slot:  # a process without a supervisor starts with the server
            samples.add(WORKER_START, self._monotonic_at + max(each.began_at for each in both), labels)
        samples.add(OLDEST, max(each.oldest_seconds() for each in both), labels)
        samples.add(LONGEST_WAIT, max(each.page[Field.WAITING_MILLISECONDS] for each in both) / 1000, labels)
        # A hanging process with a ready successor does not delay clients any more.
        serving = [each for each in both if each.state == "ready"] or both
        ticks = [ticked for each in serving if (ticked := each.page[Field.TICKED_AT])]
        if slot and ticks:  # a starting process has no loop yet; and one that answers itself does not hang
            samples.add(SILENT, max((time.monotonic_ns() - min(ticks)) / 1e9, 0.0), labels)
        self._add_footprints(samples, both, labels)

    def _add_footprints(self, samples: Samples, group: Sequence[Process], labels: str) -> None:
        """Add the memory of the processes in a slot, together, and the descriptors of the one with most, since the limit is per process."""
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
