"""uWSGI's signals, timers and cron: functions that run in a worker, beside its requests.

Owns:     UwsgiSignals: the functions registered in a process, the clock's thread, and the threads that run the functions.
Thread:   any registers and raises; the clock's thread takes signals; each run has a thread of its own, beyond --threads.
Spec:     uWSGI 2.0.30, "uWSGI Signal framework".
Not here: handlers (handlers.py), schedules (schedules.py), choosing a host (turns.py), the memory (memory.py), the module (module.py).

No process distributes signals. Each worker has the functions, and checks the shared memory for raised and due signals; the first one
that finds a signal takes it, under the lock.

- One worker runs a signal, once: it takes it, and sets when it is due again, in one step.
- No signal is lost when a worker ends: a draining worker takes no more, and ends when its functions have returned (its threads are no
  daemons); signals that were raised and not taken are still in the memory. Only functions in a killed process are cut off.
- A function that hangs stops only itself: while it runs, in any process, it is not started again, and the log says so once. The
  kernel releases that lock when the process dies.
- With --shared, one worker of all hosts takes a tick, before it is raised on its host.
- A signal for all workers is a count, which each worker compares with the count that it has handled.
"""

from __future__ import annotations

import logging
import operator
import os
import struct
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable

from ...core.forks import end_if_forked, forked, weakly
from ...core.named_tuple import NamedTuple
from ...workers.threads import Watcher
from .handlers import COUNTED, Handler, name_in_all_hosts, name_of, parse_target
from .memory import SIGNAL_BYTES, SIGNAL_COUNT, Memory
from .process import present
from .schedules import Cron, Every, Schedule, Ticks, identity_of, ticks_of
from .wake import Wake

if TYPE_CHECKING:
    from ...features.sharing.leases import Lease
    from .turns import OwnTurns

logger = logging.getLogger("aserve.app")

# How often a process checks for signals that others have raised. Guess: uWSGI's master checks its timers once a second.
LOOK_SECONDS = 0.5
MIN_LOOK_SECONDS = 0.001
# For how long a process leaves a signal to others if its schedule differs from theirs, as during a deployment. Guess.
STRANGER_SECONDS = 5.0
HANGS_SECONDS = 60.0  # after this, a running function that is due again is logged. Guess
MAX_PENDING = 1 << 16

# A signal in the memory: the pending runs by any worker; the count of raises for all; how often its schedule was due; the
# schedule's identity; when it is due, or the minute looked at; when it was registered.
_ENTRY = struct.Struct("=IIIIdd")


class Entry(NamedTuple):
    """The shared state of a signal."""

    pending: int
    raised: int
    due_count: int
    schedule: int
    due: float
    since: float


class UwsgiSignals:
    """The signals of one process, and of its children."""

    def __init__(self, memory: Callable[[], Memory]) -> None:
        self._memory = memory
        self._handlers: dict[int, Handler] = {}
        self._schedules: dict[int, Schedule] = {}
        self._seen: dict[int, int] = {}  # of signals for all workers: the count handled here
        self._told: set[int] = set()  # signals whose hanging function was logged
        self._places: frozenset[int] = frozenset()  # the targets that this process runs signals for
        self._since = 0.0
        self.on_run: Callable[[], object] = lambda: None  # called before each run of a function
        self._leave()
        os.register_at_fork(after_in_child=weakly(self._leave))

    def _leave(self) -> None:
        """Take no signals until `begin`: a forked process has none of its parent's threads."""
        self._serves: Callable[[], bool] | None = None  # whether this worker takes signals; None: it has not begun
        self._running: dict[int, float] = {}  # by signal, since when
        self._leases: dict[int, Lease] = {}  # of signals that run here, and on no other host
        self._wake = Wake()
        self._clock: threading.Thread | None = None
        self._looking = threading.Lock()  # held from taking signals until their threads have started

    # Called by the app

    def register(self, number: int, target: str, function: Callable[[int], Any]) -> None:
        """
        Register a function for a signal.

        Raises:
            ValueError: there is no such signal, or no such target.
            TypeError: the argument is no function.
        """
        if not callable(function):
            raise TypeError(f"{function!r} is no function")
        number = check_number(number)
        self._handlers[number] = Handler(function, parse_target(target, present().mules))
        self._meet(number)

    def is_registered(self, number: int) -> bool:
        """Whether this process has a function for the signal."""
        return check_number(number) in self._handlers

    def schedule(self, number: int, schedule: Schedule) -> None:
        """
        Raise a signal at each due time; replace its schedule.

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

    # Called by the server

    def begin(self, places: frozenset[int], serves: Callable[[], bool]) -> None:
        """Run due signals for these targets from now on, while `serves` returns True; it is called often, from another thread."""
        self._places, self._serves, self._since = places, serves, time.monotonic()
        for number in {*self._handlers.copy(), *self._schedules.copy()}:
            self._meet(number)

    def end(self) -> None:
        """Take no more signals. Python waits for running functions, but not for one that the clock's thread is just about to start."""
        with self._looking:
            self._serves = None
        self._wake.set()

    def _meet(self, number: int) -> None:
        """Read the shared state of a signal in a worker: its schedule, and the count of raises so far."""
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
            except BaseException:  # a bug in aserve; or in the app's logging, which may raise SystemExit and the like
                logger.exception("internal error; please report this as a bug in aserve")
                seconds = LOOK_SECONDS
            self._wake.wait(seconds)

    def look(self) -> float:
        """Take the signals that are due in this process, and start them; return the seconds until the next look."""
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
                if number not in begun:  # it runs on this host already, and will run again
                    self._end_lease(number)
            for number, handler, times in taken:
                self._begin_run(number, handler, times)
        return max(seconds, MIN_LOOK_SECONDS)

    def _begin_run(self, number: int, handler: Handler, times: int) -> None:
        name = f"aserve-uwsgi-signal-{number}"
        # Not a daemon, unlike the clock's thread: Python waits for its end.
        thread = threading.Thread(target=self._run, args=(number, handler, times), name=name, daemon=False)
        try:
            thread.start()
        except RuntimeError:  # the interpreter ends, or no thread can start: leave it to other workers
            if handler.target not in COUNTED:
                self._locked(self._raise, number, handler, MAX_PENDING)
            self._end_run(number, handler)

    def _run(self, number: int, handler: Handler, times: int) -> None:
        count = len(forked)
        try:
            for _ in range(times):
                self.on_run()
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
        if handler.target not in COUNTED:
            self._memory().locks.end(number)  # first, since the next run here would take the lock again
        self._running.pop(number, None)

    # Shared between hosts

    def _take_turns(self, turns: OwnTurns) -> dict[int, Lease]:
        """Return the due signals that this process has taken for all hosts, with their leases."""
        taken = {}
        for number, handler in self._handlers.copy().items():
            schedule = self._shared_schedule(number, handler)
            if schedule is None or handler.target not in self._places:
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
        """Return the schedule that one of all hosts follows; None: there is none, or it is for this host only."""
        schedule = self._schedules.get(number)
        if self._memory().hosts is None or handler.target in COUNTED or schedule is None:
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
            pending = 0 if entry.schedule else entry.pending  # another schedule's may be for another function
            new = Entry(pending, entry.raised, 0, identity_of(schedule), due, self._since)
            self._write(number, new)

    def _start_clock(self) -> None:
        if self._clock is None and self._handlers:
            clock = Watcher(self._run_clock, "aserve-uwsgi-clock")
            clock.start()  # first: if no thread can start, the next signal tries again
            self._clock = clock

    def _end_clock(self) -> bool:
        """Return whether the clock's thread must end: yes, unless `begin` was called since; later calls start a new thread."""
        if self._serves is None:
            self._clock = None
        return self._clock is None

    def _raise(self, number: int, handler: Handler, most: int) -> None:
        entry = self._read(number)
        if handler.target in COUNTED:
            self._write(number, entry._replace(raised=(entry.raised + 1) % (1 << 32)))
        else:
            self._write(number, entry._replace(pending=max(entry.pending, min(entry.pending + 1, most))))

    def _take_all(self, turns: Mapping[int, Lease]) -> tuple[list[tuple[int, Handler, int]], float]:
        """Return the signals to run here now, with their counts, and the seconds until a schedule is due; `turns`: taken for all hosts."""
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
        """Return how often to run a signal here now."""
        entry = self._read(number)
        if handler.target in COUNTED:
            times = (entry.raised - self._seen.setdefault(number, entry.raised)) % (1 << 32)
        else:
            times = min(entry.pending, 1)
        if number in self._running:
            self._tell_hanging(number, handler, bool(times))
            return 0
        if not times or handler.target not in self._places:
            return 0
        if handler.target in COUNTED:
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
        now = _now(schedule)
        if entry.schedule != identity_of(schedule):
            if entry.since < self._since:  # written by the previous code, after this process has started
                self._enter(number)
                return LOOK_SECONDS
            now -= STRANGER_SECONDS  # of newer code, whose workers follow it, unless they are gone
        times = schedule.times if isinstance(schedule, Every) else 0
        if times and entry.due_count >= times:
            return LOOK_SECONDS
        following = schedule.next(entry.due, now)
        if following is None:
            return min(entry.due - now, LOOK_SECONDS) if isinstance(schedule, Every) else LOOK_SECONDS
        is_one_with_the_last = handler.target not in COUNTED and entry.pending
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
    Check the number of a signal, and return it.

    Raises:
        ValueError: there is no signal of this number.
        TypeError: it is no whole number.
    """
    index = operator.index(number)
    if not 0 <= index < SIGNAL_COUNT:
        raise ValueError(f"there is no signal {number}: they are 0 to {SIGNAL_COUNT - 1}")
    return index


def _now(schedule: Schedule | Ticks) -> float:
    return time.monotonic() if isinstance(schedule, Every) else time.time()
