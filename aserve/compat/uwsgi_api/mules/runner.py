"""The process of a mule: it runs its program, or waits for messages.

Owns:     run_mule: the program, the messages, and the end.
Thread:   the main thread of a process of its own, which runs the app's functions, too.
Not here: starting and ending the process (processes/programs/attached.py), importing the app (../jobs.py), the queues (post.py).

SIGTERM ends a mule that waits for a message at once, and one that is at a message behind that message. A program that asks for no messages is ended
where it is, by SystemExit.
"""

from __future__ import annotations

import logging
import runpy
import signal
from typing import Any, Callable

from ....core.forks import disown_handlers, end_if_forked, forked, own_handlers
from ....lifecycle.loading import load_module
from ....lifecycle.signals import kept_handlers
from ....lifecycle.termination import Termination
from . import functions
from .post import MessageQueue, Post, wait_for
from .settings import WAITS

logger = logging.getLogger("aserve")

Hook = Callable[[bytes], Any]


class Mule:
    """The process of one mule."""

    def __init__(self, number: int, post: Post) -> None:
        self._number, self._post = number, post
        self.termination = Termination()
        self._is_at_message = False  # it has a message that it may not have finished

    def on_term(self, signum: int, frame: object) -> None:
        """End: now, or behind the message."""
        self.termination.request()
        if not self._is_at_message:
            raise SystemExit(0)

    def wait(self, queues: list[MessageQueue], size: int, seconds: float) -> bytes:
        """
        Return the next message; b"": `seconds` have passed.

        Raises:
            SystemExit: the process is to end.
        """
        self._is_at_message = True  # from now on, or a signal could lose the message that comes
        message = None if self.termination.is_requested else wait_for(queues, size, seconds, self.termination)
        self._is_at_message = bool(message)
        if self.termination.is_requested and not message:
            raise SystemExit(0)
        return message or b""

    def run(self, program: str, hook: Callable[[], Hook | None]) -> None:
        """
        Run the program, or pass messages to the app's function.

        Raises:
            SystemExit: the process is to end.
        """
        if program == WAITS:
            while True:
                self._pass_on(self.wait(self._post.inbox(self._number), functions.MESSAGE_BYTES, -1), hook())
        elif program.endswith(".py"):
            runpy.run_path(program, run_name="__main__")
        else:
            module, _, name = program.partition(":")
            getattr(load_module(module), name)()

    def _pass_on(self, message: bytes, hook: Hook | None) -> None:
        if hook is None:
            logger.error(
                "a message of %d octets is dropped: the app has no function for it (uwsgi.mule_msg_hook, or @mulefunc)",
                len(message),
            )
            return
        count = len(forked)
        try:
            with kept_handlers("the message of a mule"):
                hook(message)
                end_if_forked(count)
        except BaseException as exc:
            end_if_forked(count, exc)
            if isinstance(exc, (KeyboardInterrupt, SystemExit)):
                raise
            logger.exception("the function for a message of a mule has failed")


def run_mule(number: int, post: Post, program: str, begin: Callable[[], None], hook: Callable[[], Hook | None]) -> int:
    """
    Run a mule until SIGTERM, or the end of its program; return the exit status.

    `begin` calls the app's functions for the start of a process, of which one may be the mule's program (@mule).
    """
    mule = Mule(number, post)
    functions.wait_by(mule.wait)
    mule.termination.wake_by_signals()
    own_handlers({signal.SIGTERM: signal.signal(signal.SIGTERM, mule.on_term)})
    logger.info("mule %d begins%s", number, "" if program == WAITS else f": {program}")
    try:
        begin()
        mule.run(program, hook)
    except SystemExit as end:
        logger.info("stopped")
        return end.code if isinstance(end.code, int) else 0
    finally:
        disown_handlers()
        mule.termination.close()
    logger.error("the program of mule %d has ended: %s", number, program)
    return 1
