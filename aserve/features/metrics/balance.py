"""What a balancer is told of this host: whether it lives, whether it is ready, and how much of the load is for it.

Owns:     Balance: the verdicts, and the line for HAProxy's agent check; Reading and Host, what they are made from.
Thread:   that of its owner: a supervisor's, or an event loop's. It looks at no clock.
Spec:     HAProxy, "agent-check": words and a percentage on one line.
Not here: the numbers (exporter.py), connections (scrapes.py), the answers of the app's own port
          (connections/health.py).

The weight follows what is free, and not the CPU: a host whose threads all wait for a database is as full as one whose CPU is.

    weight = (10 + 90 * free threads / all threads) / (1 + seconds that requests wait for a thread), in percent, at least 1

A host without a free thread, whose requests do not wait yet, gets a tenth of an idle one's load; not nothing: where all hosts are
full, a host that is left out gives its share to the others, which follow. Of 0 HAProxy makes a drain.

Costs requests nothing: the numbers are those that each process writes once a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable, NamedTuple

from ...connections.health import WISHES

# Of a process whose event loop has not turned for so long, nobody knows how it is. As `aserve status` has it (processes/ask.py).
SILENT_SECONDS = 5.0
# What a host without a free thread gets of an idle one's load, in percent. Guess.
FULL_PERCENT = 10
# How much a second counts against those before it: for how long requests wait is of one moment. Guess: half of what it was counts after
# two seconds.
NEW_SHARE = 0.3

UNKNOWN = -1.0  # the weight of a host that does not serve: when it does, what was before says nothing

_WORDS = {why: word for word, why in WISHES.items()}


class Reading(NamedTuple):
    """One process that serves, as it has told last."""

    threads_busy: float  # a mean of the last seconds (busy.py)
    wait_seconds: float  # for how long the first request that waits for a thread has waited
    silent_seconds: float  # for so long its event loop has not turned


class Host(NamedTuple):
    """All of them."""

    readings: Sequence[Reading]
    process_count: int  # that there are to be
    threads: int  # of each, for the app
    max_wait_seconds: float  # --healthcheck-max-wait; 0: any time
    is_draining: bool = False  # for its end
    why_unready: str = ""  # as it was told; "": nothing was


class Balance:
    """The verdicts on one host."""

    def __init__(self, look: Callable[[], Host]) -> None:
        self._look = look
        self._percent = UNKNOWN  # over the last seconds

    def on_second(self) -> None:
        """Called once a second."""
        self._note(self._look())

    def why_dead(self) -> str:
        """Return why a restart would help; "": it would not, an event loop turns."""
        return _why_dead(self._look())

    def why_unready(self) -> str:
        """Return why requests should go elsewhere; "": they may come."""
        host = self._look()
        if host.is_draining:
            return "draining"
        why = host.why_unready or _why_dead(host)
        if why:
            return why
        # Of the process that keeps its requests waiting the least: the kernel gives it more than the others.
        waited = min(reading.wait_seconds for reading in _turning(host))
        if not host.max_wait_seconds or waited <= host.max_wait_seconds:
            return ""
        return f"requests wait for {waited:.1f} s, more than --healthcheck-max-wait ({host.max_wait_seconds:g} s)"

    def agent_line(self) -> bytes:
        """
        Return what HAProxy's agent check is told.

        Each line says all of it, with "up" after a "stopped" and "ready" after a "maint": HAProxy keeps what it was told before.
        """
        host = self._look()
        if self._percent == UNKNOWN:
            self._note(host)
        if host.is_draining:
            return b"up drain\n"  # it goes on with those who have a session here
        word = _WORDS.get(host.why_unready, "drain")  # by the program, for a reason of its own
        why = _why_dead(host)
        if word != "ready":
            return f"up {word}\n".encode()
        return f"stopped #{why}\n".encode() if why else f"up ready {max(round(self._percent), 1)}%\n".encode()

    def _note(self, host: Host) -> None:
        now, before = _percent_of(host), self._percent
        self._percent = now if UNKNOWN in (now, before) else before + (now - before) * NEW_SHARE


def _turning(host: Host) -> list[Reading]:
    return [reading for reading in host.readings if reading.silent_seconds < SILENT_SECONDS]


def _why_dead(host: Host) -> str:
    if _turning(host):
        return ""
    return "no event loop of a worker turns" if host.readings else "no worker serves"


def _percent_of(host: Host) -> float:
    """Return the weight of this moment. A worker that is missing, or hangs, has no free thread."""
    turning, threads = _turning(host), host.threads or 1  # 0: the event loop's own
    if not turning:
        return UNKNOWN
    free = sum(max(threads - reading.threads_busy, 0) for reading in turning)
    share = min(free / (threads * max(host.process_count, 1)), 1.0)  # while one replaces another, there are more
    waited = sum(reading.wait_seconds for reading in turning) / len(turning)
    return (FULL_PERCENT + (100 - FULL_PERCENT) * share) / (1.0 + waited)
