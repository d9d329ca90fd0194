"""Starts more workers while all are busy, and ends workers no longer needed: --max-workers.

Owns:     ScalingSettings; Scaling, the extension; Scale, the part in a supervisor, with a decision once a second; Seen, the workers at one moment.
Thread:   the supervisor's only one.
Spec:     as uWSGI's `cheaper` with the algorithm "spare": uWSGI 2.0.31, core/cheaper.c.
Not here: starting and ending a worker (processes/crew.py); uWSGI's options (compat/moving/uwsgi.py).

The numbers come from each worker's page, written once a second; a request costs nothing. A worker's first numbers come a second after the start of
serving, and until then the worker counts neither as busy nor as idle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, cast

from ..core.named_tuple import NamedTuple
from ..core.page import Field
from ..extension import Extension
from ..lifecycle.supervision import Supervision, SupervisorContext
from ..settings import MAX_WORKERS, ConfigError, EngineSettings, Needs, row
from ..settings.kinds import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..lifecycle.status import Observed

FULL_SECONDS = 3  # all threads are busy for so long before a worker is added, as in uWSGI
# For so long no request waits before a worker ends; a slot is without a process for so long, in all, before we give up on the slot; a number set by
# hand stays for so long. Guess: a busy minute has pauses.
CALM_SECONDS = 60
NEXT_SECONDS = 10  # between the ends of two; the mean of busy threads is of ten seconds
# Of the threads left behind, at most this share was busy lately; otherwise the worker would soon be back. Guess.
SPARE_SHARE = 0.7


class ScalingSettings(EngineSettings):
    """The setting of this feature."""

    # fmt: off
    max_workers: int = row(
        0, "Processes", "--max-workers", count(0, MAX_WORKERS),
        "most workers: while all threads are busy, aserve adds workers in turn, and ends needless workers again, down to "
        "--workers; 0: --workers is their number; see `aserve docs workers`",
        "Permanent workers answer at once, and threads are the cheaper reserve; this is for rarely busy apps with a single "
        "thread in each process.",
        needs=Needs(("workers",), "needs --workers, the number of permanent workers"),
    )
    # fmt: on

    @property
    def is_of_one(self) -> bool:
        """See EngineSettings."""
        return super().is_of_one and self.max_workers <= 1

    def workers_after(self, wanted: int, present: int) -> int:
        """See EngineSettings: added workers stay."""
        return max(wanted, min(present, self.max_workers))


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
        if not config.max_workers:
            return  # a reload may name a number
        if config.workers == "auto" or config.workers > config.max_workers:
            raise ConfigError(
                f"--max-workers ({config.max_workers}) with --workers {config.workers}: name a number of workers that is not above it"
            )
        if not config.threads:
            raise ConfigError(
                f"--max-workers ({config.max_workers}) counts busy threads, and there are none with --threads 0"
            )

    @classmethod
    def is_supervised(cls, config: Any) -> bool:
        """Whether there is a part in a supervisor: always, as a reload may turn the option on."""
        return True

    def supervise(self, context: SupervisorContext) -> Supervision:
        """See Extension."""
        return Scale(context.observed, context.resize)


class Seen(NamedTuple):
    size: int  # the number of workers there should be
    threads: int  # of each
    states: dict[int, list[str]]  # by slot, of the slot's processes
    pages: list[Sequence[int]]  # of ready workers

    @property
    def is_known(self) -> bool:
        """Whether all are ready, and have written their numbers."""
        return len(self.pages) == self.size and all(page[Field.TICKED_AT] for page in self.pages)

    @property
    def is_full(self) -> bool:
        """Whether all threads of all workers are busy."""
        return self.is_known and sum(page[Field.THREADS_BUSY] for page in self.pages) >= self.size * self.threads

    @property
    def is_waiting(self) -> bool:
        """Whether a request waits for a thread."""
        return any(page[Field.WAITING] for page in self.pages)

    @property
    def present(self) -> set[int]:
        """The slots with a process now serving, or to serve."""
        return {slot for slot, states in self.states.items() if {"starting", "ready"}.intersection(states)}

    @property
    def is_starting(self) -> bool:
        """Whether a process starts."""
        return any("starting" in each for each in self.states.values())

    @property
    def busy(self) -> float:
        """How many threads were busy lately."""
        return sum(page[Field.THREADS_BUSY_LATELY] for page in self.pages) / 1000


class Scale(Supervision):
    """Chooses the number of workers."""

    def __init__(self, observed: Observed, resize: Callable[[int, str], None]) -> None:
        self._observed, self._resize = observed, resize
        self._size = 0  # the number of workers as last seen, or set here or by a reload; 0: not seen yet
        self._last_config: ScalingSettings | None = None
        self._held_seconds = 0  # the time for the size to stay
        self._full_seconds = 0  # for how long all threads have been busy
        self._calm_seconds = 0  # for how long none was lacking, up to the end of CALM_SECONDS
        self._known: set[int] = set()  # slots with a process since the change of the number
        self._absent_seconds = 0  # for how long, in all, a slot has had no process since all were ready

    @property
    def _config(self) -> ScalingSettings:
        return cast("ScalingSettings", self._observed.config)

    def on_second(self) -> None:
        """See Supervision."""
        if self._observed.is_draining:
            return
        if not self._config.max_workers:
            # A reload may have turned the option off: end added workers.
            workers = self._config.workers
            if self._size and workers != "auto" and self._observed.process_count > int(workers or 1):
                self._resize(int(workers or 1), f"--workers {workers}")
            self._size = 0
            return
        seen = self._look()
        self._count(seen)
        if self._held_seconds:
            return
        for rule in (self._cut, self._give_up, self._add, self._end):
            found = rule(seen)
            if found is not None:
                self._size, _ = found
                self._resize(*found)
                return

    def _look(self) -> Seen:
        states: dict[int, list[str]] = {}
        processes = self._observed.processes()
        for each in processes:
            states.setdefault(each.slot, []).append(each.state)
        pages = [each.page for each in processes if each.state == "ready"]
        return Seen(self._observed.process_count, self._config.threads, states, pages)

    def _count(self, seen: Seen) -> None:
        """Note for how long the facts have been so."""
        self._held_seconds = max(self._held_seconds - 1, 0)
        if self._size and self._config is not self._last_config:
            self._size = seen.size
        self._last_config = self._config
        if seen.size != self._size:
            self._held_seconds = CALM_SECONDS if self._size else 0  # set by hand
            self._size, self._calm_seconds, self._absent_seconds = seen.size, 0, 0
            self._known.clear()
        if seen.is_known:
            self._full_seconds = self._full_seconds + 1 if seen.is_full else 0
        is_calm = not seen.is_full and not seen.is_waiting and seen.size > int(self._config.workers or 1)
        self._calm_seconds = min(self._calm_seconds, CALM_SECONDS) + 1 if is_calm else 0
        self._known |= seen.present
        is_whole = len(seen.present) >= seen.size
        self._absent_seconds = 0 if is_whole and not seen.is_starting else self._absent_seconds + (not is_whole)

    # Each returns the wanted number of workers, and the reason; None: no change.

    def _cut(self, seen: Seen) -> tuple[int, str] | None:
        most = self._config.max_workers
        return (most, f"--max-workers {most}") if seen.size > most else None

    def _give_up(self, seen: Seen) -> tuple[int, str] | None:
        """A worker that cannot start is tried no more; the next is added in a while, as the cause may have gone."""
        if self._absent_seconds <= CALM_SECONDS or seen.size <= int(self._config.workers or 1):
            return None
        self._held_seconds, self._absent_seconds = CALM_SECONDS, 0
        slots = self._known - seen.present
        return seen.size - 1, f"worker {max(slots)} cannot start" if slots else "a worker cannot start"

    def _add(self, seen: Seen) -> tuple[int, str] | None:
        if not seen.is_full or self._full_seconds <= FULL_SECONDS or seen.size >= self._config.max_workers:
            return None
        self._absent_seconds = 0
        return seen.size + 1, f"all {seen.size} workers are busy" if seen.size > 1 else "the only worker is busy"

    def _end(self, seen: Seen) -> tuple[int, str] | None:
        threads = seen.size * seen.threads
        if self._calm_seconds <= CALM_SECONDS or seen.is_starting or seen.busy > SPARE_SHARE * (threads - seen.threads):
            return None
        self._calm_seconds -= NEXT_SECONDS
        return seen.size - 1, f"{seen.busy:.1f} of {threads} threads are busy"
