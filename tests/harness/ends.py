"""Ends of requests, as core/ends.py keeps them."""

import time
from typing import Any

from aserve.core.ends import Ended, ended_of

_monotonic = time.monotonic


def ended(exchange: Any) -> Ended:
    """Return the kept record of an exchange that ends now."""
    return ended_of(exchange, _monotonic(), hasattr(exchange.response, "head"))
