"""HTTP/2 over TLS (--http2): the streams of a connection run on different threads at once.

Owns:     HTTP2, the extension.
Thread:   event loop only.
Not here: a connection (session.py), a stream (stream.py), its request (request.py), the rules of field sections (fields.py).
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import logging
from collections.abc import Mapping

from ...connections.carrier import NewCarrier
from ...extension import Extension
from .settings import HTTP2Settings

logger = logging.getLogger("aserve")


class HTTP2(Extension[HTTP2Settings]):
    """--http2, for servers that speak TLS, by which HTTP/2 is chosen."""

    @classmethod
    def is_on(cls, config: HTTP2Settings) -> bool:
        """See Extension."""
        return config.http2 != "off" and any(bind.startswith("https://") for bind in config.bind)

    def prepare(self) -> contextlib.AbstractContextManager[object]:
        """See Extension: import the library before --user gives up root, as an environment may be readable by root alone."""
        if _has_library():
            from . import session  # noqa: F401
        else:
            logger.info("HTTP/2 is off, as the library h2 is not installed: pip install 'aserve-wsgi[http2]'")
        return contextlib.nullcontext()

    def carriers(self) -> Mapping[str, NewCarrier]:
        """See Extension; none without the library that speaks it."""
        if not _has_library():
            return {}
        from .session import Session  # h2: 2 MB of a process, only where it is used

        return {"h2": functools.partial(Session, max_streams=self._config.max_streams)}


def _has_library() -> bool:
    return importlib.util.find_spec("h2") is not None
