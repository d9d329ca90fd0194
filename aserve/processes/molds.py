"""Where workers are forked from: here, or from a mold that has imported the app (--preload).

Owns:     Molds: which mold there is for which plan, the wish for another, what its words and its end mean.
Thread:   the supervisor's only one; `fork` returns in the child, too.
Not here: what a mold does (mold.py), when a worker begins (supervisor.py), what may be done with any child (children.py).

A mold belongs to a plan: a reload begins with a mold for the new one, and only when the new code serves, that of before ends. One
that dies by itself is made anew at once, while workers serve on, so that it is there when one of them must be replaced.
"""

from __future__ import annotations

import errno
import logging
from typing import Callable, Protocol

from .._cparsers import lib
from .channel import Channel, Message
from .child import MOLD, Child, State
from .children import Children
from .plan import Plan

logger = logging.getLogger("aserve")


class FailStart(Protocol):
    """The supervisor's answer to what could not start."""

    def __call__(self, slot: int, plan: Plan, who: str, why: str, app_traceback: str = "") -> None:
        """Try again later, or undo a reload, or give up."""


class Molds:
    """One for each plan that asks for it: one, or two during a reload."""

    def __init__(
        self,
        children: Children,
        is_unproven: Callable[[Plan], bool],
        fail_start: FailStart,
        delay: Callable[[Child], float],
    ) -> None:
        self._children = children
        self._is_unproven = is_unproven  # see Rollout
        self._fail_start = fail_start
        self._delay = delay  # lets a slot wait for its next child; says for how long
        self._unfit: list[Plan] = []  # whose app cannot be shared
        # By what a mold says.
        self.by_word: dict[str, Callable[[Child, Message, list[int]], None]] = {
            "ready": self._on_ready,
            "failed": Child.on_failed,
            "unfit": self._on_unfit,
        }

    def is_due(self, plan: Plan) -> bool:
        """Whether a mold is to be started for this plan. Where one was killed, what is to follow is known when it has ended."""
        return self._is_asked_for(plan) and not self._find(plan, State.STARTING, State.READY, State.KILLED)

    def can_fork(self, plan: Plan) -> bool:
        """Whether a worker can begin for this plan now."""
        return not self._is_asked_for(plan) or bool(self._find(plan, State.READY))

    def fork(self, slot: int, plan: Plan) -> tuple[Child, Channel | None]:
        """
        Start a child for a slot, which may be MOLD; return it, and in the child itself, if it is forked here, its channel.

        Raises:
            OSError: that cannot be.
        """
        if slot == MOLD:
            if lib.subreaper_begin() != 0:
                raise OSError(
                    errno.ENOSYS, "a mold's workers cannot become the supervisor's on this system; leave out --preload"
                )
        elif self._is_asked_for(plan):
            return self._children.have_forked(slot, plan, self._find(plan, State.READY)[0]), None
        return self._children.fork(slot, plan)

    def end(self, *states: State, but: Plan | None = None) -> None:
        """End those in one of these states; not that of one plan."""
        for mold in self._children.find(MOLD, *states):
            if mold.plan is not but:
                self._children.drain(mold, is_replaced=True)

    def on_end(self, mold: Child, before: State, how: str) -> None:
        """Note that a mold has ended: unless it was told to, another is due."""
        if before is State.KILLED and mold.failure and mold.killed_in is not None:
            before = mold.killed_in
        if before is State.STARTING or (before is State.READY and self._is_unproven(mold.plan)):
            until = "it was ready" if before is State.STARTING else "a worker served"
            why = mold.failure or f"it {how} before {until}, without a word"
            self._fail_start(MOLD, mold.plan, str(mold), why, mold.app_traceback)
        elif before is State.READY:
            seconds, served = self._delay(mold), mold.served_seconds
            logger.warning(
                "%s has ended after %.0f s: it %s; another is made in %g s, and workers go on",
                mold,
                served,
                how,
                seconds,
            )

    def _is_asked_for(self, plan: Plan) -> bool:
        return plan.config.preload and not any(plan is unfit for unfit in self._unfit)

    def _find(self, plan: Plan, *states: State) -> list[Child]:
        return [mold for mold in self._children.find(MOLD, *states) if mold.plan is plan]

    # Words

    def _on_ready(self, mold: Child, message: Message, fds: list[int]) -> None:
        if self._children.admit(mold):
            logger.info("%s is ready, after %.1f s", mold, mold.ready_at - mold.began_at)

    def _on_unfit(self, mold: Child, message: Message, fds: list[int]) -> None:
        """The app cannot be shared: each worker imports it."""
        if mold.state is not State.STARTING:
            return
        in_use = [plan for plan in self._unfit if any(child.plan is plan for child in self._children)]
        self._unfit = [*in_use, mold.plan]
        logger.warning(
            "--preload: each worker imports the app by itself, as the app has opened what processes cannot share, %s; "
            "open it in a function with @aserve.post_fork",
            message["why"],
        )
        self._children.drain(mold, is_replaced=True)
