"""The access log: one line a request, written off the hot path.

Owns:     the format ("combined", as Apache and nginx write it), the file,
          the batching.
Thread:   `write` from both sides; `flush` on the event loop, once a second,
          and wherever very many lines wait.
Not here: what is logged when (connections/connection.py, connections/wire_loop.py), error
          logs (logging).
"""

from __future__ import annotations

import collections
import sys
import threading
import time
from typing import Any, TextIO

from .errors import BindError, RequestRefused
from .exchange import Exchange, escape

# Lines kept until the next flush, at most; then `write` flushes itself. Guess.
_MAX_LINES = 1000


class AccessLog:
    """An open access log."""

    def __init__(self, path: str) -> None:
        try:
            self._file: TextIO = sys.stdout if path == "-" else open(path, "a", encoding="latin-1", errors="replace")
        except OSError as exc:
            raise BindError(f"cannot write the access log {path!r}: {exc.strerror}; see --access-log") from None
        self._is_ours = path != "-"
        self._lines: collections.deque[str] = collections.deque()
        self._flushing = threading.Lock()  # who takes lines out also writes them: so they stay whole and in order
        self._stamp = (-1, "")

    def write(self, exchange: Exchange) -> None:
        """Note a finished exchange."""
        response = exchange.response
        code, sent_bytes = (response.code, response.sent_bytes) if response is not None else (0, 0)
        self._add((exchange.client or exchange.connection).remote_addr, exchange, code, sent_bytes)

    def write_refused(self, connection: Any, exchange: Exchange | None, why: RequestRefused) -> None:
        """Note a request that the app has not seen."""
        client = exchange.client if exchange is not None else None
        self._add((client or connection).remote_addr, exchange, why.status, 0)

    def flush(self) -> None:
        """Write what has been noted."""
        with self._flushing:
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            if lines:
                try:
                    self._file.write("".join(lines))
                    self._file.flush()
                except (OSError, ValueError):
                    pass  # a full disk or a closed pipe must not stop the service

    def close(self) -> None:
        """Write the rest and close the file."""
        self.flush()
        if self._is_ours:
            self._file.close()

    def _add(self, client: str, exchange: Exchange | None, code: int, sent_bytes: int) -> None:
        request, referer, agent = '"-"', "-", "-"
        if exchange is not None and exchange.vars:
            parts = iter(exchange.vars.split("\0"))
            vars = dict(zip(parts, parts))
            version = escape(vars.get("SERVER_PROTOCOL", "-"))
            request = f'"{exchange.summary} {version}"'
            if exchange.is_from_front:
                client = escape(vars.get("REMOTE_ADDR", ""))
            referer = escape(vars.get("HTTP_REFERER", "-"))
            agent = escape(vars.get("HTTP_USER_AGENT", "-"))
        self._lines.append(
            f'{client or "-"} - - [{self._now()}] {request} {code} {sent_bytes or "-"} "{referer}" "{agent}"\n'
        )
        if len(self._lines) > _MAX_LINES:
            self.flush()

    def _now(self) -> str:
        now = int(time.time())
        second, stamp = self._stamp
        if now != second:
            stamp = time.strftime("%d/%b/%Y:%H:%M:%S %z", time.localtime(now))
            self._stamp = (now, stamp)
        return stamp
