"""A cache that all hosts share, over Redis or Valkey.

Owns:     SharedCache, which has the methods of Cache (caches.py).
Thread:   any.
Spec:     that of caches.py; who expires, and who makes room when it is full, is there.
Not here: the connections, and what is said when nobody answers (features/sharing/store.py).

While nobody answers it is empty, and takes nothing: what a cache may be at any time. So an app that can do with a cache can do without
it for a while, and no function raises what uWSGI's does not.
"""

from __future__ import annotations

import logging
from typing import Any, Callable

from ...core.log_once import LogOnce
from ..sharing.store import Store, StoreError, Word
from .caches import MAX_SECONDS, Bounds, number_of, octets_of
from .settings import CacheSpec

logger = logging.getLogger("aserve")

# How often a number is read anew, as others have changed it. Each time one of them has got on, so this is many. Guess.
MAX_TRIES = 1000
# Put a number in place of this one, or of nothing where the second word is empty; otherwise return what is there.
_CHANGE = """\
local found = redis.call('GET', KEYS[1])
if (found or '') ~= ARGV[1] or found == '' then return found end
if found then redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
elseif ARGV[3] == '0' then redis.call('SET', KEYS[1], ARGV[2])
else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return 1
"""


class SharedCache:
    """One cache, as one process has it."""

    def __init__(self, spec: CacheSpec, store: Store) -> None:
        self.spec = spec
        self._store = store
        self._start = store.key("cache", spec.name, "")
        self._takes = Bounds(spec).takes
        self._contended = LogOnce(logger, logging.WARNING)

    def get(self, key: bytes) -> bytes | None:
        """Return a value; None: it is not there."""
        found: bytes | None = self._ask(None, "GET", self._start + key)
        return found

    def has(self, key: bytes) -> bool:
        """Whether a value is there."""
        return bool(self._ask(0, "EXISTS", self._start + key))

    def set(self, key: bytes, value: bytes, seconds: float = 0, *, is_update: bool = False) -> bool:
        """Keep a value, for so long; 0: for ever. Return False if it was not kept; see Cache.set."""
        if not self._takes(key, value):
            return False
        words: list[Word] = [] if is_update else ["NX"]
        if seconds > 0:
            words += ["PX", _milliseconds(seconds)]
        return bool(self._ask(None, "SET", self._start + key, value, *words))

    def change(self, key: bytes, by: Callable[[int], int], seconds: float = 0) -> bool:
        """Put by(number) in place of a number, 0 if there is none; see Cache.change. `by` may be called several times."""
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
        """Return a number; 0: there is none."""
        return number_of(self.get(key)) or 0

    def delete(self, key: bytes) -> bool:
        """Remove a value; return False if there is none."""
        return bool(self._ask(0, "UNLINK", self._start + key))

    def clear(self) -> bool:
        """Remove all of them, in steps; return False if nobody answers."""
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
        except StoreError:  # it is in the log
            return otherwise


def _milliseconds(seconds: float) -> int:
    return max(1, int(min(seconds, MAX_SECONDS) * 1000)) if seconds > 0 else 0
