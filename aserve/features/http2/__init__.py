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
    """--http2."""

    switches, off = ("http2",), "off"

    def prepare(self) -> contextlib.AbstractContextManager[object]:
        """See Extension: import the library before --user gives up root, as an environment may be readable by root alone."""
        if self._has_tls and importlib.util.find_spec("h2") is not None:
            from . import session  # noqa: F401
        return contextlib.nullcontext()

    @property
    def _has_tls(self) -> bool:
        return any(bind.startswith("https://") for bind in self._config.bind)

    def carriers(self) -> Mapping[str, NewCarrier]:
        """See Extension; none without TLS, by which HTTP/2 is chosen, and without the library that speaks it."""
        if not self._has_tls:
            return {}
        if importlib.util.find_spec("h2") is None:
            logger.info("HTTP/2 is off, as the library h2 is not installed: pip install 'aserve-wsgi[http2]'")
            return {}
        from .session import Session  # h2: 1 MB of a process, only where it is used

        return {"h2": functools.partial(Session, max_streams=self._config.max_streams)}
