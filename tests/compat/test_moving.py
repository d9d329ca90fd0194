"""`aserve translate` is a command of a feature of no server."""

import pytest

from aserve.compat.moving import Translating
from aserve.features import Config
from aserve.settings import ConfigError


def test_its_command_needs_no_setting():
    assert not Translating.is_on(Config()) and [*Translating.commands()] == ["translate"]
    with pytest.raises(ConfigError, match="says neither uWSGI"):
        Translating.commands()["translate"](["translate", "a.txt"], {})
