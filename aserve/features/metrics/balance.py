"""The answers to a balancer about this host: liveness, readiness, and the weight for its share of the load.

Owns:     Balance: the verdicts, and the line for HAProxy's agent check; Reading and Host, their input.
Thread:   that of its owner: a supervisor's, or an event loop's. It reads no clock.
Spec:     HAProxy, "agent-check": words and a percentage on one line.
Not here: the numbers (exporter.py), connections (scrapes.py), health checks on the app's own port
          (connections/health.py).

The weight follows the free threads, not the CPU: a host whose threads all wait for a database is as full as one whose CPU is busy.

    weight = (10 + 90 * free threads / all threads) / (1 + seconds that requests wait for a thread), in percent, at least 1

A host without a free thread, whose requests do not wait yet, gets a tenth of an idle host's load, and not none: when all hosts are
full, the load of an excluded host would push out the next one. HAProxy treats 0 as drain.

Costs requests nothing: the numbers are those that each process writes once a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable

from ...connections.health import WISHES
from ...core.named_tuple import NamedTuple

# Without a turn of its event loop for this long, the state of a process is unknown. As in `aserve status` (features/control/ask.py).
SILENT_SECONDS = 5.0
# The load of a host without a free thread, in percent of an idle host's. Guess.
FULL_PERCENT = 10
# The weight of the latest second in the moving average: the wait of requests is a momentary value. Guess: after two seconds the old
# value counts half.
NEW_SHARE = 0.3

UNKNOWN = -1.0  # the weight of a host that does not serve; the average begins anew when it does

_WORDS = {why: word for word, why in WISHES.items()}


class Reading(NamedTuple):
    """The last report of one serving process."""

    threads_busy: float  # a mean of the last seconds (busy.py)
    wait_seconds: float  # for how long the first request that waits for a thread has waited, or none of them was begun
    silent_seconds: float  # since its event loop last turned


class Host(NamedTuple):
    """All serving processes of the host."""

    readings: Sequence[Reading]
    process_count: int  # wanted
    threads: int  # of each process, for the app
    max_wait_seconds: float  # --healthcheck-max-wait; 0: any time
    is_draining: bool = False  # since it is about to end
    why_unready: str = ""  # as the program has said; "": it is ready


class Balance:
    """The verdicts on one host."""

    def __init__(self, look: Callable[[], Host]) -> None:
        self._look = look
        self._percent = UNKNOWN  # a moving average of the last seconds

    def on_second(self) -> None:
        """Update the average once a second."""
        self._note(self._look())

    def why_dead(self) -> str:
        """Return why a restart would help; "": it would not, since an event loop turns."""
        return _why_dead(self._look())

    def why_unready(self) -> str:
        """Return why requests should go to other hosts; "": this host is ready."""
        host = self._look()
        if host.is_draining:
            return "draining"
        why = host.why_unready or _why_dead(host)
        if why:
            return why
        # The shortest wait of all processes: the kernel gives that process more connections than the others.
        waited = min(reading.wait_seconds for reading in _turning(host))
        if not host.max_wait_seconds or waited <= host.max_wait_seconds:
            return ""
        return f"requests wait for {waited:.1f} s, more than --healthcheck-max-wait ({host.max_wait_seconds:g} s)"

    def agent_line(self) -> bytes:
        """
        Return the line for HAProxy's agent check.

        Each line has the whole state, with "up" to end a "stopped" and "ready" to end a "maint": HAProxy keeps earlier words.
        """
        host = self._look()
        if self._percent == UNKNOWN:
            self._note(host)
        if host.is_draining:
            return b"up drain\n"  # clients with a session here still reach it
        word = _WORDS.get(host.why_unready, "drain")  # unready by the program, with its own reason
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
    """Return the present weight. A worker process that is missing, or hangs, counts as no free thread."""
    turning, threads = _turning(host), host.threads or 1  # 0: the event loop runs the app
    if not turning:
        return UNKNOWN
    free = sum(max(threads - reading.threads_busy, 0) for reading in turning)
    share = min(free / (threads * max(host.process_count, 1)), 1.0)  # more while a worker is being replaced
    waited = sum(reading.wait_seconds for reading in turning) / len(turning)
    return (FULL_PERCENT + (100 - FULL_PERCENT) * share) / (1.0 + waited)
