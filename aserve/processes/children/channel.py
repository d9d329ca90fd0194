"""Messages between the supervisor and a worker, with descriptors.

Owns:     a pair of sockets, an end for each process; messages without room; has_meaning, the check of a worker's message.
Thread:   the supervisor's only one; in a worker the event loop's.
Not here: the meaning of the messages (../events.py, worker.py: a worker sends `say`, the supervisor `do`).

A message is an object in JSON, and one packet of a SEQPACKET socket (unix(7)): the message arrives whole, or not at all. No process waits
for the process at the far end, which may be stuck: messages without room are kept, and sent by `flush` when there is room. When a process
ends, in whatever way, the kernel closes the process's end, and the far end reads the end of the connection.

Texts and lists in a message may be a client's or an app's, of any length: texts and lists too long are cut at the end.
"""

from __future__ import annotations

import array
import collections
import errno
import json
import logging
import os
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any, Callable

from ...core.descriptors import close_all
from ...core.exchange import shortened
from ...core.named_tuple import NamedTuple

logger = logging.getLogger("aserve")

Message = dict[str, Any]

MAX_MESSAGE_BYTES = 1 << 16
MAX_FDS = 2  # in a message
# How long a message refused by the kernel is tried again. Guess.
GIVE_UP_SECONDS = 10.0
# The fields of a worker's message, by the word; words of extensions are not listed.
FIELDS = {
    "failed": "why traceback", "failing": "why", "changed": "why", "unfit": "why", "stacks": "number text", "taken": "number", "missed": "number",
    "idle": "listener peer", "request": "listener peer giver until",
}  # fmt: skip
FDS = {"idle": 1, "request": 2}
# The fields other than whole numbers.
KINDS: dict[str, Any] = {"why": str, "traceback": str, "text": str, "peer": object, "until": (int, float)}
_CLOSED = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN)  # of the far end
_CREDENTIALS = struct.Struct("3i")  # unix(7), struct ucred: pid, uid, gid
_SPACE = socket.CMSG_SPACE(MAX_FDS * array.array("i").itemsize) + socket.CMSG_SPACE(_CREDENTIALS.size)
# PyPy 3.9 lacks these names, the numbers are Linux's.
_PASSCRED: int = getattr(socket, "SO_PASSCRED", 16)
_SCM_CREDENTIALS: int = getattr(socket, "SCM_CREDENTIALS", 2)
# Received descriptors are not for programs of the app. (socket.recv_fds() of Python 3.9 drops the flags.)
_CLOEXEC: int = getattr(socket, "MSG_CMSG_CLOEXEC", 0x40000000)
FDS_LOST = "no file descriptor is free: a message between processes (%s) is lost%s; raise `ulimit -n`, or find what the app keeps open"


class Unsent(NamedTuple):
    """A message without room."""

    octets: bytes
    fds: Sequence[int]
    is_kept: bool  # the descriptors are the caller's

    def close(self) -> None:
        """Close the descriptors, unless the caller keeps the descriptors."""
        if self.fds and not self.is_kept:
            close_all(self.fds)


class Channel:
    """An end of the pair."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self.unsent: collections.deque[Unsent] = collections.deque()  # messages that wait, for whatever reason
        self.is_heard = True  # until a message could not be sent, or the end was read, as the far end is closed
        self._failing_since = 0.0  # since when the kernel refuses messages, by time.monotonic(); 0: no refusal
        self._has_lost_fds = False  # the last received descriptors found no room in this process
        # Called with a message that was not received here for lack of room for descriptors, or was given up.
        self.on_dropped: Callable[[Message], None] = lambda message: None
        self.sender_pid = 0  # of the last message, from the kernel; 0: not known, see `know_senders`

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        """
        Return both ends.

        Raises:
            OSError: no descriptor is left.
        """
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(one), cls(other)

    @classmethod
    def inherit(cls, fd: int) -> Channel:
        """Return the end of this process before exec; further programs do not inherit the descriptor."""
        os.set_inheritable(fd, False)
        return cls(socket.socket(fileno=fd))

    def fileno(self) -> int:
        """Return the descriptor, for a selector or an event loop."""
        return self._socket.fileno()

    def know_senders(self) -> None:
        """Have the kernel attach the sender's pid to each message, from now on."""
        self._socket.setsockopt(socket.SOL_SOCKET, _PASSCRED, 1)

    def detach(self) -> int:
        """Return the descriptor, from now on the caller's; do not use this object any more."""
        return self._socket.detach()

    @property
    def has_unsent(self) -> bool:
        """Whether messages wait for room: call `flush` when the socket is writable. Also call `flush` once a second, for messages refused by the kernel."""
        return bool(self.unsent) and not self._failing_since

    def holds(self, fds: Sequence[int]) -> bool:
        """Whether the message with these descriptors, the same object, has not been sent."""
        return any(unsent.fds is fds for unsent in self.unsent)

    def send(self, message: Message, fds: Sequence[int] = (), is_kept: bool = False) -> None:
        """
        Send a message, now or when there is room; descriptors of the message, at most two, are closed here once sent.

        `is_kept`: the caller keeps the descriptors open until the message is sent, or dropped, or this end is closed.
        """
        self.unsent.append(Unsent(_fitting(message), fds, is_kept))
        self.flush()

    def flush(self) -> None:
        """Send waiting messages, as far as there is room. If the far end is closed, or the kernel goes on refusing, drop the messages."""
        while self.unsent:
            unsent, is_given_up = self.unsent[0], False
            try:
                socket.send_fds(self._socket, [unsent.octets], unsent.fds)
            except BlockingIOError:
                self._failing_since = 0.0
                return
            except OSError as exc:
                if exc.errno in _CLOSED:
                    self.is_heard = False
                elif not (is_given_up := self._give_up(unsent.octets, exc)):
                    return
            else:
                self._failing_since = 0.0
            self.unsent.popleft().close()
            if is_given_up:
                self._failing_since = 0.0
                self.on_dropped(_decode(unsent.octets))

    def _give_up(self, octets: bytes, why: OSError) -> bool:
        """Return whether a message refused by the kernel, as for lack of memory, is to be dropped; log the first refusal."""
        now = time.monotonic()
        if not self._failing_since:
            self._failing_since = now
            logger.warning(
                "a message between processes waits: %s (%.60s)", why.strerror, octets.decode("utf-8", "replace")
            )
        return now - self._failing_since > GIVE_UP_SECONDS

    def receive(self) -> tuple[Message, list[int]] | None:
        """
        Return a message with descriptors, which are the caller's; None: the far end is closed.

        A message without room in this process for the descriptors is dropped.

        Raises:
            BlockingIOError: no message is there now.
        """
        while True:
            try:
                octets, ancillary, flags, _ = self._socket.recvmsg(MAX_MESSAGE_BYTES, _SPACE, _CLOEXEC)
            except ConnectionError:  # the far end left messages unread: reported once, before the messages from there
                octets, ancillary, flags, _ = self._socket.recvmsg(MAX_MESSAGE_BYTES, _SPACE, _CLOEXEC)
            if not octets:
                self.is_heard = False
                return None
            message = _decode(octets)
            fds = self._read_ancillary(ancillary)
            if not flags & socket.MSG_CTRUNC:
                self._has_lost_fds = self._has_lost_fds and not fds
                return message, fds
            self._drop(message, fds)

    def _read_ancillary(self, ancillary: list[tuple[int, int, bytes]]) -> list[int]:
        """Record the sender's pid; return the descriptors."""
        fds = array.array("i")
        for _, kind, data in ancillary:
            if kind == _SCM_CREDENTIALS:
                self.sender_pid = _CREDENTIALS.unpack(data)[0]
            else:
                fds.frombytes(data)
        return list(fds)

    def _drop(self, message: Message, fds: Sequence[int]) -> None:
        """Drop a message with a descriptor closed by the kernel; log the first of several."""
        close_all(fds)
        if not self._has_lost_fds:
            self._has_lost_fds = True
            what = message.get("do", message.get("say"))
            is_last = what in ("adopt", "idle", "request") and "number" not in message
            logger.warning(FDS_LOST, what, "; its connection is closed" if is_last else "")
        self.on_dropped(message)

    def close(self) -> None:
        """Close this end, and the descriptors of unsent messages."""
        while self.unsent:
            self.unsent.popleft().close()
        self._socket.close()


def _fitting(message: Message) -> bytes:
    """Return the octets of a message; the longest texts and lists are cut until the message fits."""
    octets, most = _encode(message), MAX_MESSAGE_BYTES
    while len(octets) > MAX_MESSAGE_BYTES and most:
        most //= 2
        octets = _encode(_cut(message, most))
    return octets


def _encode(message: Message) -> bytes:
    text = json.dumps(message, ensure_ascii=False)  # six octets for a character at most
    return text.encode("utf-8", "surrogatepass")


def has_meaning(message: Message, fds: Sequence[int]) -> bool:
    """Whether a message with a word of ours has the form of our workers' messages: an app may write nonsense to the channel."""
    names = FIELDS.get(message["say"], "").split()
    if not all(name in message for name in names) or len(fds) != FDS.get(message["say"], len(fds)):
        return False
    return all(isinstance(message.get(name, 0), KINDS.get(name, int)) for name in (*names, "number", "to"))


def _decode(octets: bytes) -> Message:
    """Return a message; an empty message, without meaning, for wrong octets: the app may have written to the descriptor."""
    try:
        message = json.loads(octets.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _cut(value: Any, most: int) -> Any:
    """Return the same value with each text cut to `most` characters, and each list to as many items."""
    if isinstance(value, str):
        return shortened(value, most)
    if isinstance(value, (list, tuple)):
        return [_cut(each, most) for each in value[:most]]
    return {key: _cut(each, most) for key, each in value.items()} if isinstance(value, dict) else value
