"""Ends of requests, as request_log.py keeps them."""

from __future__ import annotations

import time
from typing import Any

_monotonic = time.monotonic


def ended(exchange: Any) -> tuple[Any, int, int, float, bytes]:
    """Return an exchange that has ended just now."""
    response = exchange.response
    if response is None:
        return exchange, 0, 0, _monotonic(), b""
    return exchange, response.code, response.sent_bytes, _monotonic(), getattr(response, "head", b"")
