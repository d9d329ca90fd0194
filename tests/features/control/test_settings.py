"""The settings of the control socket."""

from __future__ import annotations

from harness.refusals import defaults_of

from aserve.features.control.settings import ControlSettings


def test_defaults():
    """Without it there is no socket."""
    assert defaults_of(ControlSettings) == {"control": None}
