"""Calls that must not end their caller: an exception in one is a bug of aserve's own.

Owns:     guard.
Thread:   any.
Not here: exceptions of the app (connections/, workers/).
"""

from __future__ import annotations

import logging
from typing import Any, Callable

logger = logging.getLogger("aserve")


def guard(call: Callable[..., object], *args: Any) -> bool:
    """Make a call with these arguments; log its exception, and return whether it had none."""
    try:
        call(*args)
    except Exception:
        logger.exception("internal error; please report this as a bug in aserve")
        return False
    return True
