"""What is run for a signal: a function, and the workers that are to run it.

Owns:     Handler; how a target is spelled; what a function is called in the log, and among hosts.
Thread:   any; pure.
Spec:     uWSGI 2.0.30, "uWSGI Signal framework".
Not here: when it is run, and by whom (signals.py).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple

from .schedules import Schedule

ANY, ALL = 0, -1
_TARGETS = re.compile(r"(?:worker|mule)?0?\Z|spooler\Z|mule[0-9]+\Z|farm_\w+\Z")


class Handler(NamedTuple):
    """What is run for a signal, and where: by any worker, by all, or by the one of a number."""

    function: Callable[[int], Any]
    target: int


def parse_target(target: str) -> int:
    """
    Return who is to run a signal: ANY, ALL, or the number of a worker.

    Raises:
        ValueError: it names nobody.
    """
    if target in ("workers", "active-workers", "mules"):
        return ALL
    if _TARGETS.match(target):  # a mule and the spooler are there so that no request waits; here none waits in any case
        return ANY
    match = re.match(r"worker([0-9]+)\Z", target)
    if not match:
        raise ValueError(f"{target!r} is no target of signals: '', worker, workers, worker1, worker2, spooler, mule")
    return int(match[1])


def name_in_all_hosts(number: int, handlers: Mapping[int, Handler], schedules: Mapping[int, Schedule]) -> str:
    """Return what the function of a signal is called among hosts: its number may differ while a deployment is under way."""
    name = name_of(handlers[number].function)
    before = [
        other for other, each in handlers.items()
        if other < number and schedules.get(other) == schedules.get(number) and name_of(each.function) == name
    ]  # fmt: skip
    return f"{name}:{len(before)}"


def name_of(function: Any) -> str:
    """Return what it is called in the log, in all processes alike: a partial as its function, an object as its class."""
    if isinstance(function, functools.partial):
        return name_of(function.func)
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{getattr(named, '__module__', '?')}.{named.__qualname__}"
