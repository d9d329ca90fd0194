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

ANY, ALL = 0, -1
_TARGETS = re.compile(r"(?:worker|mule)?0?\Z|spooler\Z|mule[0-9]+\Z|farm_\w+\Z")


class Handler(NamedTuple):
    """The function of a signal, and its target: any worker, all, or one by its number."""

    function: Callable[[int], Any]
    target: int


def parse_target(target: str) -> int:
    """
    Parse a target: ANY, ALL, or the number of a worker.

    Raises:
        ValueError: the text is no target.
    """
    if target in ("workers", "active-workers", "mules"):
        return ALL
    if _TARGETS.match(target):  # also a mule or the spooler: a signal's thread delays no request here
        return ANY
    match = re.match(r"worker([0-9]+)\Z", target)
    if not match:
        raise ValueError(f"{target!r} is no target of signals: '', worker, workers, worker1, worker2, spooler, mule")
    return int(match[1])


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
