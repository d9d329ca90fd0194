"""Workers of another version, after an upgrade in place whose new code has another form (inheritance.py).

Owns:     Strangers: their channels, until they end; what they pass to each other by way of the supervisor; the one order that they get.
Thread:   the supervisor's only one.
Not here: when they get it (upgrade.py), which new worker gets a connection (takers.py, moves.py).

They serve on until new workers do, and then drain. All the while they send waiting requests to each other, and at the end connections at rest. What
can be read in each form since 8 is where a message's descriptors belong:

| a message with                     | goes to                                                                                          |
|---|---|
| one descriptor: a connection       | a new worker; without one back to its sender                                                     |
| two, and a file: a request         | the worker where it waited, which takes it also while it drains                                  |
| two, of a request that comes back  | the same, with the next second; without strangers to a new worker                                |
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import select
import selectors
import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable

from .channel import Channel, Message
from .request_file import put_request_back

logger = logging.getLogger("aserve")

Request = tuple[Message, list[int]]
Give = Callable[[Message, list[int]], bool]  # to a new worker; whether it could go

# What a new worker reads in the message of a connection, and in that of a request.
OF_CONNECTION = frozenset({"listener", "peer"})
OF_REQUEST = OF_CONNECTION | {"giver", "until", "to"}


class Strangers:
    """Workers whose messages this version cannot all read; it can send them one order: to finish and end."""

    def __init__(
        self,
        fds: Iterable[int] = (),
        farewell: Any = None,
        places: Mapping[int, int] | None = None,
        moves: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        """`fds`: their channels; `places`: the pages of their workers, by channel; `moves`: requests that the previous code kept."""
        self._channels = [Channel(open_socket(fd)) for fd in fds]
        self._farewell: Message = farewell
        self._is_dismissed = False
        self._homes = {place: each for each in self._channels for place in [(places or {}).get(each.fileno())]}
        self._waiting: list[Request] = []
        self._selector: selectors.BaseSelector
        self._give_connection: Give
        self._give_request: Give
        for move in moves:
            if _lives(move["pid"]):  # it has descriptors of its own
                _close_all(move["fds"])
            else:
                self._waiting.append((move["message"], move["fds"]))

    def __len__(self) -> int:
        return len(self._channels)

    def listen(self, selector: selectors.BaseSelector, give_connection: Give, give_request: Give) -> None:
        """Read their messages from now on."""
        self._selector, self._give_connection, self._give_request = selector, give_connection, give_request
        for channel in self._channels:
            selector.register(channel, selectors.EVENT_READ, functools.partial(self._read, channel))
        self.on_second()

    def on_second(self) -> None:
        """Give again what came back."""
        for channel in self._channels:
            channel.flush()
        waiting, self._waiting = self._waiting, []
        for message, fds in waiting:
            self._give(message, fds)

    def dismiss(self) -> None:
        """Let them finish running requests and end; only once: other workers serve now."""
        if not self._is_dismissed:
            self._is_dismissed = True
            for channel in self._channels:
                channel.send(self._farewell)

    def close(self) -> None:
        """Close all descriptors; in a forked child, too."""
        for channel in self._channels:
            channel.close()  # to them this looks like the supervisor's death
        for _, fds in self._waiting:
            _close_all(fds)
        self._channels, self._waiting = [], []

    def _read(self, channel: Channel) -> None:
        with contextlib.suppress(BlockingIOError):
            while (received := channel.receive()) is not None:
                self._on_message(channel, *received)
            self._selector.unregister(channel)  # it has ended
            self._channels.remove(channel)
            self._homes = {place: each for place, each in self._homes.items() if each is not channel}
            channel.close()

    def _on_message(self, sender: Channel, message: Message, fds: list[int]) -> None:
        if len(fds) > 1:
            if message.get("number") or message.get("returns"):  # it comes back
                self._waiting.append((message, fds))
            else:
                self._give(message, fds, sender)
        elif fds and not (message.keys() >= OF_CONNECTION and self._give_connection(message, fds)):
            sender.send({**message, "do": "adopt"}, fds)

    def _give(self, message: Message, fds: list[int], sender: Channel | None = None) -> None:
        put_request_back(fds[1])  # it may have been read already
        first = self._homes.get(message.get("giver", 0), sender)
        home = next((each for each in (first, *self._channels) if each is not None and _is_open(each)), None)
        if home is not None:
            home.send({"number": 0, **message, "do": "adopt"}, fds)
        elif not (message.keys() >= OF_REQUEST and self._give_request(message, fds)):
            _close_all(fds)
            logger.warning("a request that was on its way between workers of another version is lost: they have ended")


def open_socket(fd: int) -> socket.socket:
    """Return a socket that stays non-blocking all the time: PyPy would make it blocking, for all processes that share it."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(0.0)
    try:
        return socket.socket(fileno=fd)
    finally:
        socket.setdefaulttimeout(before)


def _lives(pid: int) -> bool:
    """Whether this child runs; 0: there is none."""
    try:
        os.kill(pid or os.getpid(), 0)
    except OSError:
        return False
    return bool(pid)


def _is_open(channel: Channel) -> bool:
    poll = select.poll()
    poll.register(channel, 0)  # a closed end is reported without being asked for
    return not poll.poll(0)


def _close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)
