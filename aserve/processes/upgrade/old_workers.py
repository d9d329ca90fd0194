"""Workers of a foreign version, after an upgrade in place to new code with a new form (inheritance.py).

Owns:     OldWorkers: the channels, until the workers end; requests and connections between old workers by way of the supervisor, until taken; the only
          order to old workers.
Thread:   the supervisor's only one.
Not here: the time of the order (acts.py), the choice of the new worker for a connection (placement.py, transfers.py).

Old workers serve on until new workers do, and then drain. All the while old workers send waiting requests to each other, and at the end idle
connections. Each form since 8 shows where a message's descriptors belong:

| a message with                     | goes to                                                                                          |
|---|---|
| a single descriptor: a connection  | a new worker; without a new worker back to the sender                                            |
| two, and a file: a request         | the worker of the wait, in a drain, too                                                          |
| two, of a returned request         | the same, with the next second; without old workers to a new worker                              |

Untaken gifts at the end of an old worker go to a further worker in the same way. No form has a common word for `taken`: so the supervisor looks
once a second, and closes a copy up to a second later than the worker.
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

Give = Callable[[Message, list[int]], bool]  # an idle connection to a new worker; whether the connection could go
Keep = Callable[[Message, list[int]], None]  # a request until a new worker may take the request

# The fields for a new worker in the message of a connection, and in the message of a request.
OF_CONNECTION = frozenset({"listener", "peer"})
OF_REQUEST = OF_CONNECTION | {"giver", "until", "to"}


class OldWorkers:
    """Workers with messages partly unknown to this version; the only order to them is to finish and end."""

    def __init__(
        self,
        fds: Iterable[int] = (),
        farewell: Any = None,
        children: Iterable[Mapping[str, Any]] = (),
        transfers: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        """`fds`: the channels; `children`: the channel, pid and page of each, as far as known; `transfers`: kept by the previous code, see Transfers."""
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
        """Give returned requests again, and let go of taken requests."""
        for channel in self._channels:
            channel.flush()
        self._let_go(lambda getter, transfer: _is_taken(transfer))
        waiting, self._waiting = self._waiting, []
        for transfer in waiting:
            self._give(transfer)

    def dismiss(self) -> None:
        """Let old workers finish running requests and end; only once: new workers serve now."""
        if not self._is_dismissed:
            self._is_dismissed = True
            for channel in self._channels:
                channel.send(self._farewell)

    def close(self) -> None:
        """Close all descriptors; in a forked child, too."""
        for channel in self._channels:
            channel.close()  # to an old worker this looks like the supervisor's death
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
        self._let_go(lambda getter, transfer: os.path.samestat(os.fstat(transfer.fds[0]), status))  # a return
        transfer = transfer_of(message, fds)
        if len(fds) > 1 and (message.get("number") or message.get("returns")):
            self._waiting.append(transfer)
        else:
            self._give(transfer, sender)

    def _on_end(self, channel: Channel) -> None:
        """Give away the untaken gifts to an ended worker."""
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
        """Give a request to the worker of the wait, and an idle connection to a new worker; else to the sender, or a further old worker."""
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
        """Close the copies of these."""
        gone = [each for each in self._sent if which(*each)]
        self._sent = [each for each in self._sent if each not in gone]
        for _, transfer in gone:
            close_all(transfer.fds)


def _is_taken(transfer: Transfer) -> bool:
    """Whether a worker has taken a gift, or begun to: not each form marks the beginning (request_file.py), but in each the worker has read the file before."""
    return transfer.is_taken if isinstance(transfer, IdleTransfer) else is_read(transfer.fds[1])


def open_socket(fd: int) -> socket.socket:
    """Return a socket, non-blocking all the time: PyPy would make the socket blocking, for all processes."""
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
