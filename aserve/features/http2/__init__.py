"""HTTP/2 (--http2): the streams of a connection run on different threads at once.

Owns:     HTTP2, the extension.
Thread:   event loop only.
Not here: a connection (session.py), a stream (stream.py), its request (request.py), frames (protocols/http2.py).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence

from ...extension import AddedProtocol, Extension
from .settings import HTTP2Settings

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class HTTP2(Extension[HTTP2Settings]):
    """--http2: chosen by ALPN in TLS; without TLS, a trusted peer may begin with it."""

    @classmethod
    def is_on(cls, config: HTTP2Settings) -> bool:
        """See Extension."""
        return config.speaks_http2

    def prepare(self) -> contextlib.AbstractContextManager[object]:
        """See Extension: import before --user gives up root, as an environment may be readable by root alone."""
        from . import session  # noqa: F401

        return contextlib.nullcontext()

    def protocols(self) -> Sequence[AddedProtocol]:
        """See Extension; RFC 9113 section 3.4."""
        from .session import Session  # only where it is used

        new_session = functools.partial(Session, max_streams=self._config.max_streams)
        return [AddedProtocol("h2", new_session, PREFACE if self._config.http2 == "h2c" else b"")]
