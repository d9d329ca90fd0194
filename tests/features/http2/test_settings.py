"""The settings of HTTP/2."""

import pytest

from aserve.features import Config
from aserve.settings import ConfigError


@pytest.mark.parametrize("wrong", [{"http2": "on"}, {"max_streams": 0}, {"max_streams": 10_001}])
def test_refused_are_values_without_a_meaning(wrong):
    with pytest.raises(ConfigError):
        Config(**wrong)
