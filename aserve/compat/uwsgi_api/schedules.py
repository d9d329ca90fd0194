"""When a signal is due: at an interval of seconds, at minutes in cron's form, or when a file changes.

Owns:     Every, Cron, Watched; Ticks, the form of Every that hosts share.
Thread:   any; pure, but for Watched, which asks for the state of a file.
Spec:     uWSGI 2.0.30, add_timer, add_rb_timer, add_cron: -1 is any, -5 every fifth; of day of month and day of week, either suffices.
Not here: watching the clock, and running signals (signals.py).
"""

from __future__ import annotations

import itertools
import os
import time
import zlib
from typing import Any, Union

from ...core.named_tuple import NamedTuple
from ...settings.crontab import MINUTE, last_due

SUNDAYS = (0, 7)


class Every(NamedTuple):
    """Every `seconds`, counted from the start."""

    seconds: float
    times: int = 0  # how often; 0: without end

    def first(self, now: float) -> float:
        """Return when it is due for the first time, in seconds of the monotonic clock."""
        return now + self.seconds

    def next(self, due: float, now: float) -> float | None:
        """Return when it is due next; None: it is not due yet. Missed times are skipped."""
        if now < due:
            return None
        return due + self.seconds if due + self.seconds > now else now + self.seconds


class Ticks(NamedTuple):
    """Every `seconds` since 1970: for hosts, which have started at different times."""

    seconds: float

    @property
    def unit_seconds(self) -> float:
        """How long it is from one number to the next."""
        return self.seconds

    def first(self, now: float) -> float:
        """Return the number of the latest tick, which is not run at the start."""
        return now // self.seconds

    def next(self, settled: float, now: float) -> float | None:
        """Return the number of the latest tick, if it is later than `settled`; ticks between are run as one."""
        latest = now // self.seconds
        return latest if latest > settled else None


class Cron(NamedTuple):
    """At these minutes of local time."""

    minute: int
    hour: int
    day: int  # of the month, from 1
    month: int  # from 1
    weekday: int  # 0 and 7 are Sunday

    @property
    def unit_seconds(self) -> float:
        """How long it is from one number to the next."""
        return MINUTE

    def first(self, now: float) -> float:
        """Return the present minute since 1970, which counts as looked at."""
        return now // MINUTE

    def next(self, looked_at: float, now: float) -> float | None:
        """Return the latest due minute after `looked_at`; None: none is due, and all until now count as looked at."""
        return last_due(self.names, looked_at, now)

    def names(self, moment: time.struct_time) -> bool:
        """Whether this minute is due."""
        day, weekday = _fits(self.day, moment.tm_mday), self._is_weekday(moment)
        # As in crontab(5): if both are restricted, either suffices.
        is_day = day or weekday if self.day >= 0 and self.weekday >= 0 else day and weekday
        return (
            is_day
            and _fits(self.minute, moment.tm_min)
            and _fits(self.hour, moment.tm_hour)
            and _fits(self.month, moment.tm_mon)
        )

    def _is_weekday(self, moment: time.struct_time) -> bool:
        today = (moment.tm_wday + 1) % 7  # in Python 0 is Monday
        return self.weekday in SUNDAYS if today == 0 and self.weekday >= 0 else _fits(self.weekday, today)


class Watched(NamedTuple):
    """When this file changes, or something in this folder."""

    path: str

    def first(self, now: float) -> float:
        """Return a number for the present state of the file, which counts as seen."""
        return signature_of(self.path)

    def next(self, seen: float, now: float) -> float | None:
        """Return the number of the present state, if it is not the one that was seen."""
        present = signature_of(self.path)
        return present if present != seen else None


Schedule = Union[Every, Cron, Watched]
MAX_ENTRIES = 1000  # of a folder that are looked at; what more there is shows by the time of the folder itself


def signature_of(path: str) -> float:
    """Return a number for the state of a file, or of a folder and what is in it, but not in folders below it; 0: there is none."""
    try:
        states: list[tuple[Any, ...]] = [_state_of(os.stat(path))]
        if os.path.isdir(path):
            with os.scandir(path) as entries:
                for entry in itertools.islice(entries, MAX_ENTRIES):
                    states.append((entry.name, *_state_of(entry.stat(follow_symlinks=False))))
    except OSError:
        return 0.0
    return float(zlib.crc32(repr(sorted(states, key=repr)).encode()) or 1)


def _state_of(found: os.stat_result) -> tuple[Any, ...]:
    return found.st_ino, found.st_size, found.st_mtime_ns


def _fits(asked: int, value: int) -> bool:
    return asked == value if asked >= 0 else value % -asked == 0


def checked_cron(*fields: int) -> Cron:
    """
    Return a Cron of minute, hour, day, month and weekday.

    Raises:
        ValueError: a field is out of its range.
    """
    cron = Cron(*fields)
    for name, value, most in zip(Cron._fields, cron, (59, 23, 31, 12, 7)):
        if not -most - 1 <= value <= most:
            raise ValueError(f"cron: {value} is no {name}: up to {most}, -1 for any, -N for each Nth")
    return cron


def identity_of(schedule: Schedule | Ticks) -> int:
    """Return a number that identifies a schedule, the same in all processes; never 0."""
    return zlib.crc32(repr(schedule).encode()) or 1


def ticks_of(schedule: Schedule) -> Ticks | Cron | None:
    """Return the schedule that one of all hosts follows; None: each host follows its own, since a limited count has no common start."""
    if isinstance(schedule, Cron):
        return schedule
    if isinstance(schedule, Watched):  # the hosts' files differ
        return None
    return Ticks(schedule.seconds) if not schedule.times else None
