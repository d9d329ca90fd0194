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
        "log a request longer than this during the run, with the stack of the thread; 0: none; see `aserve docs logging`",
        "Only you know how long a request may take. An empty app needs 5 % more instructions then.",
    )
    # fmt: on
