"""The functions of the module `uwsgi` for shared state: locks, the cache, signals, timers, cron.

Owns:     FUNCTIONS, by their names; checking arguments, and returning results in uWSGI's form.
Thread:   any.
Spec:     uWSGI 2.0.30, "The uWSGI API - Python".
Not here: the module, and its other functions (module.py), decorators (decorators.py), the implementation (locks.py, caches.py, signals.py).
"""

from __future__ import annotations

import operator
import os
from typing import TYPE_CHECKING, Any, Callable

from .memory import SIGNAL_COUNT, shared
from .schedules import Every, Watched, checked_cron
from .signals import UwsgiSignals
from .texts import Text

if TYPE_CHECKING:
    from .memory import AnyCache


SIGNALS = UwsgiSignals(shared)
MIN_TIMER_SECONDS = 0.01
# Shorter ones would fill a CPU; the longest is some 31 years.
MAX_TIMER_SECONDS = 1e9


def lock(number: int = 0) -> None:
    """
    Take a lock that one thread of all processes can hold; wait for it. The death of a process releases it.

    Raises:
        ValueError: its number is not 0 to 255.
        ConnectionError: hosts share it, and the server is away.
    """
    shared().app_locks.lock(number)


def unlock(number: int = 0) -> None:
    """
    Let a lock of this process's go; one that it has not stays as it is.

    Raises:
        ValueError: its number is not 0 to 255.
        RuntimeError: hosts share it, and it was lost meanwhile.
    """
    shared().app_locks.unlock(number)


def is_locked(number: int = 0) -> bool:
    """
    Whether a lock is held.

    Raises:
        ValueError: its number is not 0 to 255.
        ConnectionError: hosts share it, and the server is away.
    """
    return shared().app_locks.is_locked(number)


# The cache. Like uWSGI, functions return None on failure.


def cache_get(key: Text, cache: Text | None = None) -> bytes | None:
    """
    Return a value; None: the key has none, or there is no cache of this name, as in uWSGI.

    Raises:
        ValueError: there is no cache at all. For the others of these: there is no such cache.
        TypeError: an argument is neither bytes nor text. The same for all of these.
    """
    octets = _octets(key)
    try:
        return _cache(cache).get(octets)
    except UnknownCacheError:
        if shared().caches:
            return None
        raise


def cache_set(key: Text, value: Text, expires: int = 0, cache: Text | None = None) -> bool | None:
    """Store a value for `expires` seconds, 0: for ever; None: the key has a value, or the cache is full."""
    return _cache(cache).set(_octets(key), _octets(value), expires) or None


def cache_update(key: Text, value: Text, expires: int = 0, cache: Text | None = None) -> bool | None:
    """Store or replace a value; None: the cache is full."""
    return _cache(cache).set(_octets(key), _octets(value), expires, is_update=True) or None


def cache_exists(key: Text, cache: Text | None = None) -> bool | None:
    """Return True if the key has a value, or None."""
    return _cache(cache).has(_octets(key)) or None


def cache_del(key: Text, cache: Text | None = None) -> bool | None:
    """Remove a value; None: the key has none."""
    return _cache(cache).delete(_octets(key)) or None


def cache_clear(cache: Text | None = None) -> bool | None:
    """Remove all values; None: hosts share the cache, and the server is away."""
    return _cache(cache).clear() or None


def cache_keys(cache: Text | None = None) -> list[bytes]:
    """Return the keys of a cache."""
    return _cache(cache).keys()


def cache_num(key: Text, cache: Text | None = None) -> int:
    """Return a number of cache_inc and the like; 0: the key has none."""
    return _cache(cache).number(_octets(key))


def cache_inc(key: Text, amount: int = 1, expires: int = 0, cache: Text | None = None) -> bool | None:
    """
    Add to a number, with 0 for none; `expires`: of a new one. None: the value is no number, or the cache is full.

    Raises:
        TypeError: the amount is no whole number. The same for all of these.
        OverflowError: the amount has more than 64 bits. The same for all of these.
    """
    amount = _whole(amount)
    return _cache(cache).change(_octets(key), lambda number: number + amount, expires) or None


def cache_dec(key: Text, amount: int = 1, expires: int = 0, cache: Text | None = None) -> bool | None:
    """Subtract; see cache_inc."""
    amount = _whole(amount)
    return _cache(cache).change(_octets(key), lambda number: number - amount, expires) or None


def cache_mul(key: Text, amount: int = 2, expires: int = 0, cache: Text | None = None) -> bool | None:
    """Multiply; see cache_inc."""
    amount = _whole(amount)
    return _cache(cache).change(_octets(key), lambda number: number * amount, expires) or None


def cache_div(key: Text, amount: int = 2, expires: int = 0, cache: Text | None = None) -> bool | None:
    """Divide, truncated as in C; by 0 the result is 0; see cache_inc."""
    amount = _whole(amount)

    def divide(number: int) -> int:
        quotient = abs(number) // abs(amount) if amount else 0
        return quotient if (number < 0) == (amount < 0) else -quotient

    return _cache(cache).change(_octets(key), divide, expires) or None


def _octets(item: object) -> bytes:
    if not isinstance(item, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"the cache takes bytes or text, not {type(item).__name__}: {item!r:.60}")
    return str.encode(item) if isinstance(item, str) else bytes(memoryview(item))  # the app's types get no call


def _whole(amount: int) -> int:
    """Convert an amount to a 64-bit int, so that no code of the app runs while all processes wait."""
    index = operator.index(amount)
    if not -(1 << 63) <= index < 1 << 63:
        raise OverflowError(f"the cache counts with 64 bits; {len(f'{index:x}') * 4} are too many for an amount")
    return index


class UnknownCacheError(ValueError):
    """There is no cache of this name."""


def _cache(name: Text | None) -> AnyCache:
    caches = shared().caches
    text = name.decode() if isinstance(name, bytes) else name
    if text and "@" in text:
        raise ValueError(f"the cache {text!r} is another server's; aserve has those of its own processes")
    if not text and caches:
        return next(iter(caches.values()))  # the first, as in uWSGI
    if not text or text not in caches:
        raise UnknownCacheError(
            f"there is no cache {text or 'default'!r}; --uwsgi-cache name={text or 'default'},items=1000 has one"
        )
    return caches[text]


# Signals


def register_signal(number: int, target: Text, function: Callable[[int], Any]) -> None:
    """
    Run this function for a signal: in any worker, in all (`workers`), or in one (`worker2`).

    Raises:
        ValueError: there is no such signal, or no such target.
        TypeError: the argument is no function.
    """
    SIGNALS.register(number, target.decode() if isinstance(target, bytes) else target, function)


def signal_registered(number: int) -> bool:
    """
    Whether there is a function for a signal.

    Raises:
        ValueError: there is no such signal.
    """
    return SIGNALS.is_registered(number)


def signal(number: int) -> None:
    """
    Raise a signal: its function runs soon, in a thread of its own.

    Raises:
        ValueError: there is no such signal, or no function for it.
    """
    SIGNALS.send(number)


def add_timer(number: int, seconds: float) -> None:
    """
    Raise a signal every `seconds`.

    Raises:
        ValueError: there is no such signal, or the time is none.
    """
    SIGNALS.schedule(number, Every(_checked_seconds(seconds)))


def add_rb_timer(number: int, seconds: float, iterations: int = 0) -> None:
    """
    Raise a signal every `seconds`, `iterations` times; 0: without end.

    Raises:
        ValueError: there is no such signal, or the time is none.
    """
    SIGNALS.schedule(number, Every(_checked_seconds(seconds), max(0, int(iterations))))


def add_cron(number: int, minute: int, hour: int, day: int, month: int, weekday: int) -> None:
    """
    Raise a signal at these minutes of local time; -1 is any, -5 every fifth.

    Raises:
        ValueError: there is no such signal, or no such minute.
    """
    SIGNALS.schedule(number, checked_cron(minute, hour, day, month, weekday))


def add_file_monitor(number: int, path: Text) -> None:
    """
    Raise a signal when a file changes, or something in a folder.

    Raises:
        ValueError: there is no such signal.
    """
    SIGNALS.schedule(number, Watched(os.path.abspath(os.fsdecode(path))))


def free_signal() -> int:
    """
    Return the first signal without a function.

    Raises:
        ValueError: all have one.
    """
    for number in range(SIGNAL_COUNT):
        if not SIGNALS.is_registered(number):
            return number
    raise ValueError(f"all {SIGNAL_COUNT} signals have functions")


def _checked_seconds(seconds: float) -> float:
    if not MIN_TIMER_SECONDS <= seconds <= MAX_TIMER_SECONDS:
        raise ValueError(f"a timer of {seconds!r} s is none; {MIN_TIMER_SECONDS} is the least")
    return float(seconds)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        lock, unlock, is_locked,
        cache_get, cache_set, cache_update, cache_exists, cache_del, cache_clear, cache_keys,
        cache_num, cache_inc, cache_dec, cache_mul, cache_div,
        register_signal, signal_registered, signal, add_timer, add_rb_timer, add_cron,
        add_file_monitor,
    )
}  # fmt: skip
