"""A process forked by the supervisor, before the work and around the work: a worker, a mold or a trial.

Owns:     signals left to the supervisor; ending with the supervisor during the import of the app; reporting why the process cannot serve.
Thread:   the main thread.
Not here: the work (worker.py, mold.py), messages (channel.py), handlers after a fork by the app (core/forks.py).
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import logging
import os
import select
import signal
from collections.abc import Iterator
from typing import Callable

from ...core.errors import FAILED, AserveError, BindError
from ...lifecycle.load_error import LoadError
from ...lifecycle.preconditions import describe_lack
from ...lifecycle.signals import early, write_stacks_at_crash
from ...settings import ConfigError
from .channel import Channel
from .child import STACKS_SIGNAL

logger = logging.getLogger("aserve")

# Sent to the whole group of processes by a terminal, or to all by an operator: the supervisor handles these signals.
LEFT_TO_SUPERVISOR = (
    signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR2, signal.SIGTTIN, signal.SIGTTOU,
)  # fmt: skip
LEFT_AT_START = (*LEFT_TO_SUPERVISOR, signal.SIGUSR1)  # as long as there is no log to be reopened
# Small enough for a message (channel.py).
MAX_WHY_LENGTH = 500
MAX_TRACEBACK_LENGTH = 10_000


def prepare_process() -> None:
    """Leave signals to the supervisor, and let the rest write stacks."""
    write_stacks_at_crash()
    faulthandler.register(STACKS_SIGNAL)  # and this signal writes stacks, too, for a hang
    # By a handler, present in a worker from the fork on: programs of the app would inherit an ignored signal. Processes forked by the app
    # get the earlier handlers back (core/forks.py).
    early.begin(LEFT_AT_START)


def tell_failure(channel: Channel, run: Callable[[], int]) -> int:
    """Run the work; return the exit status, or report to the supervisor why the work failed."""
    try:
        return run()
    except LoadError as fault:
        return say_failed(channel, str(fault), fault.app_traceback)
    except (AserveError, BindError, ConfigError) as fault:
        return say_failed(channel, str(fault))
    except ImportError as fault:  # of a module of ours, or of Python's, unreadable for --user
        return say_failed(channel, f"it cannot import what aserve needs: {fault}")
    except Exception as fault:
        lack = describe_lack(fault) if isinstance(fault, OSError) else None
        if lack is not None:
            return say_failed(channel, lack)
        logger.exception("internal error; please report this as a bug in aserve")
        return say_failed(channel, f"{type(fault).__name__}: {fault}")


def say_failed(channel: Channel, why: str, app_traceback: str = "") -> int:
    """Report to the supervisor why this process cannot serve; return its exit status."""
    message = {"say": "failed", "why": why[:MAX_WHY_LENGTH], "traceback": app_traceback[-MAX_TRACEBACK_LENGTH:]}
    channel.send(message)
    return FAILED


@contextlib.contextmanager
def dying_with(channel: Channel) -> Iterator[None]:
    """
    End this process at once if the supervisor dies meanwhile, or sends a message: a hanging import reads no channel.

    fcntl(2), "Managing signals": the kernel sends the signal on any event at the far end. The only message of the
    supervisor to a starting worker is the order to end.
    """
    flags = fcntl.fcntl(channel, fcntl.F_GETFL)
    with contextlib.suppress(OSError):  # a kernel without the signal; then a hang is not ended
        fcntl.fcntl(channel, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(channel, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(channel, fcntl.F_SETFL, flags | os.O_ASYNC)
    if select.select([channel], [], [], 0)[0]:  # the event was before
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        yield
    finally:
        fcntl.fcntl(channel, fcntl.F_SETFL, flags)
