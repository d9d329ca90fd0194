"""Workers of another version, after an upgrade in place whose new code has another form (inheritance.py).

Owns:     OldWorkers: their channels, until they end; what they pass to each other by way of the supervisor, until one has taken it; the one order
          that they get.
Thread:   the supervisor's only one.
Not here: when they get it (upgrade.py), which new worker gets a connection (placement.py, transfers.py).

They serve on until new workers do, and then drain. All the while they send waiting requests to each other, and at the end connections at rest. What
can be read in each form since 8 is where a message's descriptors belong:

| a message with                     | goes to                                                                                          |
|---|---|
| one descriptor: a connection       | a new worker; without one back to its sender                                                     |
| two, and a file: a request         | the worker where it waited, which takes it also while it drains                                  |
| two, of a request that comes back  | the same, with the next second; without strangers to a new worker                                |

What one of them had not taken when it ended goes to another in the same way. None says in each form that it has taken something: so the supervisor looks
once a second, and closes its copy up to a second later than the worker.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import select
import selectors
import socket
from collections.abc import Iterable, Mapping
from typing import Any, Callable

from ...core.descriptors import close_all
from ..children.channel import Channel, Message
from ..transfers.request_file import is_read
from ..transfers.transfers import MAX_KEPT, IdleTransfer, Transfer, transfer_of

logger = logging.getLogger("aserve")

Give = Callable[[Message, list[int]], bool]  # a connection at rest to a new worker; whether it could go
Keep = Callable[[Message, list[int]], None]  # a request until a new worker may take it

# What a new worker reads in the message of a connection, and in that of a request.
OF_CONNECTION = frozenset({"listener", "peer"})
OF_REQUEST = OF_CONNECTION | {"giver", "until", "to"}


class OldWorkers:
    """Workers whose messages this version cannot all read; it can send them one order: to finish and end."""

    def __init__(
        self,
        fds: Iterable[int] = (),
        farewell: Any = None,
        children: Iterable[Mapping[str, Any]] = (),
        transfers: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        """`fds`: their channels; `children`: the channel, pid and page of each, as far as known; `transfers`: what the previous code kept, see Transfers."""
        by_fd = {fd: Channel(open_socket(fd)) for fd in fds}
        known = [(by_fd[each["channel"]], each) for each in children if each["channel"] in by_fd]
        self._channels = list(by_fd.values())
        self._farewell: Message = farewell
        self._is_dismissed = False
        self._homes = {each["page"]: channel for channel, each in known if "page" in each}
        self._waiting: list[Transfer] = []
        self._sent: list[tuple[Channel, Transfer]] = []  # not taken yet
        self._selector: selectors.BaseSelector
        self._give_to_new: Give
        self._keep_for_new: Keep
        by_pid = {each.get("pid"): channel for channel, each in known}
        for each in transfers:
            transfer, getter = transfer_of(each["message"], each["fds"]), by_pid.get(each["pid"])
            if getter is None:
                self._waiting.append(transfer)
            else:
                self._sent.append((getter, transfer))

    def __len__(self) -> int:
        return len(self._channels)

    def listen(self, selector: selectors.BaseSelector, give: Give, keep: Keep) -> None:
        """Read their messages from now on."""
        self._selector, self._give_to_new, self._keep_for_new = selector, give, keep
        for channel in self._channels:
            selector.register(channel, selectors.EVENT_READ, functools.partial(self._read, channel))
        self.on_second()

    def on_second(self) -> None:
        """Give again what came back, and let go of what was taken."""
        for channel in self._channels:
            channel.flush()
        self._let_go(lambda getter, transfer: _is_taken(transfer))
        waiting, self._waiting = self._waiting, []
        for transfer in waiting:
            self._give(transfer)

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
        for transfer in self._waiting:
            close_all(transfer.fds)
        self._let_go(lambda getter, transfer: True)
        self._channels, self._waiting = [], []

    # Messages

    def _read(self, channel: Channel) -> None:
        with contextlib.suppress(BlockingIOError):
            while (received := channel.receive()) is not None:
                self._on_message(channel, *received)
            self._on_end(channel)

    def _on_message(self, sender: Channel, message: Message, fds: list[int]) -> None:
        if not fds:
            return
        status = os.fstat(fds[0])
        self._let_go(lambda getter, transfer: os.path.samestat(os.fstat(transfer.fds[0]), status))  # it comes back
        transfer = transfer_of(message, fds)
        if len(fds) > 1 and (message.get("number") or message.get("returns")):
            self._waiting.append(transfer)
        else:
            self._give(transfer, sender)

    def _on_end(self, channel: Channel) -> None:
        """Give to others what a worker that has ended had not taken."""
        self._selector.unregister(channel)
        self._channels.remove(channel)
        self._homes = {place: each for place, each in self._homes.items() if each is not channel}
        channel.close()
        self._let_go(lambda getter, transfer: _is_taken(transfer))
        left = [transfer for getter, transfer in self._sent if getter is channel]
        self._sent = [each for each in self._sent if each[0] is not channel]
        for transfer in left:
            self._give(transfer)

    # Giving

    def _give(self, transfer: Transfer, sender: Channel | None = None) -> None:
        """Give a request to the worker where it waited, and a connection at rest to a new worker; without that to the sender, or another."""
        message, is_rest = transfer.message, isinstance(transfer, IdleTransfer)
        if is_rest and message.keys() >= OF_CONNECTION and self._give_to_new(message, transfer.fds):
            return
        first = sender if is_rest else self._homes.get(message.get("giver", 0), sender)
        getter = next((each for each in (first, *self._channels) if each is not None and _is_open(each)), None)
        if getter is not None:
            self._send(transfer, getter)
        elif not is_rest and message.keys() >= OF_REQUEST:
            self._keep_for_new(message, transfer.fds)
        else:
            close_all(transfer.fds)
            if not is_rest:
                logger.warning(
                    "a request that was on its way between workers of another version is lost: they have ended"
                )

    def _send(self, transfer: Transfer, getter: Channel) -> None:
        transfer.set_out()
        is_kept = len(self._sent) < MAX_KEPT
        if is_kept:
            self._sent.append((getter, transfer))
        number = {} if isinstance(transfer, IdleTransfer) else {"number": 0}
        getter.send({**number, **transfer.message, "do": "adopt"}, transfer.fds, is_kept)

    def _let_go(self, which: Callable[[Channel, Transfer], bool]) -> None:
        """Close what is kept of these."""
        gone = [each for each in self._sent if which(*each)]
        self._sent = [each for each in self._sent if each not in gone]
        for _, transfer in gone:
            close_all(transfer.fds)


def _is_taken(transfer: Transfer) -> bool:
    """Whether a worker has taken it, or begun to: not each form marks what was begun (request_file.py), but in each the worker has read it before."""
    return transfer.is_taken if isinstance(transfer, IdleTransfer) else is_read(transfer.fds[1])


def open_socket(fd: int) -> socket.socket:
    """Return a socket that stays non-blocking all the time: PyPy would make it blocking, for all processes that share it."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(0.0)
    try:
        return socket.socket(fileno=fd)
    finally:
        socket.setdefaulttimeout(before)


def _is_open(channel: Channel) -> bool:
    poll = select.poll()
    poll.register(channel, 0)  # a closed end is reported without being asked for
    return not poll.poll(0)
