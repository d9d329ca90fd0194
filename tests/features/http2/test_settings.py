"""The settings of HTTP/2."""

from __future__ import annotations

import pytest
from harness.refusals import defaults_of

from aserve.features import Config
from aserve.features.http2.settings import HTTP2Settings
from aserve.settings import ConfigError


def test_defaults_turn_http_2_on():
    """HTTP/2 is on, with the number of streams that RFC 9113 recommends."""
    assert defaults_of(HTTP2Settings) == {"http2": "auto", "max_streams": 100}


@pytest.mark.parametrize("wrong", [{"http2": "on"}, {"max_streams": 0}, {"max_streams": 10_001}])
def test_refused_are_values_without_a_meaning(wrong):
    with pytest.raises(ConfigError):
        Config(**wrong)
