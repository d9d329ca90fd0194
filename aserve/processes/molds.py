"""Forking workers: from the supervisor, or from a mold that has imported the app (--preload).

Owns:     Molds: forking, by a mold or here; a mold's messages.
Thread:   the supervisor's only one; `fork` returns in the child, too.
Not here: what a mold does (mold.py), when there is one, and for which plan (fleet.py), what may be done with any child (children.py).

A mold belongs to a plan: a reload begins with a mold for the new one, and only when the new code serves, that of before ends. One
that dies by itself is made anew after a pause (backoff.py), while workers serve on, so that it is there when one of them must be replaced.
"""

from __future__ import annotations

import errno
import logging
from typing import Callable

from .._cparsers import lib
from .channel import Channel, Message
from .child import MOLD, Child, State
from .children import Children
from .fleet import Action, Do, Fleet
from .plan import Plan

logger = logging.getLogger("aserve")


class Molds:
    """Forks workers, and handles the messages of molds."""

    def __init__(self, fleet: Fleet, children: Children) -> None:
        self._fleet = fleet
        self._children = children
        self.by_do = {Do.AVOID: self._avoid}
        # By the word of a mold's message.
        self.by_word: dict[str, Callable[[Child, Message, list[int]], None]] = {
            "ready": self._on_ready,
            "failed": Child.on_failed,
            "unfit": self._on_unfit,
        }

    def fork(self, slot: int, plan: Plan, mold: Child | None) -> tuple[Child, Channel | None]:
        """
        Start a child for a slot, which may be MOLD, by this mold or here; return it, and in the child itself, if it is forked here, its channel.

        Raises:
            OSError: that cannot be.
        """
        if slot == MOLD and lib.subreaper_begin() != 0:
            raise OSError(
                errno.ENOSYS, "a mold's workers cannot become the supervisor's on this system; leave out --preload"
            )
        if mold is not None:
            return self._children.have_forked(slot, plan, mold), None
        return self._children.fork(slot, plan)

    def _avoid(self, action: Action) -> None:
        text = "%s: %s: workers import the app by themselves, until it forks, or there is another"
        logger.warning(text, action.worker, action.why)

    # Words

    def _on_ready(self, mold: Child, message: Message, fds: list[int]) -> None:
        if self._children.admit(mold):
            logger.info("%s is ready, after %.1f s", mold, mold.ready_at - mold.began_at)

    def _on_unfit(self, mold: Child, message: Message, fds: list[int]) -> None:
        """Let each worker import the app, as it cannot be shared."""
        if mold.state is not State.STARTING:
            return
        in_use = [plan for plan in self._fleet.unfit if any(child.plan is plan for child in self._children)]
        self._fleet.unfit = [*in_use, mold.plan]
        logger.warning(
            "--preload: each worker imports the app by itself, as the app has opened what processes cannot share, %s; "
            "open it in a function with @aserve.post_fork",
            message["why"],
        )
        self._children.drain(mold, is_replaced=True)
