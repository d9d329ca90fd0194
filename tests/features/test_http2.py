"""HTTP/2 is there if it is wanted, and can be."""

from __future__ import annotations

import importlib.util
import logging
import subprocess
import sys

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


@pytest.mark.parametrize(("bind", "is_there"), [(TLS, True), ("127.0.0.1:0", False)])
def test_the_import_comes_before_binding(bind, is_there):
    """The library is there before --user gives up root: what only root may read is not needed after that."""
    code = f"""
import sys
from aserve.features import Config
from aserve.features.http2 import HTTP2
with HTTP2(Config(http2="auto", bind={bind!r}, certificate={"c" if is_there else None!r})).prepare():
    print("h2.connection" in sys.modules, "aserve.features.http2.session" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == [str(is_there)] * 2
