"""Waiting for states that cannot be awaited: looked at often, and not for ever."""

import time
from collections.abc import Callable
from typing import Any

PATIENCE_SECONDS = 50.0  # for anything due at once, on a busy machine too: an upgrade on PyPy takes more than 30 s beside twenty processes


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
