"""The functions of the module `uwsgi` for metrics of the app that all processes share (--uwsgi-metric).

Owns:     METRICS, by their names.
Thread:   any.
Spec:     uWSGI 2.0.30, "The Metrics subsystem".
Not here: the memory (memory.py); the server's own metrics (features/metrics/).
"""

from __future__ import annotations

import struct
from typing import Any, Callable

from .memory import shared
from .texts import Text, octets_of


def _metric(name: Text, change: Callable[[int], int]) -> bool | None:
    """Change a metric; return True, or None if there is none of this name."""
    offset, octets = shared().metrics.get(octets_of(name).decode()), shared().octets
    if offset is None:
        return None

    def write() -> None:
        (number,) = struct.unpack_from("=q", octets, offset)
        struct.pack_into("=q", octets, offset, _fitted(change(number)))

    shared().locks.run(write)
    return True


def metric_get(name: Text) -> int:
    """Return a metric; 0: there is none of this name."""
    offset = shared().metrics.get(octets_of(name).decode())
    return 0 if offset is None else struct.unpack_from("=q", shared().octets, offset)[0]


def metric_set(name: Text, value: int) -> bool | None:
    """Set a metric; None, as for all of these: there is none of this name."""
    return _metric(name, lambda number: value)


def metric_set_max(name: Text, value: int) -> bool | None:
    """Set a metric, if that is more."""
    return _metric(name, lambda number: max(number, value))


def metric_set_min(name: Text, value: int) -> bool | None:
    """Set a metric, if that is less."""
    return _metric(name, lambda number: min(number, value))


def metric_inc(name: Text, amount: int = 1) -> bool | None:
    """Add to a metric."""
    return _metric(name, lambda number: number + amount)


def metric_dec(name: Text, amount: int = 1) -> bool | None:
    """Subtract from a metric."""
    return _metric(name, lambda number: number - amount)


def metric_mul(name: Text, amount: int = 1) -> bool | None:
    """Multiply a metric."""
    return _metric(name, lambda number: number * amount)


def metric_div(name: Text, amount: int = 1) -> bool | None:
    """Divide a metric; None, too: by 0."""
    return _metric(name, lambda number: number // amount) if amount else None


METRICS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        metric_get, metric_set, metric_set_max, metric_set_min, metric_inc, metric_dec, metric_mul, metric_div,
    )
}  # fmt: skip


def _fitted(number: int) -> int:
    """Return a number cut to 64 bits, as C does."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
