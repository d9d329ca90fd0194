"""A cache used before each line of a call of it, by the same thread, in its own process: `python nesting.py CHANGE`.

A finalizer called by the collector, or a handler of a signal, does so.
"""

from __future__ import annotations

import sys
from typing import Any, Callable

from aserve.compat.uwsgi_api import caches, locks
from aserve.compat.uwsgi_api.memory import Memory
from harness.cutting import CHANGES, values_of

Use = Callable[[caches.Cache], object]
OUTER: dict[str, Use] = {name: change for name, (change, _) in CHANGES.items()}
OUTER["get"] = lambda cache: cache.get(b"1")
OUTER["get what expires"] = lambda cache: cache.get(b"e")
# The acts between. Each changes one thing at most, so that only before or behind is possible.
NESTED: tuple[Use, ...] = (
    lambda cache: cache.set(b"1", b"x"),
    lambda cache: cache.set(b"y", b"y"),
    lambda cache: cache.set(b"1", b"x", is_update=True),
    lambda cache: cache.delete(b"1"),
    lambda cache: cache.delete(b"none"),
    lambda cache: cache.change(b"n", lambda n: n + 5),
    lambda cache: cache.change(b"1", lambda n: n + 5),
    lambda cache: cache.clear(),
)
FILES = {caches.__file__, locks.__file__}


def come_between(line_count: int, outer: Use, nested: Callable[[], object], cache: caches.Cache) -> bool:
    """Call `outer`, and `nested` before `line_count` of its lines have run; return whether it was called."""
    left = line_count

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in FILES:
            return None
        if event == "line":
            left -= 1
            if left == -1:
                nested()
        return trace

    sys.settrace(trace)
    try:
        outer(cache)
    finally:
        sys.settrace(None)
    return left < 0


def fill(cache: caches.Cache) -> None:
    """Let there be values, a number, a free item, and an expired one."""
    cache.clear()
    for number in range(3):
        assert cache.set(b"%d" % number, b"v%d" % number)
    cache.change(b"n", lambda n: n + 1)
    cache.delete(b"0")
    assert cache.set(b"e", b"", 1e-9)


def check(name: str) -> None:
    """Come between everywhere, with each use, and check the rest each time."""
    outer = OUTER[name]
    cache = Memory.open(["items=7,blocksize=16,keysize=8"]).caches["default"]
    for nested in NESTED:
        in_order = []
        for first, second in ((outer, nested), (nested, outer)):
            fill(cache)
            first(cache)
            second(cache)
            in_order.append(values_of(cache))
        lines = 0
        while True:
            fill(cache)
            before = values_of(cache)
            seen: list[dict[bytes, bytes | None]] = []

            def use(seen: Any = seen, nested: Use = nested, lines: int = lines) -> None:
                seen.append(values_of(cache))
                assert cache.has(b"2") == (b"2" in seen[0]), (name, lines)
                assert isinstance(nested(cache), bool)

            if not come_between(lines, outer, use, cache):
                break
            assert values_of(cache) in in_order, (name, lines, values_of(cache), in_order)
            assert name == "clear" or seen[0].get(b"2") == before[b"2"], (name, lines, seen)
            assert not cache._word(cache._head), "it is changed no more"
            lines += 1
        assert lines > 10


if __name__ == "__main__":
    check(sys.argv[1])
