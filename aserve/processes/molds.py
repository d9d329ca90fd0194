"""The supervisor's side of molds, which have imported the app, and fork workers (--preload).

Owns:     Molds: what a system needs for them; a mold's messages.
Thread:   the supervisor's only one.
Not here: what a mold does (mold.py), when there is one, and for which plan (fleet/decide.py), forking, by a mold or not (supervisor.py).

A mold belongs to a plan: a reload begins with a mold for the new one, and only when the new code serves, the earlier mold ends. One
that dies by itself is made anew after a pause (backoff.py), while workers serve on, so that it is there when one of them must be replaced.
"""

from __future__ import annotations

import errno
import logging
from typing import Callable

from .._cparsers import lib
from .children.channel import Message
from .children.child import Child, State
from .children.children import Children
from .fleet.fleet import Fleet

logger = logging.getLogger("aserve")


class Molds:
    """Handles the messages of molds."""

    def __init__(self, fleet: Fleet, children: Children) -> None:
        self._fleet = fleet
        self._children = children
        # By the word of a mold's message.
        self.by_word: dict[str, Callable[[Child, Message, list[int]], None]] = {
            "ready": self._on_ready,
            "failed": Child.on_failed,
            "unfit": self._on_unfit,
        }

    def prepare(self) -> None:
        """
        Let the workers of a mold become the supervisor's.

        Raises:
            OSError: this system cannot do that.
        """
        if lib.subreaper_begin() != 0:
            raise OSError(
                errno.ENOSYS, "a mold's workers cannot become the supervisor's on this system; leave out --preload"
            )

    # Words

    def _on_ready(self, mold: Child, message: Message, fds: list[int]) -> None:
        if self._children.admit(mold):
            logger.info("%s is ready, after %.1f s", mold, mold.ready_at - mold.began_at)

    def _on_unfit(self, mold: Child, message: Message, fds: list[int]) -> None:
        """Let each worker import the app, as it cannot be shared."""
        if mold.state is not State.STARTING:
            return
        self._fleet.on_unfit(mold)
        logger.warning(
            "--preload: each worker imports the app by itself, as the app has opened what processes cannot share, %s; "
            "open it in a function with @aserve.post_fork",
            message["why"],
        )
        self._children.drain(mold, is_replaced=True)
