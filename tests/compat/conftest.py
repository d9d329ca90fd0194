"""The fixtures of the tests in this folder."""

import pytest
from harness.gateways import closed_streams, fork

from aserve.compat.moving import uwsgi_values

__all__ = ["closed_streams", "fork"]


@pytest.fixture(autouse=True)
def syslog_is_there(monkeypatch):
    """A container has none."""
    monkeypatch.setattr(uwsgi_values, "LOCAL_SYSLOG", __file__)
