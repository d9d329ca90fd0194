"""The settings of reports of slow requests.

Owns:     SlowRequestSettings.
Thread:   any; pure.
"""

from __future__ import annotations

from ...settings import EngineSettings, row
from ...settings.kinds import duration


class SlowRequestSettings(EngineSettings):
    """The settings of this feature."""

    # fmt: off
    slow_request_seconds: float = row(
        0.0, "Logs", "--slow-request", duration(0.0),
        "log a request that takes longer than this while it runs, with the stack of its thread; 0: none; see `aserve docs logging`",
        "Only you know how long a request may take. On, it costs an app that does nothing 5 % more instructions.",
    )
    # fmt: on
