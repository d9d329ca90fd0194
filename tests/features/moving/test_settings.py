"""--dropped-guards."""

from __future__ import annotations

import pytest

from aserve.features import Config
from aserve.settings import ConfigError


def test_dropped_guards():
    """A file whose guards cannot be obeyed ends the start, unless the setting says otherwise."""
    assert Config().dropped_guards == "refuse" and Config(dropped_guards="warn").dropped_guards == "warn"
    with pytest.raises(ConfigError, match="accepted: refuse, warn"):
        Config(dropped_guards="off")
