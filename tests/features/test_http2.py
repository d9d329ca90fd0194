"""HTTP/2 is there if it is wanted, and can be."""

from __future__ import annotations

import importlib.util
import logging
import subprocess
import sys

import pytest

from aserve.features import Config, extensions_of
from aserve.features.http2 import HTTP2
from aserve.settings import ConfigError

TLS = "https://127.0.0.1:0"


@pytest.mark.parametrize(
    ("settings", "is_on"),
    [
        ({"bind": TLS}, True),
        ({"bind": TLS, "http2": "auto"}, True),
        ({"bind": TLS, "http2": "off"}, False),
        ({}, False),
        ({"http2": "h2c", "trusted_proxies": "10.0.0.1"}, True),
        ({"bind": TLS, "http2": "h2c", "trusted_proxies": "10.0.0.1"}, True),
    ],
)
def test_switch(settings, is_on):
    """It is on where there is TLS, as ALPN chooses it, unless the setting turns it off."""
    config = Config(certificate="c" if "bind" in settings else None, **settings)
    assert HTTP2.is_on(config) == is_on
    extensions = extensions_of(config)
    assert list(extensions.carriers) == ["h2"] * is_on
    assert [*extensions.prefaces] == [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] * (config.http2 == "h2c")


def test_h2c_is_for_proxies():
    """Without TLS no other client may begin with it; an error says so."""
    with pytest.raises(ConfigError, match="http2 'h2c' is for proxies only; name them in trusted-proxies"):
        Config(http2="h2c")


def test_h2c_without_the_library(monkeypatch):
    """What is asked for by name is not left out silently."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="http2 'h2c': the library h2 is not installed: pip install"):
        Config(http2="h2c", trusted_proxies="10.0.0.1")


def test_the_library_is_needed(monkeypatch, caplog):
    """Without it HTTP/1.1 is served, and the log says once what to install."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    extension = HTTP2(Config(bind=TLS, certificate="c"))
    with extension.prepare():
        assert extension.carriers() == {}
    assert caplog.text.count("pip install 'aserve-wsgi[http2]'") == 1


@pytest.mark.parametrize(("bind", "is_there"), [(TLS, True), ("127.0.0.1:0", False)])
def test_the_import_comes_before_binding(bind, is_there):
    """The library is there before --user gives up root: what only root may read is not needed after that."""
    code = f"""
import sys
from aserve.features import Config, extensions_of
with extensions_of(Config(bind={bind!r}, certificate={"c" if is_there else None!r})).prepare():
    print("h2.connection" in sys.modules, "aserve.features.http2.session" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == [str(is_there)] * 2
