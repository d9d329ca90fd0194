"""Starts more workers while all are busy, and ends them when they are not needed: --max-workers.

Owns:     ScalingSettings; Scaling, the extension; Scale, its part in a supervisor, which decides once a second.
Thread:   the supervisor's only one.
Spec:     as uWSGI's `cheaper` with its algorithm "spare": uWSGI 2.0.31, core/cheaper.c.
Not here: starting and ending a worker (processes/crew.py), which SIGTTIN and SIGTTOU ask for; uWSGI's options (moving/uwsgi.py).

The numbers are those that each worker writes into its page once a second; a request costs nothing.
"""

from __future__ import annotations

import logging
import os
import signal
from typing import TYPE_CHECKING, Any, cast

from ..core.page import Field
from ..extension import Extension
from ..lifecycle.supervision import Supervision, SupervisorContext
from ..settings import MAX_WORKERS, ConfigError, EngineSettings, Needs, row
from ..settings.kinds import count

if TYPE_CHECKING:
    from ..lifecycle.status import Observed

logger = logging.getLogger("aserve")

FULL_SECONDS = 3  # all threads are busy for so long before a worker is added, as in uWSGI
CALM_SECONDS = 60  # no request waits for so long before a worker ends. Guess: a busy minute has pauses.
NEXT_SECONDS = 10  # between the ends of two; the mean of busy threads is of ten seconds
# Of the threads that would be left, at most this share was busy lately; otherwise the worker would soon be back. Guess.
SPARE_SHARE = 0.7


class ScalingSettings(EngineSettings):
    """The setting of this feature."""

    # fmt: off
    max_workers: int = row(
        0, "Processes", "--max-workers", count(0, MAX_WORKERS),
        "most workers: while all threads are busy, one is added each second, and when they are not needed they end again, down to --workers; 0: "
        "--workers is their number; see docs/workers.md",
        "Workers that are always there answer at once, and threads are the cheaper reserve; this is for apps whose processes have one thread, and "
        "which are rarely busy.",
        needs=Needs(("workers",), "needs workers, the number of those that are always there"),
        fixed=True,
    )
    # fmt: on


class Scaling(Extension[ScalingSettings]):
    """--max-workers."""

    switches = ("max_workers",)

    def __init__(self, config: Any) -> None:
        """
        Check the numbers.

        Raises:
            ConfigError: --workers is auto, or larger; there are no threads.
        """
        super().__init__(config)
        if config.workers == "auto" or config.workers > config.max_workers:
            raise ConfigError(
                f"max-workers ({config.max_workers}) with workers {config.workers}: name a number of workers that is not above it"
            )
        if not config.threads:
            raise ConfigError(
                f"max-workers ({config.max_workers}) counts busy threads, and there are none with threads 0"
            )

    def supervise(self, context: SupervisorContext) -> Supervision:
        """See Extension."""
        return Scale(context.observed)


class Scale(Supervision):
    """Sends SIGTTIN and SIGTTOU to its own process."""

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._full_seconds = 0  # for how long all threads have been busy
        self._calm_seconds = 0  # for how long none was lacking

    def on_second(self) -> None:
        """See Supervision; while a worker starts or ends, the number stays."""
        observed, config = self._observed, cast("ScalingSettings", self._observed.config)
        size, pages = observed.process_count, [one.page for one in observed.processes() if one.state == "ready"]
        is_full = sum(page[Field.THREADS_BUSY] for page in pages) >= size * config.threads
        self._full_seconds = self._full_seconds + 1 if is_full else 0
        self._calm_seconds = 0 if any(page[Field.WAITING] for page in pages) else self._calm_seconds + 1
        if observed.is_draining or len(pages) != size:
            return
        if self._full_seconds > FULL_SECONDS and size < config.max_workers:
            self._resize(signal.SIGTTIN, f"all threads are busy; one worker more than {size} starts")
        elif self._calm_seconds > CALM_SECONDS and size > int(config.workers or 1):
            busy = sum(page[Field.THREADS_BUSY_LATELY] for page in pages) / 1000
            if busy <= SPARE_SHARE * (size - 1) * config.threads:
                self._calm_seconds -= NEXT_SECONDS
                self._resize(signal.SIGTTOU, f"{busy:.1f} threads of {size} workers are busy; one worker ends")

    def _resize(self, number: signal.Signals, why: str) -> None:
        logger.info(why)
        os.kill(os.getpid(), number)
