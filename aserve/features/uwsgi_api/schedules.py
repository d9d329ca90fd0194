"""When a signal is due by itself: each so many seconds, or at minutes as cron names them.

Owns:     Every, Cron; Ticks, which are Every where hosts share them.
Thread:   any; pure.
Spec:     uWSGI 2.0.30, add_timer, add_rb_timer, add_cron: -1 is any, -5 each fifth; a day of the month and one of the week are either.
Not here: who looks at the clock, and what is run (signals.py).
"""

from __future__ import annotations

import time
import zlib
from typing import NamedTuple, Union

from ...settings.crontab import MINUTE, last_due

SUNDAYS = (0, 7)


class Every(NamedTuple):
    """Each so many seconds, from the start on."""

    seconds: float
    times: int = 0  # so often; 0: without end

    def first(self, now: float) -> float:
        """Return when it is due, from the start on; seconds of the monotonic clock."""
        return now + self.seconds

    def next(self, due: float, now: float) -> float | None:
        """Return when it is due after this; None: it is not due yet. What was missed is not made up for."""
        if now < due:
            return None
        return due + self.seconds if due + self.seconds > now else now + self.seconds


class Ticks(NamedTuple):
    """Each so many seconds since 1970: for hosts, which have begun at different times."""

    seconds: float

    @property
    def unit_seconds(self) -> float:
        """How long it is from one number to the next."""
        return self.seconds

    def first(self, now: float) -> float:
        """Return the number of the tick that was the last one; the one of the start is not run."""
        return now // self.seconds

    def next(self, settled: float, now: float) -> float | None:
        """Return the number of the last tick, if it is behind this one; those between are one with it."""
        latest = now // self.seconds
        return latest if latest > settled else None


class Cron(NamedTuple):
    """At these minutes, by the local time."""

    minute: int
    hour: int
    day: int  # of the month, from 1
    month: int  # from 1
    weekday: int  # 0 is Sunday, and so is 7

    @property
    def unit_seconds(self) -> float:
        """How long it is from one number to the next."""
        return MINUTE

    def first(self, now: float) -> float:
        """Return the minute that is looked at already: the one that it is; its number since 1970."""
        return now // MINUTE

    def next(self, looked_at: float, now: float) -> float | None:
        """Return the last minute of those since then that it names; None: there is none, and those are looked at, too."""
        return last_due(self.names, looked_at, now)

    def names(self, moment: time.struct_time) -> bool:
        """Whether it names this minute."""
        day, weekday = _fits(self.day, moment.tm_mday), self._is_weekday(moment)
        # crontab(5) has it, too: both restricted mean either.
        is_day = day or weekday if self.day >= 0 and self.weekday >= 0 else day and weekday
        return (
            is_day
            and _fits(self.minute, moment.tm_min)
            and _fits(self.hour, moment.tm_hour)
            and _fits(self.month, moment.tm_mon)
        )

    def _is_weekday(self, moment: time.struct_time) -> bool:
        today = (moment.tm_wday + 1) % 7  # of Python 0 is Monday
        return self.weekday in SUNDAYS if today == 0 and self.weekday >= 0 else _fits(self.weekday, today)


Schedule = Union[Every, Cron]


def _fits(asked: int, value: int) -> bool:
    return asked == value if asked >= 0 else value % -asked == 0


def checked_cron(*fields: int) -> Cron:
    """
    Return a Cron of minute, hour, day, month and weekday.

    Raises:
        ValueError: a field names nothing.
    """
    cron = Cron(*fields)
    for name, value, most in zip(Cron._fields, cron, (59, 23, 31, 12, 7)):
        if not -most - 1 <= value <= most:
            raise ValueError(f"cron: {value} is no {name}: up to {most}, -1 for any, -N for each Nth")
    return cron


def identity_of(schedule: Every | Ticks | Cron) -> int:
    """Return a number that tells schedules apart, in all processes alike; never 0."""
    return zlib.crc32(repr(schedule).encode()) or 1


def ticks_of(schedule: Schedule) -> Ticks | Cron | None:
    """Return the same for hosts, of which one follows it; None: each does, as of so many times nobody knows when to begin anew."""
    if isinstance(schedule, Cron):
        return schedule
    return Ticks(schedule.seconds) if not schedule.times else None
