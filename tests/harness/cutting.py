"""A cache whose change is cut off before each of its lines, in its own process: `python cutting.py CHANGE`.

Not in the tests' process: CPython 3.11 never gets past an exception pending in another thread where it is traced.
"""

from __future__ import annotations

import sys
from typing import Any, Callable

from aserve.compat.uwsgi_api import caches
from aserve.compat.uwsgi_api.memory import Memory

# By name: the act, and its value; None: all.
CHANGES: dict[str, tuple[Callable[[caches.Cache], object], bytes | None]] = {
    "set": (lambda cache: cache.set(b"new", b"N"), b"new"),
    "update": (lambda cache: cache.set(b"1", b"N" * 16, is_update=True), b"1"),
    "delete": (lambda cache: cache.delete(b"1"), b"1"),
    "change": (lambda cache: cache.change(b"n", lambda n: n + 1), b"n"),
    "clear": (lambda cache: cache.clear(), None),
}


class Cut(BaseException):
    """The end of a process, at some line."""


def cut_at(line_count: int, function: Callable[[caches.Cache], object], cache: caches.Cache) -> bool:
    """Call this, and raise before `line_count` lines of caches.py have run; return whether it came to its end."""
    left = line_count

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != caches.__file__:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise Cut
        return trace

    sys.settrace(trace)
    try:
        function(cache)
    except Cut:
        return False
    finally:
        sys.settrace(None)
    return True


def values_of(cache: caches.Cache) -> dict[bytes, bytes | None]:
    return {key: cache.get(key) for key in cache.keys()}  # noqa: SIM118 - a method of its own


def check(name: str) -> None:
    """Cut this change off everywhere, and check the rest each time."""
    change, key = CHANGES[name]
    cache, lines = Memory.open(["items=5,blocksize=16,keysize=8"]).caches["default"], 0
    while True:
        cache.clear()
        for number in range(3):
            assert cache.set(b"%d" % number, b"v%d" % number)
        cache.change(b"n", lambda n: n + 1)
        cache.delete(b"0")
        before = values_of(cache)
        was_done = cut_at(lines, change, cache)
        after = values_of(cache)
        if key is None:
            assert set(after.items()) <= set(before.items())
            assert not was_done or not after
        else:
            assert {k: v for k, v in before.items() if k != key} == {k: v for k, v in after.items() if k != key}
            assert after.get(key) in (before.get(key), None, b"N", b"N" * 16, (2).to_bytes(8, sys.byteorder))
        room = 5 - len(after)
        assert [cache.set(b"r%d" % number, b"") for number in range(room + 1)] == [True] * room + [False]
        assert len(cache.keys()) == 5
        if was_done:
            break
        lines += 1
    assert lines > 10


if __name__ == "__main__":
    check(sys.argv[1])
