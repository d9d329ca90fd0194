"""The settings of the control socket.

Owns:     ControlSettings.
Thread:   any; pure.
"""

from __future__ import annotations

from ...settings import EngineSettings, row
from ...settings.kinds import FILE
from ...settings.paths import whole


class ControlSettings(EngineSettings):
    """The settings of this feature."""

    # fmt: off
    control: str | None = row(
        None, "Process", "--control", FILE,
        "unix socket through which `aserve status`, `stacks`, `reload`, `workers` and `balancers` reach this server; for root and its own user only",
        "No file is written unless you ask for it.",
        fixed=True,
        path=whole,
    )
    # fmt: on
