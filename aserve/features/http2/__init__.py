"""HTTP/2 (--http2): the streams of a connection run on different threads at once.

Owns:     HTTP2, the extension.
Thread:   event loop only.
Not here: a connection (session.py), a stream (stream.py), its request (request.py), the rules of field sections (fields.py).
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Mapping

from ...connections.carrier import NewCarrier
from ...extension import Extension
from .settings import NO_LIBRARY, HTTP2Settings, has_library

logger = logging.getLogger("aserve")

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class HTTP2(Extension[HTTP2Settings]):
    """--http2: chosen by ALPN in TLS; without TLS, a trusted peer may begin with it."""

    @classmethod
    def is_on(cls, config: HTTP2Settings) -> bool:
        """See Extension."""
        return config.speaks_http2

    def prepare(self) -> contextlib.AbstractContextManager[object]:
        """See Extension: import the library before --user gives up root, as an environment may be readable by root alone."""
        if has_library():
            from . import session  # noqa: F401
        else:
            logger.info("HTTP/2 is off: %s", NO_LIBRARY)
        return contextlib.nullcontext()

    def carriers(self) -> Mapping[str, NewCarrier]:
        """See Extension; none without the library that speaks it."""
        return {"h2": self._new_carrier()} if has_library() else {}

    def prefaces(self) -> Mapping[bytes, NewCarrier]:
        """See Extension; RFC 9113 section 3.4."""
        return {PREFACE: self._new_carrier()} if self._config.http2 == "h2c" else {}

    def _new_carrier(self) -> NewCarrier:
        from .session import Session  # h2: 2 MB of a process, only where it is used

        return functools.partial(Session, max_streams=self._config.max_streams)
