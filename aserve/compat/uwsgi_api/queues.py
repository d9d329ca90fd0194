"""The functions of the module `uwsgi` for the queue that all processes share (--uwsgi-queue).

Owns:     QUEUE, by their names.
Thread:   any.
Spec:     uWSGI 2.0.30, "The uWSGI queue framework".
Not here: the queue itself (ring.py).
"""

from __future__ import annotations

from typing import Any, Callable

from .memory import shared
from .ring import Ring
from .texts import Text, octets_of


def _ring() -> Ring:
    ring = shared().ring
    assert ring is not None  # the functions are there with --uwsgi-queue alone
    return ring


def queue_push(message: Text) -> bool | None:
    """Add a message; None: it is too long."""
    return _ring().push(octets_of(message)) or None


def queue_pop() -> bytes | None:
    """Take the message that was pushed last; None: there is none."""
    return _ring().pop()


def queue_pull() -> bytes | None:
    """Take the oldest message; None: there is none."""
    return _ring().pull()


def queue_get(place: int) -> bytes | None:
    """Return the message at a place; None: there is none."""
    return _ring().get(place)


def queue_set(place: int, message: Text) -> bool | None:
    """Put a message at a place; None: there is no such place, or it is too long."""
    return _ring().set(place, octets_of(message)) or None


def queue_last(count: int = 0) -> Any:
    """Return the message that was pushed last, or a list of the last ones."""
    return _ring().last(count) if count > 0 else _ring().last(1)[0]


def queue_slot() -> int:
    """Return the place of the next message."""
    return _ring().places()[0]


def queue_pull_slot() -> int:
    """Return the place of the oldest message."""
    return _ring().places()[1]


QUEUE: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        queue_push, queue_pop, queue_pull, queue_get, queue_set, queue_last, queue_slot, queue_pull_slot,
    )
}  # fmt: skip
