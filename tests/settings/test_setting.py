"""The parts of each row."""

import pytest

from aserve.features import SETTINGS
from aserve.settings import COMMAND_NAMES


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_row_is_complete(setting):
    """Every setting tells the effect and the reason of the default; the names follow the flag."""
    assert setting.help
    assert not setting.help.endswith(".")
    assert setting.why.endswith(".")
    assert setting.flag == f"--{setting.key}"
    assert setting.variable == "ASERVE_" + setting.key.upper().replace("-", "_")
    assert setting.kind.parse(setting.default) == setting.default


def test_names_are_unique():
    """No two settings share a flag, and none takes a name of the command's own."""
    keys = [setting.key for setting in SETTINGS]
    assert len(set(keys)) == len(keys)
    assert not set(keys) & {*COMMAND_NAMES, "check", "version", "help"}
