"""The lost requests of a dead worker.

Owns:     Losses: reporting lost requests and the end of each worker to extensions, counting.
Thread:   the supervisor's only one.
Not here: a worker's running requests (../connections/in_flight.py), lines in the access log (../features/access_log), the log lines of an end
          (acts.py).

The clients of a dead worker have lost their requests. The supervisor reports the losses, in each place where the worker would have.
"""

from __future__ import annotations

from typing import Callable

from ...core.guard import guard
from ...core.tally import LOST, Tally
from ...extension import Life, LifeContext, Lost
from .child import Child, State

OnLife = Callable[[Life, LifeContext], None]  # calls extensions


class Losses:
    """The losses of all workers of a supervisor."""

    def __init__(self, add_lost: Callable[[int, int], None], tally: Tally, on_life: OnLife) -> None:
        """`add_lost(slot, count)` adds lost requests to a slot's."""
        self._add_lost, self._tally, self._on_life = add_lost, tally, on_life

    def on_end(self, child: Child, before: State, is_oom: bool) -> None:
        """Report the requests of an ended worker, unless the worker has reported them, before a hang and the kill."""
        context = LifeContext(child.plan, lost=Lost(child.slot, child.pid, child.was_at))
        if child.was_at and not child.has_told:
            guard(self._on_life, Life.DIED, context)
            self._add_lost(child.slot, len(child.was_at))
            reason = "oom" if is_oom else "killed" if before is State.KILLED else "crash"
            self._tally.count(LOST, f'reason="{reason}"', len(child.was_at))
        guard(self._on_life, Life.REAPED, context)  # a bug of an extension must not keep the worker from being replaced
