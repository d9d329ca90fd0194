"""Connections on the way between workers: this worker's gifts, by way of the supervisor, and gifts to this worker.

Owns:     Passing: idle connections, by the supervisor's order; requests that wait for a thread, while a different worker has a free thread;
          both while this worker drains and workers remain; taking over gifts.
Thread:   event loop only.
Not here: when idle connections are given (levelling.py, idle_connections.py), the exit from a server, and the entry (connections/drain/detaching.py),
          the choice of the getter (placement.py, transfers.py).

A request goes with its connection. The worker itself passes the request on, by a look at the load board for a free thread: within
BUSY_POLL_SECONDS (workers/executor.py), and at no cost to requests without a wait. A worker that hangs, or is stopped, also looks free on
the board: so each worker gets a single request, until the worker's word on the board has changed. A returned request waits here for a second,
or until a thread is free.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Coroutine, Sequence
from typing import Any, Callable, Protocol

from ...connections.drain.detaching import Detached
from ...connections.limit import is_short_of_descriptors
from ...connections.load_board import LoadBoard
from ...workers.executor import RELIEVED_SECONDS
from ..children.channel import Message
from .idle_connections import Shedding
from .request_file import RequestFile, mark_begun, take_request

# How often a draining worker looks for connections able to go on in a different worker by now. Guess.
HAND_OVER_SECONDS = 0.05
# How often an idle connection may be returned, by draining or full workers, before the connection is closed. Guess.
MAX_RETURNS = 3
# For how long no request is given after a return, as the workers with a seemingly free thread had no free thread; and no request to a worker
# with an unchanged word on the board since the last gift. Guess.
REST_SECONDS = 1.0
# For how long after a request was given the next look is soon, though no thread is free: quick requests free theirs at once. Guess.
SOON_SECONDS = 0.02
# The fields of a request's message, wherever the message goes. `until`: the time of the refusal, if no worker takes the request
# (time.monotonic()). `home`: the pid of the first giver, from the supervisor.
CARRIED = ("listener", "peer", "giver", "home", "until", "number")


class PassingServer(Protocol):
    """The server of this worker."""

    def detach_idle(self, count: int | None) -> list[Detached]:
        """See Server.detach_idle."""

    def detach_waiting(self, count: int | None, before: Callable[[bytes], None]) -> list[Detached]:
        """See Server.detach_waiting."""

    async def adopt(self, detached: Detached, is_own: bool = ..., when_taken: Callable[[], None] = ...) -> bool:
        """See Server.adopt."""

    async def refuse(self, detached: Detached, when_taken: Callable[[], None] = ...) -> bool:
        """See Server.refuse."""


class Passing:
    """The gifts of a worker, and the gifts to the worker."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        server: PassingServer,
        board: LoadBoard | None,
        place: int,
        say: Callable[[Message, Sequence[int]], None],
        limit_seconds: float,
        is_heard: Callable[[], bool],
    ) -> None:
        """
        `place`: the number of this worker's page; `say` sends a message with descriptors to the supervisor.

        `limit_seconds`: after this time a request without a worker is refused. `is_heard`: whether the supervisor reads our messages.
        """
        self._loop, self._server, self._board, self._place, self._say = loop, server, board, place, say
        self._limit_seconds, self._is_heard = limit_seconds, is_heard
        self._shedding = Shedding(loop, self._give_idle)
        self._adopting: set[asyncio.Task[None]] = set()
        self._idle_to = 0  # the page of the getter of idle connections; 0: the supervisor decides
        self._rests_until = self._soon_until = 0.0
        # By places with a gift: the word at the moment of the gift, and the time.
        self._given: dict[int, tuple[int, float]] = {}

    # Giving connections at rest

    def begin(self, message: Message, fds: list[int]) -> None:
        """Give idle connections, by the supervisor's order, to the named worker, if any."""
        self._idle_to = message.get("to", 0)
        self._shedding.begin(message["count"])

    def stop(self) -> None:
        """Give no more by an earlier order."""
        self._idle_to = 0
        self._shedding.stop()

    def give_all(self) -> None:
        """Give all connections from now on, as soon as possible: this worker drains, and workers remain. Meanwhile this worker serves waiting requests, too."""
        soon = self.relieve()
        self._loop.call_later(RELIEVED_SECONDS if soon else HAND_OVER_SECONDS, self.give_all)
        self._give_idle(None)

    def _give_idle(self, count: int | None) -> int:
        """Give so many at most, None: all; return the number."""
        found = self._server.detach_idle(count)
        for each in found:
            self._say_idle(each, to=self._idle_to, returns=0)
        return len(found)

    def _say_idle(self, detached: Detached, **more: int) -> None:
        """Send a connection to the supervisor, for the worker with the page `to`; 0: the supervisor decides."""
        said = {"listener": detached.listener_index, "peer": detached.peer, **more}
        self._say({"say": "idle", **said}, [detached.fd])

    # Giving requests

    def relieve(self) -> bool:
        """Give waiting requests to workers with free threads; return whether to look again soon. Called while no thread is free here."""
        now = self._loop.time()
        if self._board is None or now < self._rests_until or not self._is_heard() or is_short_of_descriptors():
            return False
        for place, word in self._board.free_threads():
            if not self._has_not_begun(place, word, now) and self._give_request(place + 1):
                self._given[place] = word, now
                self._soon_until = now + SOON_SECONDS
        return now < self._soon_until

    def _has_not_begun(self, place: int, word: int, now: float) -> bool:
        """Whether a worker's word is the same as at the last gift, for REST_SECONDS."""
        before, given_at = self._given.get(place, (-1, 0.0))
        return word == before and now < given_at + REST_SECONDS

    def _give_request(self, to: int) -> bool:
        """Give the request with the longest wait to the worker with this page; return whether a request could go."""
        file = RequestFile()
        found = self._server.detach_waiting(1, file.write)
        for each in found:
            until = time.monotonic() + self._limit_seconds
            said = {"listener": each.listener_index, "peer": each.peer, "giver": self._place, "until": until}
            self._say({"say": "request", "to": to, **said}, [each.fd, file.detach()])
        file.close()
        return bool(found)

    # Getting

    def on_adopt(self, message: Message, fds: list[int]) -> None:
        """Take over a connection, in a task."""
        adopt: Callable[..., Coroutine[Any, Any, None]] = self._adopt_request if len(fds) > 1 else self._adopt_idle
        task = self._loop.create_task(adopt(message, *fds))
        self._adopting.add(task)  # a loop holds tasks only weakly
        task.add_done_callback(self._adopting.discard)

    def on_dropped(self, message: Message) -> None:
        """Say that a connection has not come: no room here for the descriptors."""
        if "number" in message:
            self._say({"say": "missed", "number": message["number"]}, ())

    async def _adopt_idle(self, message: Message, fd: int) -> None:
        detached = Detached(fd, message["listener"], message["peer"])
        kept = {"number": message["number"]} if "number" in message else {}  # else no copy is kept
        returns = message.get("returns", 0)

        def say_taken() -> None:
            if kept:
                self._say({"say": "taken", **kept}, ())

        if await self._server.adopt(detached, when_taken=say_taken):
            return
        if returns < MAX_RETURNS:
            self._say_idle(detached, to=0, returns=returns + 1, **kept)
        else:
            os.close(fd)
            say_taken()

    async def _adopt_request(self, message: Message, fd: int, file: int) -> None:
        """Take over a request; a request of this worker's own comes back, even in a drain."""
        message = {"number": 0, **message}  # without a number: from the supervisor of a foreign version
        taken = {"say": "taken", "number": message["number"]}
        octets = take_request(file)
        if not octets:  # a different worker has the request
            os.close(fd)
            os.close(file)
            self._say(taken, ())
            return

        def say_taken() -> None:
            mark_begun(file)
            self._say(taken, ())

        # The page may have been another's before; a supervisor of another version names no pid.
        is_own = message["giver"] == self._place and message.get("home", os.getpid()) == os.getpid()
        if is_own:
            self._rests_until = self._loop.time() + REST_SECONDS
        detached = Detached(fd, message["listener"], message["peer"], octets)
        if await self._server.adopt(detached, is_own, say_taken):
            os.close(file)
        elif time.monotonic() < message["until"]:
            self._say(
                {"say": "request", "to": 0, **{name: message[name] for name in CARRIED if name in message}}, [fd, file]
            )
        else:
            if not await self._server.refuse(detached, say_taken):  # the client has left
                os.close(fd)
                say_taken()
            os.close(file)
