"""The supervisor's counters: workers replaced, reloads, out-of-memory kills, requests lost with a worker.

Owns:     the names of these counters, and the labels of each; Tally: the values, and the reason for the coming replacement of a slot's worker.
Thread:   the supervisor's only one; pure.
Not here: help texts (features/metrics/table.py), the workers' counters (features/metrics/counting.py), kept totals (features/metrics/totals.py).

The counters run with and without metrics: the next code of an upgrade, maybe with metrics, goes on with the values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

RESTARTS, START_FAILURES = "aserve_worker_restarts_total", "aserve_worker_start_failures_total"
RELOADS, OOM_KILLS, LOST = "aserve_reloads_total", "aserve_oom_kills_total", "aserve_requests_lost_total"
ATTACHED_RESTARTS, CRON_RUNS = "aserve_attached_restarts_total", "aserve_cron_runs_total"


def _labelled(label: str, *values: str) -> tuple[str, ...]:
    return tuple(f'{label}="{value}"' for value in values)


# By name: the labels of each cell, in Prometheus's form.
CELLS: dict[str, tuple[str, ...]] = {
    RESTARTS: _labelled("reason", "crash", "recycle", "reload", "hung", "asked"),
    START_FAILURES: ("",),
    RELOADS: _labelled("result", "done", "refused"),
    OOM_KILLS: ("",),
    LOST: _labelled("reason", "crash", "oom", "killed"),
    ATTACHED_RESTARTS: _labelled("reason", "ended", "reload", "recycle"),
    CRON_RUNS: _labelled("result", "done", "failed", "skipped"),
}
RELOAD = "reload"  # why a worker is replaced, unless there is another reason


class Tally:
    """Counters by name and label."""

    def __init__(self) -> None:
        self._counts = {(name, cell): 0 for name, cells in CELLS.items() for cell in cells}
        self._reasons: dict[int, str] = {}  # by slot

    def count(self, name: str, cell: str = "", by: int = 1) -> None:
        """Add `by` to a counter; `cell` is a label of CELLS."""
        self._counts[name, cell] += by

    def expect_restart(self, slot: int, reason: str) -> None:
        """Record why the worker of a slot is about to be replaced."""
        self._reasons[slot] = reason

    def count_restart(self, slot: int, reason: str = "") -> None:
        """Count the replacement of a serving worker: for this reason, or the expected one, or a reload."""
        expected = self._reasons.pop(slot, RELOAD)
        self.count(RESTARTS, f'reason="{reason or expected}"')

    def __iter__(self) -> Iterator[tuple[str, str, int]]:
        """Yield all counters: name, cell, value."""
        return ((name, cell, count) for (name, cell), count in self._counts.items())

    def describe(self) -> dict[str, int]:
        """Return all counters by name and cell, for `restore`."""
        return {f"{name} {cell}": count for (name, cell), count in self._counts.items()}

    def restore(self, state: Mapping[str, int]) -> None:
        """Add the counts of the previous process; drop unknown names."""
        for name, cell in self._counts:
            self._counts[name, cell] += state.get(f"{name} {cell}", 0)
