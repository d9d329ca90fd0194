"""What the supervisor counts: workers replaced, reloads, ends for want of memory, requests that are lost with them.

Owns:     Tally: those counters, and why a slot's worker is about to be replaced.
Thread:   the supervisor's only one; pure.
Not here: what workers count (metrics/counting.py), and what of that is kept (metrics/totals.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..metrics.table import RESTARTS, SUPERVISED

RELOAD = "reload"  # why a worker is replaced, unless there is another reason


class Tally:
    """Counters by name and label."""

    def __init__(self) -> None:
        self._counts = {(metric.name, cell): 0 for metric in SUPERVISED for cell in metric.cells}
        self._reasons: dict[int, str] = {}  # by slot

    def count(self, name: str, cell: str = "", by: int = 1) -> None:
        """Count one, or so many; `cell` is its label, as in the table."""
        self._counts[name, cell] += by

    def expect_restart(self, slot: int, reason: str) -> None:
        """Note why the worker of a slot is to be replaced, until it is."""
        self._reasons[slot] = reason

    def count_restart(self, slot: int, reason: str = "") -> None:
        """Count a worker that served, and is replaced: for this reason, or what was expected, or a reload."""
        expected = self._reasons.pop(slot, RELOAD)
        self.count(RESTARTS, f'reason="{reason or expected}"')

    def __iter__(self) -> Iterator[tuple[str, str, int]]:
        """Yield all of them: name, cell, number."""
        return ((name, cell, count) for (name, cell), count in self._counts.items())

    def describe(self) -> dict[str, int]:
        """Return them by names, for `restore`."""
        return {f"{name} {cell}": count for (name, cell), count in self._counts.items()}

    def restore(self, state: Mapping[str, int]) -> None:
        """Go on with those of before; what has no place any more is dropped."""
        for name, cell in self._counts:
            self._counts[name, cell] += state.get(f"{name} {cell}", 0)
