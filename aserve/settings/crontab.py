"""When a command of --cron is due: the five fields of crontab(5).

Owns:     Times, and their grammar; last_due, with a look at the minutes since the last call.
Thread:   any; pure.
Spec:     crontab(5): lists, ranges, steps; 0 and 7 are Sunday; of day of month and day of week either suffices, unless one begins with *.
          Stricter than: no names of days and months, no @daily, no %.
Not here: the command after the fields (features/programs/commands.py), watching the clock (processes/programs/attached.py).
"""

from __future__ import annotations

import functools
import re
import time
from typing import Callable

from ..core.named_tuple import NamedTuple
from ..core.patterns import lazy_pattern
from .secrecy import show_word

MINUTE = 60
# How many missed minutes are still checked. Guess: long enough for a stalled machine.
MISSED_MINUTES = 5
_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of the month", 1, 31), ("month", 1, 12), ("day of the week", 0, 7))
_PART = lazy_pattern(r"(?:(\*)|([0-9]{1,2})(?:-([0-9]{1,2}))?)(?:/([0-9]{1,2}))?\Z", re.A)


class Times(NamedTuple):
    """The due minutes, in local time."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday
    is_either: bool  # day of month or day of week suffices

    def names(self, moment: time.struct_time) -> bool:
        """Whether this minute is due."""
        day, weekday = moment.tm_mday in self.days, (moment.tm_wday + 1) % 7 in self.weekdays  # in Python 0 is Monday
        return (
            moment.tm_min in self.minutes
            and moment.tm_hour in self.hours
            and moment.tm_mon in self.months
            and (day or weekday if self.is_either else day and weekday)
        )


@functools.lru_cache(maxsize=256)
def parse_times(text: str) -> Times:
    """
    Parse five fields.

    Raises:
        ValueError: not five fields of this form.
    """
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"{text!r} has not the five fields minute, hour, day of the month, month, day of the week")
    minutes, hours, days, months, weekdays = (_numbers(field, *limits) for field, limits in zip(fields, _FIELDS))
    is_either = fields[2][0] != "*" and fields[4][0] != "*"
    return Times(minutes, hours, days, months, frozenset(number % 7 for number in weekdays), is_either)


def _numbers(field: str, name: str, low: int, high: int) -> frozenset[int]:
    found: set[int] = set()
    for part in field.split(","):
        match = _PART.match(part)
        if not match:
            raise ValueError(f"{show_word(part)!r} is no {name}: a number, *, 1-5, */10 or a list of these")
        first = low if match[1] else int(match[2])
        # A step needs an end: 5/10 means 5-59/10.
        last = high if match[1] or (match[4] and not match[3]) else int(match[3] or first)
        step = int(match[4] or 1)
        if not low <= first <= last <= high or step == 0:
            raise ValueError(f"{part!r} is no {name}: {low} to {high}")
        found.update(range(first, last + 1, step))
    return frozenset(found)


def last_due(names: Callable[[time.struct_time], bool], looked_at: float, now: float) -> int | None:
    """Return the latest due minute since 1970, after minute `looked_at` and up to `now` (s); None: none was due."""
    latest = int(now // MINUTE)
    minutes = range(latest, max(int(looked_at), latest - MISSED_MINUTES), -1)
    return next((minute for minute in minutes if names(time.localtime(minute * MINUTE))), None)
