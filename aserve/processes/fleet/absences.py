"""Missing workers, and reasons.

Owns:     Absences: by slot, since when no worker serves there.
Thread:   the supervisor's only one; pure.
Not here: starts (supervisor.py).
"""

from __future__ import annotations

import time

from ...core.local_time import local_time
from ...core.named_tuple import NamedTuple


class Absence(NamedTuple):
    """A slot without a ready worker."""

    since: float  # Unix time
    why: str


class Absences(dict[int, Absence]):
    """The slots without a ready worker that need a ready worker; the caller takes a slot out when that is over."""

    def begin(self, slot: int, why: str) -> None:
        """Record that the slot has no ready worker, and why."""
        earlier = self.get(slot)
        self[slot] = Absence(earlier.since if earlier else time.time(), why)

    def describe(self, size: int) -> str:
        """Return how many are missing, since when, and why: "1 of 4 workers is missing since 03:12:05, because ..."."""
        since, why = min(self.values())
        count = len(self)
        is_ = "is" if count == 1 else "are"
        when = time.strftime("%Y-%m-%d %H:%M:%S", local_time(since))
        return f"{count} of {size} workers {is_} missing since {when}, because {why}"
