"""Signals of uWSGI's, timers and cron: functions that run in a worker, beside its requests.

Owns:     Signals: what a process has registered, the thread that looks what is due, and those in which functions run.
Thread:   any registers and raises; the clock's thread looks; each run has a thread of its own, beyond --threads.
Spec:     uWSGI 2.0.30, "uWSGI Signal framework".
Not here: what is run (handlers.py), when a schedule is due (schedules.py), which host runs it (turns.py), the memory (memory.py), the functions of the module (module.py).

There is no one who hands them out. Each worker has the functions, and looks: what is due, or raised, is in memory that all see, and
whoever finds it first takes it, under the lock.

- One worker runs it, once: it takes what is due, and sets when it is due again, in one step.
- Nothing is lost when a worker goes: one that drains takes nothing more, and ends when what it runs has ended (its threads are no
  daemons); what was raised and not taken is still in the memory. What is cut off is what runs in a process that is killed.
- A function that hangs stops itself only: while it runs, in whatever process, it is not run again, and the log says so once. The
  kernel takes that lock from a process that dies.
- Where hosts share (--shared), one worker of one of them takes a tick, before it is raised here.
- A signal for all workers is a count: each compares it with what it has seen.
"""

from __future__ import annotations

import logging
import operator
import os
import struct
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from ...core.forks import end_if_forked, forked, weakly
from .handlers import ALL, ANY, Handler, name_in_all_hosts, name_of, parse_target
from .memory import SIGNAL_BYTES, SIGNAL_COUNT, Memory
from .schedules import Cron, Every, Schedule, Ticks, identity_of, ticks_of
from .wake import Wake

if TYPE_CHECKING:
    from ..sharing.leases import Lease
    from .turns import Turns

logger = logging.getLogger("aserve.app")

# How often a process looks what others have raised. Guess: uWSGI's master looks for what is due once a second.
LOOK_SECONDS = 0.5
MIN_LOOK_SECONDS = 0.001
# Who has registered another schedule, as code of before has, leaves a signal to the others for so long. Guess.
STRANGER_SECONDS = 5.0
HANGS_SECONDS = 60.0  # a function that was to run again is told of after that. Guess
MAX_PENDING = 1 << 16

# A signal in the memory: how often it waits to be run by one; how often it was raised for all; how often its schedule was due; the
# identity of that; when that is due, or the minute looked at; when it was registered.
_ENTRY = struct.Struct("=IIIIdd")


class Entry(NamedTuple):
    """What all processes know of a signal."""

    pending: int
    raised: int
    due_count: int
    schedule: int
    due: float
    since: float


class Signals:
    """Those of one process, and of what it forks."""

    def __init__(self, memory: Callable[[], Memory]) -> None:
        self._memory = memory
        self._handlers: dict[int, Handler] = {}
        self._schedules: dict[int, Schedule] = {}
        self._seen: dict[int, int] = {}  # of signals for all: how often they were raised
        self._told: set[int] = set()  # those that hang
        self._worker_id = 0
        self._since = 0.0
        self._leave()
        os.register_at_fork(after_in_child=weakly(self._leave))

    def _leave(self) -> None:
        """Take nothing, until `begin`: in a process that was forked none of its parent's threads are there."""
        self._serves: Callable[[], bool] | None = None  # whether this worker takes anything; None: it has not begun
        self._running: dict[int, float] = {}  # since when
        self._leases: dict[int, Lease] = {}  # of what runs here, and on no other host
        self._wake = Wake()
        self._clock: threading.Thread | None = None
        self._looking = threading.Lock()  # from what is taken until its thread has begun

    # By the app

    def register(self, number: int, target: str, function: Callable[[int], Any]) -> None:
        """
        Run this function for a signal.

        Raises:
            ValueError: there is no such signal, or no such target.
            TypeError: it is no function.
        """
        if not callable(function):
            raise TypeError(f"{function!r} is no function")
        number = check_number(number)
        self._handlers[number] = Handler(function, parse_target(target))
        self._meet(number)

    def is_registered(self, number: int) -> bool:
        """Whether this process has a function for it."""
        return check_number(number) in self._handlers

    def schedule(self, number: int, schedule: Schedule) -> None:
        """
        Raise a signal whenever this is due; in place of what it had before.

        Raises:
            ValueError: there is no such signal.
        """
        number = check_number(number)
        self._schedules[number] = schedule
        self._meet(number)

    def send(self, number: int) -> None:
        """
        Raise a signal, once.

        Raises:
            ValueError: this process has no function for it.
        """
        number = check_number(number)
        handler = self._handlers.get(number)
        if handler is None:
            raise ValueError(f"signal {number} has no function here: uwsgi.register_signal({number}, '', function)")
        self._memory().locks.after(self._send, number, handler)

    def _send(self, number: int, handler: Handler) -> None:
        self._locked(self._raise, number, handler, MAX_PENDING)
        self._wake.set()

    # By the server

    def begin(self, worker_id: int, serves: Callable[[], bool]) -> None:
        """Run what is due from now on, in this worker, while `serves` says so; it is called often, from another thread."""
        self._worker_id, self._serves, self._since = worker_id, serves, time.monotonic()
        for number in {*self._handlers.copy(), *self._schedules.copy()}:
            self._meet(number)

    def end(self) -> None:
        """Take nothing more. Python waits for what runs, if it has begun: a thread of the clock's dies with what it has just taken."""
        with self._looking:
            self._serves = None
        self._wake.set()

    def _meet(self, number: int) -> None:
        """Know a signal, as a worker: what all know of its schedule, and how often it was raised before."""
        if self._serves is not None:
            self._memory().locks.after(self._meet_now, number)

    def _meet_now(self, number: int) -> None:
        self._locked(self._enter, number)
        self._locked(self._start_clock)
        self._wake.set()

    # The clock's thread

    def _run_clock(self) -> None:
        while self._serves is not None or not self._locked(self._end_clock):
            try:
                seconds = self.look()
            except BaseException:  # a bug in aserve; or of the app's logging, which may raise SystemExit and the like
                logger.exception("internal error; please report this as a bug in aserve")
                seconds = LOOK_SECONDS
            self._wake.wait(seconds)

    def look(self) -> float:
        """Take what is due for this process, and begin to run it; return in how many seconds to look again."""
        with self._looking:
            serves = self._serves
            if serves is None or not serves():
                return LOOK_SECONDS
            hosts = self._memory().hosts
            turns = self._take_turns(hosts.turns) if hosts is not None else {}
            taken, seconds = self._memory().locks.run(self._take_all, turns)
            begun = {number for number, _, _ in taken}
            for number, lease in turns.items():
                self._leases[number] = lease
                if number not in begun:  # it runs on this host already, and will once more
                    self._end_lease(number)
            for number, handler, times in taken:
                self._begin_run(number, handler, times)
        return max(seconds, MIN_LOOK_SECONDS)

    def _begin_run(self, number: int, handler: Handler, times: int) -> None:
        name = f"aserve-uwsgi-signal-{number}"
        # Not a daemon, as who starts it is: Python waits for its end.
        thread = threading.Thread(target=self._run, args=(number, handler, times), name=name, daemon=False)
        try:
            thread.start()
        except RuntimeError:  # the interpreter ends, or there is no room for a thread: it is for others
            if handler.target != ALL:
                self._locked(self._raise, number, handler, MAX_PENDING)
            self._end_run(number, handler)

    def _run(self, number: int, handler: Handler, times: int) -> None:
        count = len(forked)
        try:
            for _ in range(times):
                handler.function(number)
                end_if_forked(count)
        except BaseException as exc:
            end_if_forked(count, exc)
            logger.exception("%s, which runs for uwsgi signal %d, has failed", name_of(handler.function), number)
        finally:
            self._end_run(number, handler)
            self._wake.set()

    def _end_run(self, number: int, handler: Handler) -> None:
        self._end_lease(number)
        if handler.target != ALL:
            self._memory().locks.end(number)  # before it may run here again, by whom it would be taken from
        self._running.pop(number, None)

    # What hosts share

    def _take_turns(self, turns: Turns) -> dict[int, Lease]:
        """Return the signals whose schedules are due, and that this process is to run, for all hosts."""
        taken = {}
        for number, handler in self._handlers.copy().items():
            schedule = self._shared_schedule(number, handler)
            if schedule is None or handler.target not in (ANY, self._worker_id):
                continue
            name, now = name_in_all_hosts(number, self._handlers.copy(), self._schedules), _now(schedule)
            if number in self._running:
                self._tell_hanging(number, handler, turns.is_due(name, schedule, now))
                continue
            lease = turns.take(name, schedule, now)
            if lease is not None:
                taken[number] = lease
        return taken

    def _end_lease(self, number: int) -> None:
        lease, hosts = self._leases.pop(number, None), self._memory().hosts
        if lease is not None and hosts is not None:
            hosts.turns.leases.let_go(lease)

    def _shared_schedule(self, number: int, handler: Handler) -> Ticks | Cron | None:
        """Return the schedule that one of all hosts follows; None: there is none, or it is this host's."""
        schedule = self._schedules.get(number)
        if self._memory().hosts is None or handler.target == ALL or schedule is None:
            return None
        return ticks_of(schedule)

    # With the lock

    def _locked(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self._memory().locks.run(function, *arguments)

    def _read(self, number: int) -> Entry:
        memory = self._memory()
        return Entry(*_ENTRY.unpack_from(memory.octets, memory.signals.offset + number * SIGNAL_BYTES))

    def _write(self, number: int, entry: Entry) -> None:
        memory = self._memory()
        _ENTRY.pack_into(memory.octets, memory.signals.offset + number * SIGNAL_BYTES, *entry)

    def _enter(self, number: int) -> None:
        entry, schedule = self._read(number), self._schedules.get(number)
        self._seen.setdefault(number, entry.raised)
        if schedule is not None and entry.schedule != identity_of(schedule):
            due = schedule.first(_now(schedule))
            pending = 0 if entry.schedule else entry.pending  # what was due by other code may have been something else
            new = Entry(pending, entry.raised, 0, identity_of(schedule), due, self._since)
            self._write(number, new)

    def _start_clock(self) -> None:
        if self._clock is None and self._handlers:
            clock = threading.Thread(target=self._run_clock, name="aserve-uwsgi-clock", daemon=True)
            clock.start()  # first: where there is no room for a thread, the next signal tries again
            self._clock = clock

    def _end_clock(self) -> bool:
        """Return whether the clock's thread is to end: unless `begin` was called since, which starts another from now on."""
        if self._serves is None:
            self._clock = None
        return self._clock is None

    def _raise(self, number: int, handler: Handler, most: int) -> None:
        entry = self._read(number)
        if handler.target == ALL:
            self._write(number, entry._replace(raised=(entry.raised + 1) % (1 << 32)))
        else:
            self._write(number, entry._replace(pending=max(entry.pending, min(entry.pending + 1, most))))

    def _take_all(self, turns: Mapping[int, Lease]) -> tuple[list[tuple[int, Handler, int]], float]:
        """Return what is to be run here, now, and how often, and in how many seconds a schedule is due; `turns`: what has become so."""
        taken, seconds = [], LOOK_SECONDS
        for number, handler in self._handlers.copy().items():
            shared = self._shared_schedule(number, handler)
            if shared is None:
                seconds = min(seconds, self._look_at_schedule(number, handler))
            elif isinstance(shared, Ticks):
                seconds = min(seconds, shared.seconds - _now(shared) % shared.seconds)
            if number in turns:
                self._raise(number, handler, 1)
            times = self._take(number, handler)
            if times:
                taken.append((number, handler, times))
        return taken, seconds

    def _take(self, number: int, handler: Handler) -> int:
        """Return how often a signal is to be run here, now."""
        entry = self._read(number)
        if handler.target == ALL:
            times = (entry.raised - self._seen.setdefault(number, entry.raised)) % (1 << 32)
        else:
            times = min(entry.pending, 1)
        if number in self._running:
            self._tell_hanging(number, handler, bool(times))
            return 0
        if not times or handler.target not in (ALL, ANY, self._worker_id):
            return 0
        if handler.target == ALL:
            self._seen[number] = entry.raised
        elif self._memory().locks.begin(number):
            self._write(number, entry._replace(pending=entry.pending - 1))
        else:
            return 0
        self._told.discard(number)
        self._running[number] = time.monotonic()
        return times

    def _look_at_schedule(self, number: int, handler: Handler) -> float:
        schedule, entry = self._schedules.get(number), self._read(number)
        if schedule is None:
            return LOOK_SECONDS
        now, is_cron = _now(schedule), isinstance(schedule, Cron)
        if entry.schedule != identity_of(schedule):
            if entry.since < self._since:  # of code before, which has written it once more
                self._enter(number)
                return LOOK_SECONDS
            now -= STRANGER_SECONDS  # newer code's, whose workers look at it, unless they are gone
        times = schedule.times if isinstance(schedule, Every) else 0
        if times and entry.due_count >= times:
            return LOOK_SECONDS
        following = schedule.next(entry.due, now)
        if following is None:
            return LOOK_SECONDS if is_cron else min(entry.due - now, LOOK_SECONDS)
        is_one_with_the_last = handler.target != ALL and entry.pending
        due_count = entry.due_count if is_one_with_the_last else min(entry.due_count + 1, (1 << 32) - 1)
        self._write(number, entry._replace(due=following, due_count=due_count))
        self._raise(number, handler, 1)
        return LOOK_SECONDS

    def _tell_hanging(self, number: int, handler: Handler, has_waiting: bool) -> None:
        seconds = time.monotonic() - self._running.get(number, time.monotonic())
        if has_waiting and seconds > HANGS_SECONDS and number not in self._told:
            self._told.add(number)
            self._memory().locks.after(_log_hanging, number, handler, seconds)


def _log_hanging(number: int, handler: Handler, seconds: float) -> None:
    text = "%s has run for %.0f s for uwsgi signal %d, which is due again; it waits for its end"
    logger.warning(text, name_of(handler.function), seconds, number)


def check_number(number: int) -> int:
    """
    Return the number of a signal.

    Raises:
        ValueError: there is none of this number.
        TypeError: it is no whole number.
    """
    index = operator.index(number)
    if not 0 <= index < SIGNAL_COUNT:
        raise ValueError(f"there is no signal {number}: they are 0 to {SIGNAL_COUNT - 1}")
    return index


def _now(schedule: Schedule | Ticks) -> float:
    return time.monotonic() if isinstance(schedule, Every) else time.time()
