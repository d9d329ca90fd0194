"""A cache that all hosts share, over Redis or Valkey.

Owns:     SharedCache, which has the methods of Cache (caches.py).
Thread:   any.
Spec:     that of caches.py; the server expires items, and evicts them when it is full.
Not here: the connections, and the message when the server is away (features/sharing/store.py).

While the server is away the cache is empty, and stores nothing, as a cache may at any time. So an app goes on without it for a while,
and no function raises an exception that uWSGI's does not.
"""

from __future__ import annotations

import logging
from typing import Any, Callable

from ...core.log_once import LogOnce
from ...features.sharing.store import Store, StoreError, Word
from .caches import MAX_SECONDS, Bounds, number_of, octets_of
from .settings import CacheSpec

logger = logging.getLogger("aserve")

# How often to read a number anew after a concurrent change. At each failed try another process has succeeded, so this is many. Guess.
MAX_TRIES = 1000
# Replace a number if it still has the first value ("": does not exist); otherwise return the present value.
_CHANGE = """\
local found = redis.call('GET', KEYS[1])
if (found or '') ~= ARGV[1] or found == '' then return found end
if found then redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
elseif ARGV[3] == '0' then redis.call('SET', KEYS[1], ARGV[2])
else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return 1
"""


class SharedCache:
    """One cache, in one process."""

    def __init__(self, spec: CacheSpec, store: Store) -> None:
        self.spec = spec
        self._store = store
        self._start = store.key("cache", spec.name, "")
        self._takes = Bounds(spec).takes
        self._contended = LogOnce(logger, logging.WARNING)

    def get(self, key: bytes) -> bytes | None:
        """Return a value; None: the key has none."""
        found: bytes | None = self._ask(None, "GET", self._start + key)
        return found

    def has(self, key: bytes) -> bool:
        """Whether a key has a value."""
        return bool(self._ask(0, "EXISTS", self._start + key))

    def set(self, key: bytes, value: bytes, seconds: float = 0, *, is_update: bool = False) -> bool:
        """Store a value for `seconds`; 0: for ever. Return False if it was not stored; see Cache.set."""
        if not self._takes(key, value):
            return False
        words: list[Word] = [] if is_update else ["NX"]
        if seconds > 0:
            words += ["PX", _milliseconds(seconds)]
        return bool(self._ask(None, "SET", self._start + key, value, *words))

    def change(self, key: bytes, by: Callable[[int], int], seconds: float = 0) -> bool:
        """Replace a number by by(number), with 0 for none; see Cache.change. `by` may be called several times."""
        before: bytes | None = None
        for _ in range(MAX_TRIES):
            after = octets_of(by(number_of(before) or 0))
            if not self._takes(key, after):
                return False
            try:
                before = self._store.run(_CHANGE, [self._start + key], before or b"", after, _milliseconds(seconds))
            except StoreError:
                return False
            if before == 1:
                return True
            if before is not None and number_of(before) is None:
                return False
        self._contended.log(
            "uwsgi.cache_inc and its like: others have changed a number of %r each time", self.spec.name
        )
        return False

    def number(self, key: bytes) -> int:
        """Return a number; 0: the key has none."""
        return number_of(self.get(key)) or 0

    def delete(self, key: bytes) -> bool:
        """Remove a value; return False if the key has none."""
        return bool(self._ask(0, "UNLINK", self._start + key))

    def clear(self) -> bool:
        """Remove all values, in steps; return False if the server is away."""
        try:
            for keys in self._store.scan(self._start):
                if keys:
                    self._store.ask("UNLINK", *keys)
        except StoreError:
            return False
        return True

    def keys(self) -> list[bytes]:
        """Return the keys of all values."""
        try:
            found = dict.fromkeys(key for keys in self._store.scan(self._start) for key in keys)
        except StoreError:
            return []
        return [key[len(self._start) :] for key in found]

    def _ask(self, otherwise: object, *command: Word) -> Any:
        try:
            return self._store.ask(*command)
        except StoreError:  # logged by the store
            return otherwise


def _milliseconds(seconds: float) -> int:
    return max(1, int(min(seconds, MAX_SECONDS) * 1000)) if seconds > 0 else 0
