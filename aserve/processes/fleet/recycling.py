"""When to recycle a worker: by requests, age or memory.

Owns:     each worker's own limits, jitter included, and the choice of the next worker to be replaced.
Thread:   the supervisor's only one; pure: no look at a clock, nor at a process.
Not here: memory of a process (core/footprint.py), replacing a worker (fleet/decide.py): a successor is ready first, and a single worker is replaced at a time.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from ...core.footprint import Memory
from ...core.named_tuple import NamedTuple
from ...settings import EngineSettings, show_bytes
from .resources import MIB


class Lifespan(NamedTuple):
    """The limits of a worker; 0: no limit."""

    requests: int = 0
    seconds: float = 0.0


class WorkerFacts(NamedTuple):
    """The facts about a serving worker."""

    slot: int
    lifespan: Lifespan  # by `Recycling.new_lifespan`, at the worker's `ready`
    requests: int  # answered, without health checks
    age_seconds: float  # since `ready`
    memory: Memory | None = None  # None: not looked at this time


class Due(NamedTuple):
    """A worker to replace, and why: the value reached, and the setting."""

    slot: int
    why: str
    reason: str = "recycle"  # for counting


class Recycling:
    """The limits of the settings."""

    def __init__(self, config: EngineSettings, chance: random.Random | None = None) -> None:
        self._config = config
        self._chance = chance or random.Random()  # noqa: S311 (no secret)
        self.has_limits = bool(config.max_requests or config.max_lifetime_seconds or self.needs_memory)

    @property
    def needs_memory(self) -> bool:
        """Whether `Worker.memory` is looked at."""
        return bool(self._config.max_rss_bytes or self.needs_shares)

    @property
    def needs_shares(self) -> bool:
        """Whether PSS or USS are looked at, a slow read."""
        return bool(self._config.max_pss_bytes or self._config.max_uss_bytes)

    def new_lifespan(self) -> Lifespan:
        """Draw the limits of a new worker, so that workers of one start do not end together."""
        config, chance = self._config, self._chance
        requests, seconds = config.max_requests, config.max_lifetime_seconds
        return Lifespan(
            requests and requests + chance.randint(0, config.max_requests_jitter),
            seconds and seconds + chance.uniform(0.0, config.max_lifetime_jitter_seconds),
        )

    def due(self, workers: Iterable[WorkerFacts]) -> Due | None:
        """Return the worker furthest beyond a limit; None: all are within the limits."""
        worst, found = 1.0, None
        for worker in workers:
            for value, limit, why in self._values_of(worker):
                if limit and value / limit >= worst:
                    worst, found = value / limit, Due(worker.slot, why)
        return found

    def _values_of(self, worker: WorkerFacts) -> Iterable[tuple[float, float, str]]:
        """Yield each value, the limit, and the text for the log."""
        config, lifespan, memory = self._config, worker.lifespan, worker.memory
        reached = f"it has answered {worker.requests} requests"
        yield (
            worker.requests,
            lifespan.requests,
            f"{reached} (--max-requests {_varied(config.max_requests, lifespan.requests)})",
        )
        reached = f"it has served for {worker.age_seconds:.0f} s"
        yield (
            worker.age_seconds,
            lifespan.seconds,
            f"{reached} (--max-lifetime {_varied(config.max_lifetime_seconds, lifespan.seconds)})",
        )
        if memory is None:
            return
        for name, value, flag, limit in (
            ("RSS", memory.rss_bytes, "--max-rss", config.max_rss_bytes),
            ("PSS", memory.pss_bytes, "--max-pss", config.max_pss_bytes),
            ("USS", memory.uss_bytes, "--max-uss", config.max_uss_bytes),
        ):
            if value is not None:
                yield value, limit, f"its {name} is {value / MIB:.1f} MiB ({flag} {show_bytes(limit)})"


def _varied(setting: float, limit: float) -> str:
    return f"{setting:g}" if setting == limit else f"{setting:g}, with jitter {limit:g}"
