"""All that is to be known of a supervisor and its workers, for those who look (--metrics).

Owns:     Overview: what is counted, over the ends of workers and the supervisor's own exec; the text of it all; its listeners; the
          status page of it.
Thread:   the supervisor's only one.
Not here: the connections of those who look (metrics/scrapes.py), the names (metrics/table.py), how workers are (status.py).

Nobody asks a worker anything of this: its page, its table in flight and /proc say it all, also when it hangs. What the app itself
counts a worker reads (metrics/app.py): the one that has ticked last, so that it is none that hangs.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

from ..connections.in_flight import read_oldest
from ..connections.listeners import Listener
from ..core import error_log
from ..core.page import Field
from ..metrics.balance import Balance, Host, Reading
from ..metrics.pages import Pages
from ..metrics.picture import Picture
from ..metrics.scrapes import Scrapes
from ..metrics.statsd import Statsd
from ..metrics.table import (
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
from ..metrics.text import Samples, label, worker
from ..metrics.totals import describe_words
from .app_files import AppFiles, name_of
from .channel import Message
from .child import Child, State
from .children import Children
from .slots import Slots
from .status import Status
from .tally import Tally

# Of the app's metrics: more is no text of metrics. Guess: a hundred thousand samples take ten.
MAX_APP_BYTES = 64 << 20
PRESENT = (State.STARTING, State.READY, State.DRAINING, State.KILLED)


class Overview:
    """What is counted and found, by metrics."""

    def __init__(
        self,
        slots: Slots,
        children: Children,
        listeners: Sequence[Listener],
        status: Status,
        app_folder: str | None = None,
    ) -> None:
        """`app_folder`: for what the app counts, "": one is to be made, None: that is nobody's concern."""
        self.listeners = listeners  # of --metrics
        self.tally = Tally()
        self._slots = slots
        self._children = children
        self._status = status
        self._started_at = time.time()
        self._lost_messages = 0  # of the supervisor's own
        self._monotonic_at = time.time() - time.monotonic()  # when that clock began
        known = status.known
        self._picture = Picture(lambda: known.config, status.describe, self._words)
        if listeners:
            status.statuses.counted = self._picture.counted
        self.why_unready = ""  # as people have told it: `aserve balancers`
        self._ticks: dict[
            Child, tuple[int, int]
        ] = {}  # by who serves: its last tick, and for how many seconds it is the same
        self._balance = Balance(self._look)
        pages = Pages(
            self.render, self._picture.event, self._picture.stats, lambda: known.config.status_page, self._balance
        )
        self._statsd = Statsd.of(known.config)
        self._app_folder = app_folder
        self._app_files: AppFiles | None = None
        self._asked: Child | None = None  # to read them
        self.scrapes = Scrapes(listeners, pages, self._ask_app) if listeners else None

    def on_second(self) -> None:
        """Called once a second."""
        self._lost_messages = error_log.on_second()
        if self.scrapes is not None:
            self._picture.on_second()
            self._note_ticks()
            self._balance.on_second()
            self.scrapes.on_second()
        if self._statsd is not None:
            self._statsd.send(self._words(), len(self._children.having(State.READY)))

    def close(self, is_end: bool) -> None:
        """Answer nobody any more; without `is_end`, others go on to."""
        if self.scrapes is not None:
            self.scrapes.close(is_end)
        if self._statsd is not None:
            if is_end:
                self._statsd.send(self._words(), 0)
            self._statsd.close()
        if is_end and self._app_files is not None:
            self._app_files.close()
            self._app_files = None

    # What the app counts

    def app_files_of(self, page: int) -> tuple[str, str] | None:
        """Return in which folder, and under which name, a worker is to keep what the app counts; None: nowhere."""
        if self._app_folder is not None and self._app_files is None:
            self._app_files = AppFiles.open(self._app_folder)
            self._app_folder = None  # once
        return (self._app_files.folder, name_of(page)) if self._app_files is not None else None

    def forget(self, child: Child) -> None:
        """A worker has ended; what it was to read, another reads."""
        if self._app_files is not None:
            self._app_files.forget(child.page)
        if child is self._asked and not self._ask_app() and self.scrapes is not None:
            self.scrapes.on_app_metrics(b"", "")

    def _ask_app(self) -> bool:
        ready, self._asked = self._children.having(State.READY), None
        if self._app_files is None or not ready:
            return False
        self._asked = max(ready, key=lambda child: self._children.page(child)[Field.TICKED_AT])
        self._children.tell(self._asked, {"do": "read app"})
        return True

    def on_app_metrics(self, child: Child, message: Message, fds: list[int]) -> None:
        """A worker has read what the app counts, into a file; or why it could not."""
        text, fault, self._asked = b"", message["fault"], None
        for fd in fds:
            with open(fd, "rb"):
                if os.fstat(fd).st_size > MAX_APP_BYTES:
                    fault = f"they take more than {MAX_APP_BYTES >> 20} MiB"
                elif not fault:
                    text = os.pread(fd, MAX_APP_BYTES, 0)
        if self.scrapes is not None:
            self.scrapes.on_app_metrics(text, fault)

    # Over an exec

    def finish(self) -> None:
        """Let nobody wait for an answer who would lose it by that."""
        if self.scrapes is not None:
            self.scrapes.finish()

    def describe(self) -> dict[str, Any]:
        """Return what is counted, by names: for `restore`."""
        present = [
            (str(child.slot), describe_words(self._slots.counters(child.page))) for child in self._children_with_pages()
        ]
        return {
            "started_at": self._started_at, "tally": self.tally.describe(), "gone": self._slots.totals.describe(),
            "present": present,
            "app_files": self._app_files.describe() if self._app_files is not None else None,
            "why_unready": self.why_unready, "scrapes": self._scrapes_under_way(),
        }  # fmt: skip

    @property
    def fds(self) -> list[int]:
        """The descriptors that are described."""
        locks = [self._app_files.lock] if self._app_files is not None and self._app_files.lock is not None else []
        return [*locks, *(each["fd"] for each in self._scrapes_under_way())]

    def _scrapes_under_way(self) -> list[dict[str, Any]]:
        return self.scrapes.describe() if self.scrapes is not None else []

    def restore(self, state: dict[str, Any], has_children: bool) -> None:
        """Go on counting; without its children, what they had counted up to now is all that is known of them."""
        self._started_at, self.why_unready = state["started_at"], state.get("why_unready", "")
        self._status.began_before(max(time.time() - self._started_at, 0.0))
        self.tally.restore(state["tally"])
        self._slots.totals.restore(state["gone"])
        if has_children and state["app_files"] is not None:
            self._app_files = AppFiles.inherit(state["app_files"])
        if has_children and self.scrapes is not None:
            self.scrapes.restore(state.get("scrapes", ()))
        if not has_children:
            for slot, counts in state["present"]:
                self._slots.totals.restore({slot: counts})
        if self._statsd is not None:
            self._statsd.begin_at(self._words())

    # For balancers

    def _note_ticks(self) -> None:
        """
        Count for how many seconds the event loop of each worker has not turned.

        Only what this process has seen pass counts: after a stop of the whole machine, nobody hangs.
        """
        before, self._ticks = self._ticks, {}
        for child in self._children.having(State.READY, State.DRAINING):
            tick = self._children.page(child)[Field.TICK]
            last, seconds = before.get(child, (-1, 0))
            self._ticks[child] = (tick, seconds + 1 if tick == last else 0)

    def _look(self) -> Host:
        known, config = self._status.known, self._status.known.config
        readings = []
        for child in self._children.having(State.READY) or self._children.having(State.DRAINING):
            page, (_, seconds) = self._children.page(child), self._ticks.get(child, (-1, 0))
            busy = page[Field.THREADS_BUSY_LATELY] / 1000
            readings.append(Reading(busy, page[Field.WAITING_MILLISECONDS] / 1000, seconds))
        return Host(
            readings, known.size, config.threads, config.healthcheck_max_wait_seconds, known.is_ending, self.why_unready
        )

    # The text

    def render(self) -> bytes:
        """Return it."""
        samples = Samples()
        samples.add_process(self._started_at)
        states = {"ready": (State.READY,), "starting": (State.STARTING,), "draining": (State.DRAINING, State.KILLED)}
        samples.add(WORKERS, self._status.known.size, 'state="wanted"')
        for name, of in states.items():
            samples.add(WORKERS, len(self._children.having(*of)), f'state="{name}"')
        attached = [each for each in self._status.attached if not each["when"]]  # of --cron none is to run for long
        samples.add(ATTACHED, sum(each["is_wanted"] for each in attached), 'state="wanted"')
        samples.add(ATTACHED, sum(each["state"] == "running" for each in attached), 'state="running"')
        jobs = self._status.jobs
        if jobs is not None:
            for result, number in jobs["ended"].items():
                samples.add(JOBS, number, label("result", result))
            for folder, number in jobs["waiting"].items():
                samples.add(JOBS_WAITING, number, label("folder", folder))
        self.tally.add_to(samples)
        samples.add_listening(self._status.listening)
        samples.add_workers(self._words())
        samples.add(ERROR_LINES_LOST, self._lost_messages, worker(0))
        self._add_found(samples, [child for child in self._children_with_pages() if child.pid])
        return samples.encode()

    def _words(self) -> dict[int, list[int]]:
        """Return what is counted, by slot."""
        return self._slots.totals.with_present(
            (child.slot, self._slots.counters(child.page)) for child in self._children_with_pages()
        )

    def _children_with_pages(self) -> Iterator[Child]:
        return (child for child in self._children.having(*PRESENT) if child.slot)

    def _add_found(self, samples: Samples, present: list[Child]) -> None:
        """Add what is found of the workers that are there; while one replaces another, two are in a slot."""
        present.sort(key=lambda child: child.slot)
        for slot, group in itertools.groupby(present, lambda child: child.slot):
            both, labels = list(group), worker(slot)
            samples.add(WORKER_START, self._monotonic_at + max(child.began_at for child in both), labels)
            samples.add(OLDEST, max(read_oldest(child.in_flight) for child in both), labels)
            waits = [self._children.page(child)[Field.WAITING_MILLISECONDS] for child in both]
            samples.add(LONGEST_WAIT, max(waits) / 1000, labels)
            # One that hangs and is replaced hangs no longer for those who wait.
            serving = [child for child in both if child.state is State.READY] or both
            ticks = [ticked for child in serving if (ticked := self._children.page(child)[Field.TICKED_AT])]
            if ticks:  # one that starts has no loop yet
                samples.add(SILENT, max((time.monotonic_ns() - min(ticks)) / 1e9, 0.0), labels)
            self._add_footprints(samples, both, labels)

    def _add_footprints(self, samples: Samples, group: list[Child], labels: str) -> None:
        """Add what those in one slot take, together; descriptors of the one that has most, as the limit is of a process."""
        footprints = list(filter(None, (self._status.statuses.footprint_of(child.pid) for child in group)))
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
