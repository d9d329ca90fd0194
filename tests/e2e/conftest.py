"""What the tests of several behaviours share."""

from __future__ import annotations

import pytest
from harness import apps


@pytest.fixture
def serve_tls(start_server, tls_settings):
    """Start servers with TLS: serve_tls(app, **settings) -> RunningServer."""
    return lambda app=apps.hello, **settings: start_server(app, **{**tls_settings, **settings})
