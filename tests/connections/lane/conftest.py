"""Servers of HTTP/2 with connections in the lane, over TLS and without."""

import contextlib
import ssl

import pytest
from harness.http2_client import CleartextClient, HTTP2Client


class HTTP2Servers:
    """Starts servers, and connects clients to these."""

    def __init__(self, way, start_server, tls_settings, authority, stack):
        self._start, self._stack = start_server, stack
        self.is_tls = way != "cleartext"
        self._settings = {"native": way, **tls_settings} if self.is_tls else {"trusted_proxies": ["127.0.0.1"]}
        self._authority = str(authority.certificate)

    def __call__(self, app, **settings):
        """Return a server and a client."""
        server = self._start(
            app, is_checked=False, http2="auto" if self.is_tls else "h2c", **self._settings, **settings
        )
        return server, self.connect(server)

    def connect(self, server, receive_buffer_bytes=None):
        """Return a client."""
        if self.is_tls:
            context = ssl.create_default_context(cafile=self._authority)
            client = HTTP2Client(server.address, receive_buffer_bytes, context)
        else:
            client = CleartextClient(server.address, receive_buffer_bytes)
        return self._stack.enter_context(contextlib.closing(client))


@pytest.fixture(params=["auto", "off", "cleartext"])
def serve_http2(request, start_server, tls_settings, authority):
    """serve_http2(app) -> a server and a client; C serves plain requests, or Python, or C without TLS."""
    with contextlib.ExitStack() as stack:
        yield HTTP2Servers(request.param, start_server, tls_settings, authority, stack)
