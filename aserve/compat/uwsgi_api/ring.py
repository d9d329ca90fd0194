"""The queue of uWSGI: a ring of messages in memory that all processes share.

Owns:     Ring.
Thread:   any, of any process; each call holds the one lock of the memory.
Spec:     uWSGI 2.0.30, "The uWSGI queue framework": what is pushed beyond the end goes over the oldest.
Not here: the functions of the module (queues.py), the memory (memory.py), the lock (locks.py), the grammar of its setting (settings.py).

```
 where the next one goes, where the oldest is | items: length, octets
```
"""

from __future__ import annotations

import struct
from typing import Any

from .locks import Locks
from .settings import QueueSpec

_HEAD = struct.Struct("=QQ")
_LENGTH = struct.Struct("=Q")


def bytes_of(spec: QueueSpec) -> int:
    """Return the octets that a ring takes."""
    return _HEAD.size + spec.items * (_LENGTH.size + spec.value_bytes)


class Ring:
    """The ring, in one process."""

    def __init__(self, spec: QueueSpec, octets: Any, offset: int, locks: Locks) -> None:
        """`octets`: an mmap; from `offset` on zeros, or the content of a ring of the same spec."""
        self.items = spec.items
        self._most, self._octets, self._offset, self._locks = spec.value_bytes, octets, offset, locks

    def push(self, message: bytes) -> bool:
        """Add a message; False: it is too long."""
        return len(message) <= self._most and self._locks.run(self._push, message)

    def _push(self, message: bytes) -> bool:
        at, first = self._head()
        self._write(at, message)
        self._set_head((at + 1) % self.items, first)
        return True

    def pop(self) -> bytes | None:
        """Take the message that was pushed last; None: there is none."""
        return self._locks.run(self._pop)

    def _pop(self) -> bytes | None:
        at, first = self._head()
        last = (at - 1) % self.items
        message = self._read(last)
        if message is not None:
            self._write(last, b"")
            self._set_head(last, first)
        return message

    def pull(self) -> bytes | None:
        """Take the oldest message; None: there is none."""
        return self._locks.run(self._pull)

    def _pull(self) -> bytes | None:
        at, first = self._head()
        message = self._read(first)
        if message is not None:
            self._write(first, b"")
            self._set_head(at, (first + 1) % self.items)
        return message

    def get(self, place: int) -> bytes | None:
        """Return the message at a place; None: there is none."""
        return self._locks.run(self._read, place) if 0 <= place < self.items else None

    def set(self, place: int, message: bytes) -> bool:
        """Put a message at a place; False: there is no such place, or the message is too long."""
        if not 0 <= place < self.items or len(message) > self._most:
            return False
        self._locks.run(self._write, place, message)
        return True

    def last(self, count: int) -> list[bytes | None]:
        """Return the messages that were pushed last, the last one first."""
        return self._locks.run(self._last, count)

    def _last(self, count: int) -> list[bytes | None]:
        at, _ = self._head()
        return [self._read((at - number) % self.items) for number in range(1, min(count, self.items) + 1)]

    def places(self) -> tuple[int, int]:
        """Return where the next message goes, and where the oldest is."""
        return self._locks.run(self._head)

    def _head(self) -> tuple[int, int]:
        return _HEAD.unpack_from(self._octets, self._offset)

    def _set_head(self, at: int, first: int) -> None:
        _HEAD.pack_into(self._octets, self._offset, at, first)

    def _place(self, number: int) -> int:
        return self._offset + _HEAD.size + number * (_LENGTH.size + self._most)

    def _read(self, number: int) -> bytes | None:
        place = self._place(number)
        (length,) = _LENGTH.unpack_from(self._octets, place)
        return self._octets[place + _LENGTH.size : place + _LENGTH.size + length] if length else None

    def _write(self, number: int, message: bytes) -> None:
        place = self._place(number)
        _LENGTH.pack_into(self._octets, place, 0)  # first: a process that dies here leaves no half of a message
        self._octets[place + _LENGTH.size : place + _LENGTH.size + len(message)] = message
        _LENGTH.pack_into(self._octets, place, len(message))
