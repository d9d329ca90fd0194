"""A mold: imports the app once, and forks workers with the imported app (--preload).

Owns:     from the fork to the exit status: importing the app, a check of opened threads and files, warming up, forking when the
          supervisor asks; giving the worker a state of its own afterwards.
Thread:   the main thread; there is no second thread, and no event loop.
Not here: when there is a mold, and for which code (fleet/decide.py); the worker itself (worker.py).

```
  supervisor        the mold                a process for a moment        worker
     |  "fork", with the channel's other end
     |----------------->|  fork
     |                  |------------------------->|  fork
     |                  |                          |------------------------->|
     |                  |<-------------- it ends --|                          |  now a child of the supervisor's
     |<--------------------------------------------------------- "begun" -----|  (PR_SET_CHILD_SUBREAPER)
```

An app with threads, or sockets, cannot be shared in this way (opened.py). The mold reports the threads and sockets, by name, and ends; then
each worker imports the app.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import gc
import logging
import os
import select
import signal
from collections.abc import Sequence
from typing import Any, Callable

from ...core import forks
from ...core.memory_file import map_memory_file
from ...lifecycle.preconditions import describe_lack
from ...lifecycle.signals import early
from ...server.running import loop_factory
from ...wsgi import WSGIApp
from ..children.channel import Channel, Message
from ..children.forked import dying_with, prepare_process, say_failed, tell_failure
from ..children.role import Role
from ..children.signal_pipe import block_signals
from .opened import Fds, Opened, find_opened, list_fds
from .warming import warm_up
from .worker import Load, serve_as

logger = logging.getLogger("aserve")

NO_PROC = (
    "--preload: there is no /proc, so it is not known whether libraries in C have started threads, which no worker would have; "
    "mount it, or leave --preload out, if workers hang"
)
MAX_NAMES_LENGTH = 1000  # fits into a message (channel.py)

Enter = Callable[[Role], object]  # makes this process, with the imported app, a worker


def run_mold(role: Role, load: Load, enter: Enter) -> int:
    """Be the mold until the supervisor ends the mold, or has died; return the exit status: in a worker, the worker's."""
    prepare_process()
    return tell_failure(role.channel, Mold(role, load, enter).run)


class Mold:
    """An app, imported once."""

    def __init__(self, role: Role, load: Load, enter: Enter) -> None:
        self._role = role
        self._load = load
        self._enter = enter
        self._earlier: dict[signal.Signals, Any] = {}  # handlers

    def run(self) -> int:
        """Import and warm up the app, then fork whenever the supervisor asks."""
        with dying_with(self._role.channel):
            before = list_fds()
            loop_factory(self._role.plan.config.loop)  # imports the app for all workers
            app = self._load()
            opened = _look(before)
            when = "at import"
            if not opened.unfit and self._role.plan.config.warm_up:
                warm_up(app, self._role.plan.config, self._role.listeners, self._role.is_new)
                opened, when = _look(before), "at import or --warm-up"
        if opened.unfit:
            self._role.channel.send({"say": "unfit", "why": f"{when}: {', '.join(opened.unfit)[:MAX_NAMES_LENGTH]}"})
            return 0
        if opened.shared:
            logger.info("opened %s, and shared by all workers: %s", when, ", ".join(opened.shared))
        if opened.threads_in_c is None:
            logger.warning(NO_PROC)
        elif opened.threads_in_c:
            text = "threads of libraries in C, %s: %s; workers have those that their library starts anew after a fork"
            logger.info(text, when, ", ".join(opened.threads_in_c))
        if hasattr(gc, "freeze"):  # not on PyPy
            gc.freeze()  # the objects stay in every worker: no collector need touch the objects, nor the kernel copy the pages
        self._role.channel.send({"say": "ready"})
        return self._fork_at_word(app)

    # Forking

    def _fork_at_word(self, app: WSGIApp) -> int:
        self._earlier = forks.disown_all_handlers()  # or each fork would restore the earlier handlers
        poll = select.poll()
        poll.register(self._role.channel, select.POLLIN)
        while True:
            poll.poll()
            try:
                received = self._role.channel.receive()
            except BlockingIOError:
                continue
            if received is None or received[0]["do"] == "drain":
                return 0
            role = self._fork(*received)
            if role is not None:
                return serve_as(role, functools.partial(self._become, role, app))

    def _become(self, worker: Role, app: WSGIApp) -> WSGIApp:
        self._enter(worker)
        return app

    def _fork(self, message: Message, fds: Sequence[int]) -> Role | None:
        """Fork a worker as the supervisor's child; return None, and in the worker the role."""
        channel, memory = Channel.inherit(fds[0]), fds[1]
        role = None
        with block_signals():
            forks.flush_output()
            try:
                if _fork_twice():
                    role = self._begin(message, channel, memory)
            except OSError as exc:
                say_failed(channel, f"it could not be forked: {describe_lack(exc) or exc.strerror or exc}")
            if role is None:
                channel.close()
            os.close(memory)
        return role

    def _begin(self, message: Message, channel: Channel, memory: int) -> Role:
        """In the worker: report the beginning; set up a state of the worker's own."""
        role, page = self._role, message["page"]
        assert role.pages is not None
        role.channel.close()
        channel.send({"say": "begun"})
        early.came.clear()  # for the mold: systemd may send SIGTERM to all processes
        forks.own_handlers(self._earlier, are_first=True)
        return role._replace(
            slot=message["slot"], generation=message["generation"], channel=channel, page=role.pages.page(page),
            load_board=role.pages.new_board(page), in_flight=map_memory_file(memory),
            page_number=page,
        )  # fmt: skip


def _look(before: Fds) -> Opened:
    """Return the threads and files opened and kept by the app."""
    gc.collect()  # PyPy closes here files without a reference
    return find_opened(before)


def _fork_twice() -> bool:
    """
    Fork twice, with the process between ending, so that the new process becomes the supervisor's child; return whether this is the new process.

    Raises:
        OSError: there are too many processes.
    """
    pid = os.fork()
    if pid:
        status = 0
        with contextlib.suppress(ChildProcessError):  # the app ignores SIGCHLD
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status:
            raise OSError(status, os.strerror(status))
        return False
    try:
        is_new = os.fork() == 0
    except OSError as exc:
        os._exit(exc.errno or errno.EAGAIN)
    if not is_new:
        os._exit(0)
    return True
