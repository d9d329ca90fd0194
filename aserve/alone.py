"""What a process without a supervisor answers on its control socket.

Owns:     control_of: the socket beside one server on an event loop.
Thread:   event loop only.
Not here: the socket (processes/control.py), the answers of a supervisor (processes/answers.py), what a
          status has (metrics/status.py, lone.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from selectors import EVENT_READ, EVENT_WRITE
from typing import Callable

from .connections.stacks import describe_stacks
from .core import forks
from .metrics.growth import SAMPLE_SECONDS
from .metrics.lone import Lone
from .processes.control import Caller, Control, Message, Watch
from .processes.wishes import tell_balancers
from .server.server import Server

NO_WORKERS = "this server has no supervisor, which does that: start it with --workers"


@contextlib.contextmanager
def control_of(server: Server, path: str) -> Iterator[None]:
    """
    Answer for a server that serves on the running event loop.

    Raises:
        BindError: see Control.
    """
    loop, lone = asyncio.get_running_loop(), Lone(server)
    lone.statuses.counted = server.counted
    answers = {
        "status": lambda caller, _: _tell_status(caller, lone.statuses.describe_with_warnings()),
        "stacks": lambda caller, _: _tell(caller, {"worker": 0, "pid": os.getpid(), "text": describe_stacks()}),
        "reload": lambda caller, _: caller.refuse(NO_WORKERS),
        "recycle": lambda caller, _: caller.refuse(NO_WORKERS),
        "workers": lambda caller, _: caller.refuse(NO_WORKERS),
        "balancers": lambda caller, message: tell_balancers(caller, message, server.set_unready),
    }
    control = Control(path, _watch_on(loop), answers, loop.call_later)
    looking = loop.create_task(_look_at_memory(lone))
    forks.watch(control)
    try:
        yield
    finally:
        looking.cancel()
        forks.unwatch(control)
        control.close()


async def _look_at_memory(lone: Lone) -> None:
    while True:
        await asyncio.sleep(SAMPLE_SECONDS)
        lone.statuses.growths.look(lone.processes())


def _watch_on(loop: asyncio.AbstractEventLoop) -> Watch:
    def watch(fd: int, callback: Callable[[], None], events: int) -> None:
        if events & EVENT_READ:
            loop.add_reader(fd, callback)
        else:
            loop.remove_reader(fd)
        if events & EVENT_WRITE:
            loop.add_writer(fd, callback)
        else:
            loop.remove_writer(fd)

    return watch


def _tell_status(caller: Caller, status: Message) -> None:
    (worker,) = status.pop("workers")
    _tell(caller, status, {"worker": worker})


def _tell(caller: Caller, *messages: Message) -> None:
    for message in messages:
        caller.say(message)
    caller.end()
