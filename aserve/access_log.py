"""The access log: one line a request, written off the hot path.

Owns:     the format ("combined", as Apache and nginx write it), the file,
          the batching; the lines of a process that has died.
Thread:   `write` from both sides; `flush` on the event loop, once a second,
          and in any thread when very many lines wait; `reopen` on the event loop.
          `append_unanswered` in another process, which serves nothing.
Not here: what is logged when (connections/connection.py, connections/wire_loop.py), error
          logs (logging).

Several processes may write one file: each appends whole lines with one write(2), which no other can tear.
"""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any, TextIO

from .errors import BindError, RequestRefused
from .exchange import Exchange, escape

logger = logging.getLogger("aserve")

# The most lines that wait for the next flush; beyond it, `write` flushes. Guess.
_MAX_LINES = 1000


class AccessLog:
    """An open access log."""

    wants_times = False  # its lines say how long a request has waited, or taken: see Service.times_requests

    def __init__(self, path: str) -> None:
        try:
            self._file = sys.stdout if path == "-" else _open(path)
        except OSError as exc:
            raise BindError(f"cannot write the access log {path!r}: {exc.strerror}; see --access-log") from None
        self._is_ours = path != "-"
        self._path = os.path.abspath(path)  # the app may change the folder
        self._lines: collections.deque[str] = collections.deque()
        self._flushing = threading.Lock()  # whoever takes lines out also writes them: they stay in order
        self._stamp = (-1, "")

    def write(self, exchange: Exchange) -> None:
        """Add the line of a finished exchange."""
        response = exchange.response
        code, sent_bytes = (response.code, response.sent_bytes) if response is not None else (0, 0)
        self._add((exchange.client or exchange.connection).remote_addr, exchange, code, sent_bytes)

    def write_refused(self, connection: Any, exchange: Exchange | None, why: RequestRefused) -> None:
        """Add the line of a request that the app has not seen."""
        client = exchange.client if exchange is not None else None
        self._add((client or connection).remote_addr, exchange, why.status, 0)

    def flush(self) -> None:
        """Write the lines that wait to the file."""
        with self._flushing:
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            if lines:
                try:
                    self._file.write("".join(lines))
                    self._file.flush()
                except (OSError, ValueError):
                    pass  # a full disk or a closed pipe must not stop the service

    def reopen(self) -> None:
        """Go on in the file that has the name now; the one of before was moved away, as logrotate does."""
        if not self._is_ours:
            return
        try:
            file = _open(self._path)
        except OSError as exc:
            logger.error("cannot reopen the access log %r: %s; going on in the one of before", self._path, exc.strerror)
            return
        self.flush()
        with self._flushing:
            before, self._file = self._file, file
        with contextlib.suppress(OSError):  # a disk that is full
            before.close()
        logger.info("the access log %r was reopened", self._path)

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
        self._lines.append(_line(client, self._now(), request, code, sent_bytes, referer, agent))
        if len(self._lines) > _MAX_LINES:
            self.flush()

    def _now(self) -> str:
        now = int(time.time())
        second, stamp = self._stamp
        if now != second:
            stamp = _stamp(now)
            self._stamp = (now, stamp)
        return stamp


def append_unanswered(path: str, requests: Iterable[str]) -> None:
    """
    Add a line for each request that a process was at when it died: "METHOD target", escaped; no more is known of it.

    This does not wait for the reader of a named pipe; who reads standard output is taken to go on.
    """
    stamp = _stamp(int(time.time()))
    octets = "".join(_line("", stamp, f'"{request} -"', 0, 0, "-", "-") for request in requests).encode()
    try:
        fd = os.dup(1) if path == "-" else os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o666)
        try:
            os.write(fd, octets)
        finally:
            os.close(fd)
    except OSError as exc:
        logger.error("cannot write what was cut to the access log %r: %s", path, exc.strerror)


def _line(client: str, stamp: str, request: str, code: int, sent_bytes: int, referer: str, agent: str) -> str:
    return f'{client or "-"} - - [{stamp}] {request} {code} {sent_bytes or "-"} "{referer}" "{agent}"\n'


def _stamp(now: int) -> str:
    return time.strftime("%d/%b/%Y:%H:%M:%S %z", time.localtime(now))


def _open(path: str) -> TextIO:
    return open(path, "a", encoding="latin-1", errors="replace")
