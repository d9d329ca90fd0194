"""Turns uWSGI's cron options into --cron.

Owns:     add_cron, for cron, cron2 and unique-cron; turning uWSGI's numbers into fields of crontab(5).
Thread:   any.
Spec:     uWSGI 2.0.30, core/cron.c: -1 is any, -5 is every multiple of 5; if day of month and day of week are given, either suffices.
Not here: other options (uwsgi_table.py), the time of a command (settings/crontab.py).
"""

from __future__ import annotations

import re
import shlex

from .draft import Draft, Given
from .uwsgi_values import whole

# The names of cron2, in crontab's order, with their bounds. In uWSGI, too, 0 and 7 are Sunday.
_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("week", 0, 7))


def add_cron(draft: Draft, given: Given, seconds: int) -> None:
    """
    Take cron and unique-cron: five numbers and a command; cron2: pairs and a command. `seconds`: of cron-harakiri; 0: no limit.

    Raises:
        ValueError: the value is not of that form.
    """
    text = str(given.value).strip()
    if given.key == "cron2":
        head, _, command = text.partition(" ")
        pairs = dict(pair.partition("=")[::2] for pair in head.split(",") if pair)
        numbers = [_number(pairs.pop(name, "-1")) for name, _, _ in _FIELDS]
        seconds = _number(pairs.pop("harakiri", str(seconds)))
        is_unique = pairs.pop("unique", "0") != "0"
        if pairs:
            draft.note(given, f"these have no effect here: {', '.join(pairs)}")
    else:
        match = re.match(r"((?:(?:-?[0-9]+|\*)\s+){5})(.*)", text, re.S)
        if not match:
            raise ValueError("it is not five numbers and a command")
        numbers, command = [-1 if word == "*" else int(word) for word in match[1].split()], match[2]
        is_unique = given.key == "unique-cron"
    command = command.strip()
    if not command:
        raise ValueError("there is no command")
    if numbers[2] < -1 and numbers[4] >= 0:
        draft.note(given, "it has no effect here: crontab(5) cannot say each Nth day that is also this day of the week")
        return
    if not is_unique:
        draft.note(given, "it is not begun once more while it runs, as with unique")
    if seconds > 0:
        command = f"exec timeout -s KILL {seconds} /bin/sh -c {shlex.quote(command)}"
    when = " ".join(_field(number, *field) for number, field in zip(numbers, _FIELDS))
    draft.add("cron", f"{when} {command}", given)


def _number(text: str) -> int:
    return whole(Given("", text, ""), -1000)


def _field(number: int, name: str, low: int, high: int) -> str:
    """Return a number of uWSGI as a field of crontab."""
    if not -high <= number <= high or number in range(low):
        raise ValueError(f"{number} is no {name}")
    if number >= 0:
        return str(number)
    if number == -1:
        return "*"
    # From the first multiple; crontab's */5 of days would be 1, 6, 11.
    return f"*/{-number}" if low == 0 else f"{-number}-{high}/{-number}"
