"""What the tests of several behaviours share."""

from __future__ import annotations

import os

import pytest
from harness import apps


@pytest.fixture
def serve_tls(start_server, tls_settings):
    """Start servers with TLS: serve_tls(app, **settings) -> RunningServer."""
    return lambda app=apps.hello, **settings: start_server(app, **{**tls_settings, **settings})


@pytest.fixture
def serve_http2(serve_tls):
    """Start servers with HTTP/2: serve_http2(app, **settings) -> RunningServer."""
    return lambda app=apps.hello, **settings: serve_tls(app, http2="auto", **settings)


@pytest.fixture
def reads(monkeypatch):
    """Return the list of octets that each read of a file to be sent has had."""
    counts = []
    real = os.pread

    def counting(*arguments):
        octets = real(*arguments)
        counts.append(len(octets))
        return octets

    monkeypatch.setattr(os, "pread", counting)
    return counts
