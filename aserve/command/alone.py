"""The control socket of a process without a supervisor.

Owns:     control_of: the socket beside one server on an event loop.
Thread:   event loop only.
Not here: the socket (lifecycle/control.py), the questions and their answers (processes/monitoring/questions.py), the content of a status (lifecycle/status.py,
          lifecycle/lone.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from selectors import EVENT_READ, EVENT_WRITE
from typing import Callable

from ..connections.monitoring.stacks import describe_stacks
from ..core import forks
from ..core.growth import SAMPLE_SECONDS
from ..lifecycle.control import Caller, Message, Watch, open_control
from ..lifecycle.lone import Lone
from ..processes.monitoring.questions import answers_of, tell_stacks
from ..server.server import Server


@contextlib.contextmanager
def control_of(server: Server, path: str, level: int | None = None) -> Iterator[None]:
    """
    Answer questions about a server on the running event loop; see open_control.

    Raises:
        BindError: see Control.
    """
    loop, lone = asyncio.get_running_loop(), Lone(server._inner)
    lone.statuses.counted = lambda: server._inner.ask("counted") or ({}, {})
    answers = answers_of(lone.statuses.describe_with_warnings, _tell_stacks, server.set_unready)
    control = open_control(path, _watch_on(loop), answers, loop.call_later, level)
    if control is None:
        yield
        return
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


def _tell_stacks(caller: Caller, message: Message) -> None:
    tell_stacks(caller, 0, os.getpid(), describe_stacks())
    caller.end()
