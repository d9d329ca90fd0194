"""A cache that all processes share: keys and values of octets, with times to live.

Owns:     Cache: a hash table in shared memory.
Thread:   any, of any process; each call holds the one lock of the memory.
Spec:     uWSGI 2.0.30, "The uWSGI caching framework": setting an existing key changes nothing, and a full cache takes no more.
Not here: the memory (memory.py), the lock (locks.py), the functions of the module (module.py).

```
 head | buckets: the first item of each chain | items: next, hash, lengths, is whole, expires, used at | key | value
```

A process may die at any instruction, and the kernel gives the lock to another. So a process sets BUSY before it changes the table and
clears it afterwards; and an item is valid only when its last octet, "is whole", is written. A process that finds BUSY set links all
whole items anew.

A finalizer or a signal handler may interrupt a change, in the same thread. Chains lead to whole items at any moment, so it reads them
as they are (`_peek`); its changes are made when the interrupted call has ended, and it gets the expected result at once.

Numbers of items begin with 1; 0 is the end of a chain. The kernel gives memory only where it was written: TOP is the highest item used.

Longer than other files: each change must leave the one table whole, so all changes stand together.
"""

from __future__ import annotations

import hashlib
import logging
import os
import random
import struct
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, Callable, TypeVar

from ...core.log_once import LogOnce
from .locks import Inside, Locks
from .settings import CacheSpec

logger = logging.getLogger("aserve")
Result = TypeVar("Result")

_WORD = struct.Struct("=I")
_ITEM = struct.Struct("=IIIHxxQQ")  # next, hash, length of the value, of the key, when it expires, when it was used
_WHOLE = 14  # the offset of "is whole" in an item
_EXPIRES = struct.Struct("=Q")
_EXPIRES_AT, _USED_AT = 16, 24
_NUMBER = struct.Struct("=q")  # uWSGI's form of a number
# Offsets in the head
_BUSY, _FREE, _TOP, _SWEPT_AT, _SEED = 0, 4, 8, 16, 32
_SEED_BYTES, _HEAD_BYTES = 16, 64
SECOND = 10**9  # nanoseconds
# How many items are sampled to evict the least recently used one; Redis takes 5. Guess.
SAMPLES = 8
# Some 317 years; longer times to live do not fit into 64 bits of nanoseconds, or Redis's of milliseconds.
MAX_SECONDS = 1e10


def bytes_of(spec: CacheSpec) -> int:
    """Return the most octets that a cache takes; the kernel gives memory only where it is written."""
    return _HEAD_BYTES + _bucket_count(spec) * _WORD.size + spec.items * _stride(spec)


def _bucket_count(spec: CacheSpec) -> int:
    return 1 << max(4, spec.items.bit_length())


def _stride(spec: CacheSpec) -> int:
    return -(-(_ITEM.size + spec.key_bytes + spec.value_bytes) // 8) * 8


class Bounds:
    """The limits of keys and values of a cache; the first excess is logged."""

    def __init__(self, spec: CacheSpec) -> None:
        self._spec = spec
        self._long = LogOnce(logger, logging.WARNING)

    def takes(self, key: bytes, value: bytes) -> bool:
        """Whether a key and a value are within the limits."""
        spec = self._spec
        if 0 < len(key) <= spec.key_bytes and len(value) <= spec.value_bytes:
            return True
        text = "uwsgi.cache_set: %d octets with a key of %d are not kept in %r, which takes 1 to %d (keysize=) and %d (blocksize=)"
        self._long.log(text, len(value), len(key), spec.name, spec.key_bytes, spec.value_bytes)
        return False


class Cache:
    """One cache, in one process."""

    def __init__(self, spec: CacheSpec, octets: Any, offset: int, locks: Locks) -> None:
        """`octets`: an mmap; from `offset` on zeros, or the content of a cache of the same spec."""
        self.spec = spec
        self._octets = octets
        self._locks = locks
        self._head = offset
        self._buckets = offset + _HEAD_BYTES
        self._mask = _bucket_count(spec) - 1
        self._stride = _stride(spec)
        self._items = self._buckets + _bucket_count(spec) * _WORD.size - self._stride  # there is no item 0
        self._full = LogOnce(logger, logging.WARNING)
        self._takes = Bounds(spec).takes
        seed = slice(offset + _SEED, offset + _SEED + _SEED_BYTES)
        if octets[seed] == bytes(_SEED_BYTES):
            octets[seed] = os.urandom(_SEED_BYTES)
        self._seed = octets[seed]

    # From any thread

    def get(self, key: bytes) -> bytes | None:
        """Return a value; None: it does not exist, or has expired."""
        try:
            return self._run(self._get, key)
        except Inside:
            return self._peek(key)

    def has(self, key: bytes) -> bool:
        """Whether a key has a value."""
        try:
            return self._run(self._find, key, self._digest(key)) is not None
        except Inside:
            return self._peek(key) is not None

    def set(self, key: bytes, value: bytes, seconds: float = 0, *, is_update: bool = False) -> bool:
        """
        Store a value for `seconds`; 0 or less: for ever. Return False if it was not stored.

        It is not if the key has a value, unless `is_update`; if key or value are too long; and if the cache is full.
        """
        if not self._takes(key, value):
            return False
        try:
            is_kept = self._run(self._set, key, value, _after(seconds), is_update)
        except Inside:
            is_kept = is_update or self._peek(key) is None
            self._locks.after(partial(self.set, key, value, seconds, is_update=is_update))
        if is_kept is None and not self._full.is_said:
            text = "uwsgi.cache_set: the cache %r is full, with %d items; raise items=, or give purge_lru=1"
            self._full.log(text, self.spec.name, self.spec.items)
        return bool(is_kept)

    def change(self, key: bytes, by: Callable[[int], int], seconds: float = 0) -> bool:
        """
        Replace a number by by(number), with 0 for none; `seconds`: time to live of a new one. Return False if that failed.

        It fails if the value is no number, if key or number are too long, and if the cache is full. `by` runs while all
        processes wait: it must be no function of the app.
        """
        if not self._takes(key, octets_of(0)):
            return False
        try:
            return bool(self._run(self._change, key, by, _after(seconds)))
        except Inside:
            value = self._peek(key)
            self._locks.after(self.change, key, by, seconds)
            return value is None or number_of(value) is not None

    def number(self, key: bytes) -> int:
        """Return a number; 0: the key has none."""
        return number_of(self.get(key)) or 0

    def delete(self, key: bytes) -> bool:
        """Remove a value; return False if there is none."""
        try:
            return self._run(self._delete, key)
        except Inside:
            self._locks.after(self.delete, key)
            return self._peek(key) is not None

    def clear(self) -> bool:
        """Remove all values."""
        try:
            self._run(self._clear)
        except Inside:
            self._locks.after(self.clear)
        return True

    def keys(self) -> list[bytes]:
        """Return the keys of all values."""
        try:
            return self._run(self._keys)
        except Inside:
            return self._keys()

    def _run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        result: Result = self._locks.run(self._run_whole, function, arguments)
        return result

    # In an interrupted thread that holds the lock

    def _peek(self, key: bytes) -> bytes | None:
        """Return the value of a whole item, and change nothing."""
        number, top = self._word(self._bucket(self._digest(key))), self._word(self._head + _TOP)
        while 0 < number <= top:  # `clear` resets it first
            item = self._place(number)
            number, _, _, _, expires, _ = _ITEM.unpack_from(self._octets, item)
            is_whole = self._octets[item + _WHOLE] and (not expires or expires > time.monotonic_ns())
            if is_whole and self._key_of(item) == key:
                return self._value_of(item)
        return None

    # With the lock

    def _run_whole(self, function: Callable[..., Result], arguments: Any) -> Result:
        if self._word(self._head + _BUSY):
            self._repair()
        return function(*arguments)

    def _get(self, key: bytes) -> bytes | None:
        found = self._find(key, self._digest(key))
        if found is None:
            return None
        item = self._place(found[0])
        if self.spec.has_eviction:
            _EXPIRES.pack_into(self._octets, item + _USED_AT, time.monotonic_ns())
        return self._value_of(item)

    def _find(self, key: bytes, digest: int) -> tuple[int, int] | None:
        """Return the number of a key's item, and the place of the word that links to it."""
        link = self._bucket(digest)
        number = self._word(link)
        while number:
            item = self._place(number)
            following, hashed, _, length, expires, _ = _ITEM.unpack_from(self._octets, item)
            begin = item + _ITEM.size
            if hashed == digest and length == len(key) and self._octets[begin : begin + length] == key:
                if not expires or expires > time.monotonic_ns():
                    return number, link
                self._remove(number, link)
                return None
            link, number = item, following
        return None

    def _set(self, key: bytes, value: bytes, expires: int, is_update: bool) -> bool | None:
        """Store a value; return False if the key has one, and None if the cache is full."""
        digest = self._digest(key)
        found = self._find(key, digest)
        if found is not None:
            if is_update:
                self._put(self._head + _BUSY, 1)
                self._write(found[0], (self._word(self._place(found[0])), digest), key, value, expires)
                self._put(self._head + _BUSY, 0)
            return is_update
        if not self._word(self._head + _FREE) and self._word(self._head + _TOP) == self.spec.items:
            self._sweep()
        self._put(self._head + _BUSY, 1)
        number = self._take()
        if number:
            bucket = self._bucket(digest)
            self._write(number, (self._word(bucket), digest), key, value, expires)
            self._put(bucket, number)
        self._put(self._head + _BUSY, 0)
        return bool(number) or None

    def _take(self) -> int:
        """Return the number of a free item; 0: there is none."""
        number, top = self._word(self._head + _FREE), self._word(self._head + _TOP)
        if number:
            self._put(self._head + _FREE, self._word(self._place(number)))
        elif top < self.spec.items:
            number = top + 1
            self._octets[self._place(number) + _WHOLE] = 0  # an item from before `clear` is not valid
            self._put(self._head + _TOP, number)
        return number

    def _write(self, number: int, chain: tuple[int, int], key: bytes, value: bytes, expires: int) -> None:
        """Write an item; `chain`: the next item, and the hash of the key."""
        item = self._place(number)
        self._octets[item + _WHOLE] = 0
        now = time.monotonic_ns() if self.spec.has_eviction else 0
        _ITEM.pack_into(self._octets, item, *chain, len(value), len(key), expires, now)
        begin = item + _ITEM.size
        self._octets[begin : begin + len(key)] = key
        self._octets[begin + len(key) : begin + len(key) + len(value)] = value
        self._octets[item + _WHOLE] = 1

    def _change(self, key: bytes, by: Callable[[int], int], expires: int) -> bool:
        found = self._find(key, self._digest(key))
        if found is None:
            return bool(self._set(key, octets_of(by(0)), expires, False))
        before = number_of(self._value_of(self._place(found[0])))
        if before is None:
            return False
        (expires,) = _EXPIRES.unpack_from(self._octets, self._place(found[0]) + _EXPIRES_AT)
        return bool(self._set(key, octets_of(by(before)), expires, True))

    def _delete(self, key: bytes) -> bool:
        found = self._find(key, self._digest(key))
        if found is None:
            return False
        self._remove(*found)
        return True

    def _remove(self, number: int, link: int) -> None:
        item = self._place(number)
        self._put(self._head + _BUSY, 1)
        self._octets[item + _WHOLE] = 0
        self._put(link, self._word(item))
        self._put(item, self._word(self._head + _FREE))
        self._put(self._head + _FREE, number)
        self._put(self._head + _BUSY, 0)

    def _clear(self) -> None:
        self._put(self._head + _BUSY, 1)
        self._put(self._head + _TOP, 0)  # first, so that a repair finds no items
        self._put(self._head + _FREE, 0)
        self._forget_links()
        self._put(self._head + _BUSY, 0)

    def _keys(self) -> list[bytes]:
        now, keys = time.monotonic_ns(), []
        for _, item in self._whole():
            _, _, _, length, expires, _ = _ITEM.unpack_from(self._octets, item)
            if not expires or expires > now:
                keys.append(bytes(self._octets[item + _ITEM.size : item + _ITEM.size + length]))
        return keys

    # Room

    def _sweep(self) -> None:
        """Remove expired items, at most once a second; if the cache is still full, an item that was not used for long."""
        now = time.monotonic_ns()
        (swept_at,) = _EXPIRES.unpack_from(self._octets, self._head + _SWEPT_AT)
        if now >= swept_at + SECOND:
            _EXPIRES.pack_into(self._octets, self._head + _SWEPT_AT, now)
            for key in [key for key, expires in self._expiring() if expires <= now]:
                self._find(key, self._digest(key))  # removes it
        if self.spec.has_eviction and not self._word(self._head + _FREE):
            sample = [self._place(random.randint(1, self.spec.items)) for _ in range(SAMPLES)]  # noqa: S311 - no secret
            oldest = min(sample, key=lambda item: _EXPIRES.unpack_from(self._octets, item + _USED_AT))
            self._delete(self._key_of(oldest))

    def _expiring(self) -> Iterator[tuple[bytes, int]]:
        for _, item in self._whole():
            (expires,) = _EXPIRES.unpack_from(self._octets, item + _EXPIRES_AT)
            if expires:
                yield self._key_of(item), expires

    def _whole(self) -> Iterator[tuple[int, int]]:
        """Yield number and place of each whole item."""
        for number in range(1, self._word(self._head + _TOP) + 1):
            item = self._place(number)
            if self._octets[item + _WHOLE]:
                yield number, item

    def _repair(self) -> None:
        """Link all whole items anew: a process died while it changed the table, or was interrupted."""
        self._forget_links()
        whole = dict(self._whole())
        for number, item in whole.items():
            bucket = self._bucket(_ITEM.unpack_from(self._octets, item)[1])
            self._put(item, self._word(bucket))
            self._put(bucket, number)
        free = 0
        for number in range(1, self._word(self._head + _TOP) + 1):
            if number not in whole:
                self._put(self._place(number), free)
                free = number
        self._put(self._head + _FREE, free)
        self._put(self._head + _BUSY, 0)
        text = "uwsgi: a process ended while it changed the cache %r, which has %d items"
        self._locks.after(logger.warning, text, self.spec.name, len(whole))

    def _forget_links(self) -> None:
        self._octets[self._buckets : self._buckets + (self._mask + 1) * _WORD.size] = bytes(
            (self._mask + 1) * _WORD.size
        )

    # Words

    def _key_of(self, item: int) -> bytes:
        length = _ITEM.unpack_from(self._octets, item)[3]
        return bytes(self._octets[item + _ITEM.size : item + _ITEM.size + length])

    def _value_of(self, item: int) -> bytes:
        _, _, length, key_length, _, _ = _ITEM.unpack_from(self._octets, item)
        begin = item + _ITEM.size + key_length
        return bytes(self._octets[begin : begin + length])

    def _digest(self, key: bytes) -> int:
        # Keyed, so that a client that chooses keys cannot fill one chain.
        return int.from_bytes(hashlib.blake2b(key, digest_size=4, key=self._seed).digest(), "little")

    def _bucket(self, digest: int) -> int:
        return self._buckets + (digest & self._mask) * _WORD.size

    def _place(self, number: int) -> int:
        return self._items + number * self._stride

    def _word(self, offset: int) -> int:
        return int(_WORD.unpack_from(self._octets, offset)[0])

    def _put(self, offset: int, word: int) -> None:
        _WORD.pack_into(self._octets, offset, word)


def _after(seconds: float) -> int:
    """Return the time `seconds` from now, in nanoseconds; 0: never."""
    return time.monotonic_ns() + int(min(seconds, MAX_SECONDS) * SECOND) if seconds > 0 else 0


def octets_of(number: int) -> bytes:
    """Encode a number as a value."""
    return _NUMBER.pack((number + (1 << 63)) % (1 << 64) - (1 << 63))  # as C counts


def number_of(value: bytes | None) -> int | None:
    """Decode a number from a value; None: the value is no number."""
    return _NUMBER.unpack(value)[0] if value is not None and len(value) == _NUMBER.size else None
