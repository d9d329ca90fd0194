"""HTTP/2 is there if wanted."""

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
def test_http_2_is_on_with_tls(settings, is_on):
    """HTTP/2 is on where there is TLS, by ALPN, unless the setting turns it off."""
    config = Config(certificate="c" if "bind" in settings else None, **settings)
    assert HTTP2.is_on(config) == is_on
    extensions = extensions_of(config)
    extensions.add_protocols()
    assert list(extensions.carriers) == ["h2"] * is_on
    assert [*extensions.prefaces] == [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] * (config.http2 == "h2c")


def test_h2c_is_for_proxies():
    """Without TLS no other client may begin with HTTP/2; an error says so."""
    with pytest.raises(ConfigError, match="--http2 h2c is for proxies only; name them with --trusted-proxies"):
        Config(http2="h2c")


@pytest.mark.parametrize(("bind", "is_there"), [(TLS, True), ("127.0.0.1:0", False)])
def test_the_import_comes_before_binding(bind, is_there):
    """The session is there before --user gives up root: files for root alone are not needed afterwards; no library is needed at all."""
    code = f"""
import sys
from aserve.features import Config, extensions_of
with extensions_of(Config(bind={bind!r}, certificate={"c" if is_there else None!r})).prepare():
    print("aserve.features.http2.session" in sys.modules, "h2" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == [str(is_there), "False"]
