"""What is lost with a worker that dies: the requests that it was at.

Owns:     Losses: that extensions know of them, their place among what is counted, the ends of those that were told of as slow.
Thread:   the supervisor's only one.
Not here: what a worker was at (../connections/in_flight.py), their lines in the access log (../features/access_log), who else is told of its end
          (ends.py).

What a worker was at, its clients have lost. It can say so no more, so this does, in each place where it would have.
"""

from __future__ import annotations

from typing import Callable

from ..core.tally import LOST, Tally
from ..extension import Life, LifeContext, Lost
from .child import Child, State
from .status import Status

OnLife = Callable[[Life, LifeContext], None]  # lets extensions know


class Losses:
    """Those of one supervisor's workers."""

    def __init__(self, add_lost: Callable[[int, int], None], tally: Tally, status: Status, on_life: OnLife) -> None:
        """`add_lost` counts so many requests among those of a slot."""
        self._add_lost, self._tally, self._status, self._on_life = add_lost, tally, status, on_life

    def on_end(self, child: Child, before: State, is_oom: bool) -> None:
        """A worker has ended; if it has told of its requests itself, before something kept it until it was killed, they are not told again."""
        self._status.on_end(child)
        if not child.was_at or child.has_told:
            return
        self._on_life(Life.DIED, LifeContext(child.plan, lost=Lost(child.slot, child.pid, child.was_at)))
        self._add_lost(child.slot, len(child.was_at))
        reason = "oom" if is_oom else "killed" if before is State.KILLED else "crash"
        self._tally.count(LOST, f'reason="{reason}"', len(child.was_at))
