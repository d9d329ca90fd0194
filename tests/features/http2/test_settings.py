"""The settings of HTTP/2."""

from __future__ import annotations

import pytest
from harness.refusals import defaults_of

from aserve.features import Config
from aserve.features.http2.settings import HTTP2Settings
from aserve.settings import ConfigError


def test_defaults():
    """HTTP/2 is on, and allows as many streams as RFC 9113 recommends."""
    assert defaults_of(HTTP2Settings) == {"http2": "auto", "max_streams": 100}


@pytest.mark.parametrize("wrong", [{"http2": "on"}, {"max_streams": 0}, {"max_streams": 10_001}])
def test_refused(wrong):
    """A value without a meaning is refused."""
    with pytest.raises(ConfigError):
        Config(**wrong)
