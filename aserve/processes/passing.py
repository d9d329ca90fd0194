"""Connections on their way between workers: what this one gives, by way of the supervisor, and what it gets.

Owns:     Passing: idle connections, by the supervisor's order; requests that wait for a thread, while another worker has a free one; all
          of both while this worker drains and others go on; taking over what comes from others.
Thread:   event loop only.
Not here: when idle ones are given (levelling.py, giving.py), taking a connection out of a server, and into one (connections/detaching.py),
          which worker gets it (takers.py).

A request goes with its connection, and is passed on by the worker itself, which sees on the load board who has a free thread: within
BUSY_POLL_SECONDS (workers/executor.py), and at no cost to requests that need not wait. A worker whose event loop hangs, or that is stopped, also
looks free there: so each gets one request at a time, until its word on the board has changed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Callable, Protocol

from ..connections.detaching import Detached
from ..connections.limit import is_short_of_descriptors
from ..connections.load_board import LoadBoard
from ..core.memory_file import open_memory_file
from ..workers.executor import RELIEVED_SECONDS
from .channel import Message
from .giving import Giving

# How often one that drains looks for connections that can go on in another by now. Guess.
HAND_OVER_SECONDS = 0.05
# How often a connection may be returned, by workers that drain or are full, before its request is refused. Guess.
MAX_RETURNS = 3
# For how long no request is given after one that came back, as the workers that seemed to have a free thread got none; and none to a worker whose
# word on the board stays as it was when it got one. Guess.
REST_SECONDS = 1.0
# For how long after a request was given the next look is soon, though no thread is free: quick requests free theirs at once. Guess.
SOON_SECONDS = 0.02


class Serving(Protocol):
    """The server of this worker."""

    def detach_idle(self, count: int | None) -> list[Detached]:
        """See Server.detach_idle."""

    def detach_waiting(self, count: int | None) -> list[Detached]:
        """See Server.detach_waiting."""

    async def adopt(self, detached: Detached, is_own: bool = False) -> bool:
        """See Server.adopt."""

    async def refuse(self, detached: Detached) -> bool:
        """See Server.refuse."""


class Passing:
    """The connections that one worker gives and gets."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        server: Serving,
        board: LoadBoard | None,
        place: int,
        say: Callable[[Message, Sequence[int]], None],
    ) -> None:
        """`place`: the number of this worker's page; `say` sends a message with descriptors to the supervisor."""
        self._loop, self._server, self._board, self._place, self._say = loop, server, board, place, say
        self._giving = Giving(loop, self._give_idle)
        self._adopting: set[asyncio.Task[None]] = set()
        self._idle_to = 0  # the page of the worker that gets idle ones; 0: the supervisor decides
        self._rests_until = self._soon_until = 0.0
        self._given: dict[
            int, tuple[int, float]
        ] = {}  # by places that got a request: the word at that moment, and when

    # Giving

    def begin(self, message: Message, fds: list[int]) -> None:
        """Give idle connections, by the supervisor's order, to the worker that it names, if any."""
        self._idle_to = message.get("to", 0)
        self._giving.begin(message["count"])

    def stop(self) -> None:
        """Give no more by an earlier order."""
        self._idle_to = 0
        self._giving.stop()

    def relieve(self) -> bool:
        """Give waiting requests to workers with free threads; return whether to look again soon. Called while no thread is free here."""
        now = self._loop.time()
        if self._board is None or now < self._rests_until or is_short_of_descriptors():
            return False
        for place, word in self._board.free_threads():
            if self._has_not_begun(place, word, now):
                continue
            found = self._server.detach_waiting(1)
            self._give(found, place + 1)
            if found:
                self._given[place] = word, now
                self._soon_until = now + SOON_SECONDS
        return now < self._soon_until

    def _has_not_begun(self, place: int, word: int, now: float) -> bool:
        """Whether nothing has changed at a worker since it got a request, for REST_SECONDS."""
        before, given_at = self._given.get(place, (-1, 0.0))
        return word == before and now < given_at + REST_SECONDS

    def give_all(self) -> None:
        """Give all connections from now on, as soon as they can go: this worker drains, and others go on. It serves requests that wait itself, too."""
        soon = self.relieve()
        self._loop.call_later(RELIEVED_SECONDS if soon else HAND_OVER_SECONDS, self.give_all)
        self._give_idle(None)

    def _give_idle(self, count: int | None) -> int:
        """Give that number at most, None: all; return how many they were."""
        found = self._server.detach_idle(count)
        self._give(found, self._idle_to)
        return len(found)

    def _give(self, found: list[Detached], to: int = 0) -> None:
        """Send these to the supervisor, which passes them on to the worker with the page `to`; 0: it decides."""
        for each in found:
            self._pass(each, {"to": to, "giver": self._place, "returns": 0})

    def _pass(self, detached: Detached, way: Message) -> None:
        fds = [detached.fd]
        if detached.request is not None:
            try:
                fds.append(_put_down(detached.request))
            except OSError:  # no descriptor is left
                self._adopt_soon(detached, {**way, "returns": MAX_RETURNS})
                return
        self._say({"say": "idle", "listener": detached.listener_index, "peer": detached.peer, **way}, fds)

    # Getting

    def on_adopt(self, message: Message, fds: list[int]) -> None:
        """Take over a connection."""
        giver = message.get("giver")  # an older supervisor's worker does not say
        if giver == self._place:
            self._rests_until = self._loop.time() + REST_SECONDS
        request = _take_up(fds[1]) if len(fds) > 1 else None
        way = {"to": 0, "giver": giver, "returns": message.get("returns", 0)}
        self._adopt_soon(Detached(fds[0], message["listener"], message["peer"], request), way)

    def _adopt_soon(self, detached: Detached, way: Message) -> None:
        """Take over a connection, in a task; a request of this worker's own comes back, even if it drains."""
        task = self._loop.create_task(self._adopt(detached, way))
        self._adopting.add(task)  # a loop holds its tasks only weakly
        task.add_done_callback(self._adopting.discard)

    async def _adopt(self, detached: Detached, way: Message) -> None:
        if await self._server.adopt(detached, is_own=way["giver"] == self._place and detached.request is not None):
            return
        if way["returns"] < MAX_RETURNS:
            self._pass(detached, {**way, "returns": way["returns"] + 1})
        elif not await self._server.refuse(detached):
            os.close(detached.fd)


def _put_down(octets: bytes) -> int:
    """Return a descriptor of a file with these octets: a message has no room for them (channel.py)."""
    fd = open_memory_file("aserve-request")
    with open(fd, "wb", buffering=0, closefd=False) as file:
        rest = memoryview(octets)
        while rest:
            rest = rest[file.write(rest) :]
    return fd


def _take_up(fd: int) -> bytes:
    """Return all octets of such a file, and close it."""
    with open(fd, "rb") as file:
        file.seek(0)
        return file.read()
