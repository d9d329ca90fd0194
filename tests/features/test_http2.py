"""HTTP/2 is there if it is wanted, and can be."""

from __future__ import annotations

import importlib.util
import logging

import pytest

from aserve.features import Config
from aserve.features.http2 import HTTP2

TLS = "https://127.0.0.1:0"


@pytest.mark.parametrize(("value", "is_on"), [("auto", True), ("off", False)])
def test_switch(value, is_on):
    """The setting turns it on."""
    assert HTTP2.is_on(Config(http2=value)) == is_on


@pytest.mark.parametrize(("bind", "names"), [(TLS, ["h2"]), ("127.0.0.1:0", [])])
def test_tls_is_needed(bind, names):
    """ALPN chooses it, which is a part of TLS."""
    config = Config(http2="auto", bind=bind, certificate="c" if names else None)
    assert list(HTTP2(config).carriers()) == names


def test_the_library_is_needed(monkeypatch, caplog):
    """Without it HTTP/1.1 is served, and the log says what to install."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert HTTP2(Config(http2="auto", bind=TLS, certificate="c")).carriers() == {}
    assert "pip install 'aserve-wsgi[http2]'" in caplog.text
