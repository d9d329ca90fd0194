"""Waiting for what cannot be awaited: asked often, and not for ever."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE_SECONDS = 30.0  # for anything that should happen at once, also where others use the machine


def wait_until(
    condition: Callable[[], Any],
    seconds: float = PATIENCE_SECONDS,
    explain: Callable[[], str] = lambda: "it did not happen in time",
) -> Any:
    """Return the first true value of `condition`, asked often; for what cannot be awaited."""
    deadline = time.monotonic() + seconds
    pause = 0.0002  # most of it happens at once; what takes longer is asked less often
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, explain()
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
