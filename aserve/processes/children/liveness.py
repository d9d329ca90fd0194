"""Whether a worker's event loop turns, as seen from outside.

Owns:     how long a loop has stood still, and the verdict.
Thread:   the supervisor's only one; pure: no look at a clock, nor at a process.
Not here: the tick itself (pages.py), CPU time (core/footprint.py), the log lines (watch.py), replacing (fleet/decide.py).

The supervisor does not ask workers, and kills no worker for a slow answer: a worker's loop counts seconds in shared memory, and the supervisor
reads the counter. The supervisor's clock stands still during a stop (poller.py), so that after the suspension of a machine, or a stop of all
processes, no worker counts as hung. A stopped worker (SIGSTOP) does not hang.
"""

from __future__ import annotations

import enum

from ...core.footprint import Activity
from ...core.named_tuple import NamedTuple

# A loop computes if the CPU time has at least this share of the still time. Guess.
BUSY_SHARE = 0.5


class Verdict(enum.Enum):
    """The action to take."""

    WELL = "nothing"
    WARN = "say so once, with all stacks"
    REPLACE = "start a successor; said at each look until it turns again"
    RECOVERED = "say that it turns again; after a warning only"


class Finding(NamedTuple):
    """A verdict, and the text for the log."""

    verdict: Verdict
    text: str = ""


class Pulse:
    """A worker's event loop, from the moment of `ready`."""

    def __init__(self, warning_seconds: float, timeout_seconds: float) -> None:
        """Warn after the first time, replace after the second; 0: never."""
        self._warning_seconds = warning_seconds
        self._timeout_seconds = timeout_seconds
        self.tick = -1  # at the last look
        self._looked_at = 0.0
        self._cpu_seconds: float | None = None  # when the loop stopped turning
        self._still_seconds = 0.0
        self._is_warned = False

    def look(self, tick: int, activity: Activity | None, now: float) -> Finding:
        """
        Return the verdict, once a second.

        `tick`: the loop's counter; `now`: by the supervisor's clock; `activity`: None if not known, or if the loop has turned.
        """
        passed = now - self._looked_at
        self._looked_at = now
        if tick != self.tick:
            stood, was_warned = self._still_seconds, self._is_warned
            self.tick, self._still_seconds, self._is_warned = tick, 0.0, False
            self._cpu_seconds = activity.cpu_seconds if activity is not None else None
            if was_warned:
                return Finding(Verdict.RECOVERED, f"its event loop turns again, after {stood:.0f} s")
            return Finding(Verdict.WELL)
        if self._cpu_seconds is None and activity is not None:
            self._cpu_seconds = activity.cpu_seconds
        if activity is None or not activity.is_stopped:
            self._still_seconds += passed
        if self._timeout_seconds and self._still_seconds >= self._timeout_seconds:
            self._is_warned = True  # this logs the stacks, too
            return Finding(Verdict.REPLACE, self._describe(activity))
        if self._warning_seconds and self._still_seconds >= self._warning_seconds and not self._is_warned:
            self._is_warned = True
            return Finding(Verdict.WARN, self._describe(activity))
        return Finding(Verdict.WELL)

    def _describe(self, activity: Activity | None) -> str:
        text = f"its event loop has not turned for {self._still_seconds:.0f} s"
        if activity is None or self._cpu_seconds is None:
            return text
        used = activity.cpu_seconds - self._cpu_seconds
        doing = {"D": "waits for a disk or a network file system"}.get(activity.state, "waits for something")
        if used >= BUSY_SHARE * self._still_seconds:
            doing = "computes, or code in C holds the GIL"
        return f"{text}, and the process has used {used:.1f} s of CPU time meanwhile: it {doing}"
