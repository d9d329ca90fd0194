"""The handler of a signal: a function, and the workers that run it.

Owns:     Handler; the grammar of a target; the name of a function in the log, and between hosts.
Thread:   any; pure.
Spec:     uWSGI 2.0.30, "uWSGI Signal framework".
Not here: running it (signals.py).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, Callable

from ...core.named_tuple import NamedTuple
from .schedules import Schedule

# Targets that are no worker's number. COUNTED: each of many processes runs the signal, and compares a count.
ANY, ALL, ANY_MULE, ALL_MULES = 0, -1, -2, -3
COUNTED = (ALL, ALL_MULES)
_MULE = -100  # mule n is the target _MULE - n
_ANY_WORKER = re.compile(r"(?:worker0?|spooler|farm_\w+)?\Z")
_NUMBERED = re.compile(r"(worker|mule)([0-9]+)\Z")


class Handler(NamedTuple):
    """The function of a signal, and its target."""

    function: Callable[[int], Any]
    target: int


def parse_target(target: str, mules: int = 0) -> int:
    """
    Parse a target: ANY, ALL, ANY_MULE, ALL_MULES, or the number of one process; without mules, workers run what is meant for them.

    Raises:
        ValueError: the text is no target.
    """
    if target in ("workers", "active-workers"):
        return ALL
    if target == "mules":
        return ALL_MULES if mules else ALL
    if target in ("mule", "mule0"):
        return ANY_MULE if mules else ANY
    if _ANY_WORKER.match(target):  # also the spooler: a signal's thread delays no request here
        return ANY
    match = _NUMBERED.match(target)
    if not match:
        raise ValueError(
            f"{target!r} is no target of signals: '', worker, workers, worker1, worker2, spooler, mule, mules, mule1"
        )
    number = int(match[2])
    if match[1] == "mule":
        return _MULE - number if number <= mules else ANY
    return number


def places_of(worker_id: int, mule_id: int = 0) -> frozenset[int]:
    """Return the targets that a process runs signals for."""
    if mule_id:
        return frozenset((ANY_MULE, ALL_MULES, _MULE - mule_id))
    return frozenset((ANY, ALL, worker_id))


def name_in_all_hosts(number: int, handlers: Mapping[int, Handler], schedules: Mapping[int, Schedule]) -> str:
    """Return the name of a signal's function between hosts: its number may differ during a deployment."""
    name = name_of(handlers[number].function)
    before = [
        other for other, each in handlers.items()
        if other < number and schedules.get(other) == schedules.get(number) and name_of(each.function) == name
    ]  # fmt: skip
    return f"{name}:{len(before)}"


def name_of(function: Any) -> str:
    """Return a function's name for the log, the same in all processes: of a partial its function's, of an object its class's."""
    if isinstance(function, functools.partial):
        return name_of(function.func)
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{getattr(named, '__module__', '?')}.{named.__qualname__}"
