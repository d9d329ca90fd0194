"""The messages between the processes of one server: a queue for each mule, one for any mule, one for each farm.

Owns:     Post: the queues; MessageQueue, one of them; `share` and `shared`, those of this process.
Thread:   made by the main thread, before the processes that share it are forked; then any sends. A mule's thread receives.
Not here: the functions of the module (functions.py), the process of a mule (runner.py).

A queue is a pair of sockets that all processes have. Messages wait in the kernel, so they outlive reloads, the ends of mules, and an upgrade by
SIGUSR2. A queue has room for some hundred kilobytes; a message that finds no room is not sent, which the log says once.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import os
import select
import socket
import time
from collections.abc import Iterable, Mapping, Sequence

from ....core.log_once import LogOnce
from ....core.memory_file import KEPT
from ....core.named_tuple import NamedTuple
from ....lifecycle.termination import Termination
from .settings import parse_farm

logger = logging.getLogger("aserve")

ANY = "any"  # the queue of messages for any mule
NAME = "aserve-mules"  # the beginning of the names under which an upgrade finds the sockets
ROOM_BYTES = 1 << 20  # asked for; the kernel gives what net.core.wmem_max allows
_TOO_LONG = (errno.EMSGSIZE, errno.ENOBUFS)


class MessageQueue(NamedTuple):
    """A queue of messages, as two descriptors."""

    reading: int
    writing: int

    def receive(self, size: int) -> bytes | None:
        """Return the first message, cut after `size` octets; None: there is none."""
        try:
            return os.read(self.reading, size)
        except BlockingIOError:
            return None


class Post:
    """All queues, by name: "any", "1", "2" ..., "farm:NAME"."""

    def __init__(self, queues: Mapping[str, MessageQueue], farms: Mapping[str, Sequence[int]]) -> None:
        self.queues, self.farms = queues, farms
        self._full = LogOnce(logger, logging.WARNING)

    @classmethod
    def open(cls, mules: int, farms: Iterable[str], kept: Mapping[str, int] = {}) -> Post:
        """
        Make the queues; or take over those that the previous process of an upgrade has kept.

        Raises:
            OSError: no descriptor is left.
        """
        members = dict(map(parse_farm, farms))
        names = [ANY, *(str(number) for number in range(1, mules + 1)), *(f"farm:{name}" for name in members)]
        return cls({name: _open(name, kept) for name in names}, members)

    @property
    def fds(self) -> list[int]:
        """All descriptors."""
        return [fd for queue in self.queues.values() for fd in queue]

    @property
    def mules(self) -> int:
        """How many mules there are."""
        return sum(name.isdigit() for name in self.queues)

    def send(self, name: str, message: bytes) -> bool:
        """
        Send a message; return False if its queue has no room.

        Raises:
            ValueError: the message is longer than a queue can hold.
        """
        try:
            os.write(self.queues[name].writing, message)
        except BlockingIOError:
            self._full.log(
                "uwsgi.mule_msg: the queue %r is full: its mules are behind, and messages are not sent", name
            )
            return False
        except OSError as fault:
            if fault.errno not in _TOO_LONG:
                raise
            raise ValueError(f"a message of {len(message)} octets is too long for a queue of mules") from None
        return True

    def inbox(self, mule: int) -> list[MessageQueue]:
        """Return the queues that a mule receives from: its own, that of any, those of its farms."""
        return [self.queues[str(mule)], self.queues[ANY], *self.farm_inbox(mule)]

    def farm_inbox(self, mule: int) -> list[MessageQueue]:
        """Return the queues of a mule's farms."""
        return [self.queues[f"farm:{name}"] for name, members in self.farms.items() if mule in members]


def _open(name: str, kept: Mapping[str, int]) -> MessageQueue:
    keys = f"{NAME}-{name}-reading", f"{NAME}-{name}-writing"
    if all(key in kept for key in keys):
        queue = MessageQueue(*(kept[key] for key in keys))
    else:
        # Of packets: each message is received as a whole, and unlike datagrams their number has no limit of its own.
        reading, writing = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (reading, writing):
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ROOM_BYTES)
        queue = MessageQueue(reading.detach(), writing.detach())
    KEPT.update(zip(keys, queue))
    return queue


def wait_for(
    queues: Sequence[MessageQueue], size: int, seconds: float = -1, termination: Termination | None = None
) -> bytes | None:
    """Return the next message of these queues; None: `seconds` (less than 0: no limit) have passed, or `termination` is requested."""
    poll = select.poll()
    for fd in (*(queue.reading for queue in queues), *([termination] if termination is not None else ())):
        poll.register(fd, select.POLLIN)
    until = time.monotonic() + seconds if seconds >= 0 else math.inf
    while True:
        for queue in queues:
            message = queue.receive(size)
            if message is not None:
                return message
        left = until - time.monotonic()
        if left <= 0:
            return None
        poll.poll(left * 1000 if left < math.inf else None)
        if termination is not None:
            termination.clear()
            if termination.is_requested:
                return None


_post: Post | None = None
_number = 0


def share(post: Post, number: int = 0) -> None:
    """Use these queues in this process, and in its future children; `number`: of the mule that this process is."""
    global _post, _number
    _post, _number = post, number


def own_number() -> int:
    """Return the number of the mule that this process is; 0: it is none."""
    return _number


def shared() -> Post | None:
    """Return the queues of this process; None: there are no mules."""
    return _post


def inherited(text: str) -> tuple[int, int, Post]:
    """Return the number of this mule, the descriptor of the memory, and the queues, from the variable that `passed_on` has made."""
    head, *parts = text.split()
    number, memory = map(int, head.split(","))
    queues, farms = {}, {}
    for part in parts:
        name, reading, writing, members = part.split(",", 3)
        queues[name] = MessageQueue(int(reading), int(writing))
        if name.startswith("farm:"):
            farms[name[5:]] = tuple(map(int, members.split(",")))
    for fd in (memory, *(fd for queue in queues.values() for fd in queue)):
        with contextlib.suppress(OSError):
            os.set_inheritable(fd, False)
    return number, memory, Post(queues, farms)


def passed_on(post: Post, number: int, memory: int) -> str:
    """Return the text of the variable by which a mule finds its number, the memory and the queues."""
    parts = [f"{number},{memory}"]
    for name, queue in post.queues.items():
        members = ",".join(map(str, post.farms.get(name[5:], ()))) if name.startswith("farm:") else ""
        parts.append(f"{name},{queue.reading},{queue.writing},{members}")
    return " ".join(parts)
