"""Calls whose exceptions do not end the caller: an exception there is a bug of aserve's own.

Owns:     guard.
Thread:   any.
Not here: exceptions of the app (connections/, workers/).
"""

from __future__ import annotations

import logging
from typing import Any, Callable

logger = logging.getLogger("aserve")


def guard(call: Callable[..., object], *args: Any) -> bool:
    """Make a call with these arguments; log an exception, and return whether there was none."""
    try:
        call(*args)
    except Exception:
        logger.exception("internal error; please report this as a bug in aserve")
        return False
    return True
