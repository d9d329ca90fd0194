"""Waiting for states that cannot be awaited: looked at often, and not for ever."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE_SECONDS = 30.0  # for anything that should happen at once, also on a busy machine


def wait_until(
    condition: Callable[[], Any],
    seconds: float = PATIENCE_SECONDS,
    explain: Callable[[], str] = lambda: "it did not happen in time",
) -> Any:
    """Return the first true value of `condition`, called often; for states that cannot be awaited."""
    deadline = time.monotonic() + seconds
    pause = 0.0002  # most of it happens at once; longer waits are looked at less often
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, explain()
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
