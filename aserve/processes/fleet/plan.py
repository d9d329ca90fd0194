"""The plan of a worker: the settings, and the app's name.

Owns:     Plan; the unchangeable settings of a running supervisor; the number of wanted workers.
Thread:   any; pure.
Not here: reading settings (command/plans.py), the rows (settings/table.py).
"""

from __future__ import annotations

from typing import Any, Callable

from ...core.named_tuple import NamedTuple
from ...settings import EngineSettings
from .resources import Limits, choose_workers, read_limits


class Plan(NamedTuple):
    """The settings and the app of a worker, or of all workers."""

    config: EngineSettings
    spec: str | None  # of the app; None: the demo
    # The parts of a foreign server's settings without a counterpart in ours (compat/moving/); not kept over an upgrade.
    origin: Any = None
    # The settings named by the sources; the rest have defaults, or are implied. None: not known, as after an upgrade.
    given: frozenset[str] | None = None
    is_at_terminal: bool = False  # standard output, when the sources were read
    # All sources, to be compared (command/plans.py). None: not known, or some settings are kept from before.
    sources: Any = None

    def keep_fixed(self, before: Plan) -> tuple[Plan, list[str]]:
        """
        Return this plan with the unchangeable settings of `before`, and implied settings; and the flags of unchangeable settings that differ.

        Raises:
            ConfigError: the settings contradict the settings of `before`.
        """
        fixed = [row for row in self.config.rows() if row.fixed]
        kept = {row.name: getattr(before.config, row.name) for row in fixed}
        flags = [row.flag for row in fixed if getattr(self.config, row.name) != kept[row.name]]
        if not flags:
            return self, []
        if self.given is None:
            return self._replace(config=self.config.replace(**kept)), flags
        values = {**{name: getattr(self.config, name) for name in self.given}, **kept}
        return self._replace(config=self.config.of_given(values, self.is_at_terminal), sources=None), flags

    @property
    def limits(self) -> Limits | None:
        """The machine's present limits, if the number of workers rests on limits; None: the settings have a number."""
        return read_limits() if self.config.workers == "auto" else None

    @property
    def workers(self) -> tuple[int, str]:
        """How many workers there are to be, and why, before the size of a worker is known."""
        return self.count_workers()

    def count_workers(self, worker_bytes: int = 0, limits: Limits | None = None) -> tuple[int, str]:
        """Return the number of wanted workers, and why; `worker_bytes`: a worker's memory, 0: not known; `limits`: the present limits."""
        limits = limits or self.limits
        if limits is None:
            return int(self.config.workers or 1), f"--workers {self.config.workers}"
        choice = choose_workers(limits, worker_bytes)
        return choice.workers, f"--workers auto: {choice.why}"


# Reads the settings anew; returns the settings of the plan before, if no source has changed. Raises ConfigError: a source has a mistake.
Read = Callable[[Plan], Plan]
