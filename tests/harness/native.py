"""Tests with --native auto as the default: ASERVE_NATIVE says so, as it does for the command; `make test-native` sets it."""

from __future__ import annotations

import inspect
import os

from aserve.settings import Config

NATIVE = os.environ.get("ASERVE_NATIVE")
ENV = {} if NATIVE is None else {"ASERVE_NATIVE": NATIVE}  # for commands that a test starts


def change_default() -> None:
    """Make it the default of every server in this process, too, which does not read the environment."""
    if NATIVE is not None:
        names = list(inspect.signature(Config.__init__).parameters)[1:]
        defaults = list(Config.__init__.__defaults__ or ())
        defaults[names.index("native")] = NATIVE
        Config.__init__.__defaults__ = tuple(defaults)  # type: ignore[misc]
