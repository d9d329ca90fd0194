"""Tests of plain requests in C and in Python; and the default of --native in all tests, changed by ASERVE_NATIVE (`make test-native-off`)."""

import os

import pytest

from aserve.features import Config

from .interpreter import has_module

IS_BUILT = has_module("aserve._native")
ENV = {name: value for name, value in os.environ.items() if name == "ASERVE_NATIVE"}  # for commands started by a test
DEFAULT = ENV.get("ASERVE_NATIVE", Config().native)
OTHER = "off" if DEFAULT == "auto" else "auto"
AS_IN_TABLE = pytest.mark.skipif(bool(ENV), reason="it shows what differs from the table of settings")


def change_default() -> None:
    """Make the default every server's in this process, too, which does not read the environment."""
    Config.native = DEFAULT
