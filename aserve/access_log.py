"""The access log: a line for each request, however it has ended, made and written off its path.

Owns:     what is kept of a request until then; the batches; requests without a line; what is told when lines are lost;
          the lines of a process that has died.
Thread:   `write` from both sides; `flush` on the event loop, once a second,
          and in any thread when very many lines wait; `reopen` on the event loop.
          `append_unanswered` in another process, which serves nothing.
Not here: what a line says (log_format.py), where it goes (log_target.py); what is logged when (connections/connection.py,
          connections/wire_loop.py); error logs (logging).

A line of `combined` costs hello 6,300 instructions beside 69,300, if the same was asked in this second; 27,800, if its target is
new (2026-11-23, callgrind, --threads 0 --loop asyncio, CPython 3.11; before lines were remembered: 11,700 and 70,100).
"""

from __future__ import annotations

import collections
import logging
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from .episode import Episode
from .errors import BindError, RequestRefused
from .exchange import ANSWERED, REFUSED, Exchange
from .log_format import LineFormat
from .log_target import Target, open_target
from .log_values import Kept, died, path_of, record_of
from .settings import Config
from .settings.log_line import parse_skip

logger = logging.getLogger("aserve")


# The most requests that wait for the next flush; beyond it, `write` flushes: 1 ms of work, which one request in so many
# waits for. Guess.
_MAX_RECORDS = 256
# A request whose vars are longer does not wait: 4 MiB may, at most.
_MAX_KEPT = 1 << 14

_time = time.time


class AccessLog:
    """An open access log."""

    def __init__(
        self, name: str, line_format: str = "combined", skip: Sequence[str] = (), worker: int | None = None
    ) -> None:
        """
        Open it; the first three are the settings, `worker`: see LineFormat.

        Raises:
            BindError: it cannot be opened.
        """
        self._name = name
        try:
            self._target: Target = open_target(name)
        except (OSError, ValueError) as exc:
            raise BindError(f"cannot write the access log {name!r}: {_why(exc)}; see --access-log") from None
        self._format = LineFormat(line_format, worker)
        self.wants_times = self._format.wants_times  # see Service.times_requests
        self.wants_ids = self._format.wants_id
        self._wants_more = self.wants_times or self._format.wants_head
        self._skips = [parse_skip(text) for text in skip]
        self._records: collections.deque[Kept] = collections.deque()
        self._flushing = threading.Lock()  # whoever takes records out also writes their lines: they stay in order
        # The lock guards these, too.
        self._trouble = Episode()
        self._goes_on = False  # something was written since the last failure
        self._lost_count = 0  # lines, since it began
        self._lost_why = ""  # the last of them
        self.lost_count = 0  # lines, since the start

    @classmethod
    def of(cls, config: Config, worker: int | None) -> AccessLog:
        """Open the one of these settings; see __init__."""
        return cls(config.access_log or "", config.access_log_format, config.access_log_skip, worker)

    def write(self, exchange: Exchange) -> None:
        """Keep what the line of a finished exchange needs."""
        response = exchange.response
        if exchange.body is not None or response is None or self._wants_more:
            self._keep(exchange, response)
            return
        records = self._records
        records.append((exchange, response.code, response.sent_bytes, _time(), 0.0, b""))
        if len(records) > _MAX_RECORDS or len(exchange.vars) > _MAX_KEPT:
            self.flush()

    def _keep(self, exchange: Exchange, response: Any) -> None:
        """Keep a less common one: its body, if it has one, must not be kept with it."""
        head = response.head if response is not None and self._format.wants_head else b""
        code, sent_bytes = (response.code, response.sent_bytes) if response is not None else (0, 0)
        self._add(_bodyless(exchange, exchange.connection), code, sent_bytes, head)

    def write_refused(self, connection: Any, exchange: Exchange | None, why: RequestRefused) -> None:
        """Keep what is known of a request that the app has not seen, or not answered in time."""
        kept = _bodyless(exchange or Exchange("", 0), connection)
        if kept.end == ANSWERED:
            kept.end = REFUSED
        self._add(kept, why.status, 0, b"")

    def _add(self, exchange: Exchange, code: int, sent_bytes: int, head: bytes) -> None:
        ended_at = time.monotonic() if self.wants_times else 0.0
        self._records.append((exchange, code, sent_bytes, time.time(), ended_at, head))
        if len(self._records) > _MAX_RECORDS or len(exchange.vars) > _MAX_KEPT:
            self.flush()

    def flush(self) -> None:
        """Make the lines of the requests that wait, and write them."""
        with self._flushing:
            take = self._records.popleft
            records = [take() for _ in range(len(self._records))]
            if records:
                if self._skips:
                    records = [record for record in records if not self._is_skipped(record)]
                self._write_lines(self._format.lines(records))

    def on_second(self) -> None:
        """Called once a second: write what waits, and tell when trouble is over."""
        self.flush()
        with self._flushing:
            if self._goes_on and self._trouble.is_over_at_second():
                self._tell_lost("is written again")

    def reopen(self) -> None:
        """Go on in the file that has the name now; the one of before was moved away, as logrotate does."""
        self.flush()
        try:
            with self._flushing:
                is_reopened = self._target.reopen()
        except OSError as exc:
            logger.error("cannot reopen the access log %r: %s; going on in the one of before", self._name, _why(exc))
            return
        if is_reopened:
            logger.info("the access log %r was reopened", self._name)

    def close(self) -> None:
        """Write the rest and close the file."""
        self.flush()
        with self._flushing:
            self._tell_lost("is closed")
            self._target.close()

    def _is_skipped(self, kept: Kept) -> bool:
        record = record_of(kept)
        return any(skip.path.match(path_of(record)) and skip.status.match(str(record.status)) for skip in self._skips)

    def _write_lines(self, lines: Sequence[str]) -> None:
        """Write them; what cannot be written is lost: a full disk or a closed pipe must not stop the service."""
        sent = 0
        try:
            sent = self._target.write(lines) if lines else 0
            why = self._target.why_in_part
        except OSError as exc:
            why = _why(exc)
        self._goes_on |= sent > 0
        if sent == len(lines):
            return
        self._goes_on = False
        self._lost_count, self._lost_why = self._lost_count + len(lines) - sent, why
        self.lost_count += len(lines) - sent
        if self._trouble.begins():
            logger.error("cannot write the access log %r: %s; its lines are lost until that is over", self._name, why)

    def _tell_lost(self, what: str) -> None:
        if self._lost_count:
            logger.warning(
                "the access log %r %s; lines that were lost: %d (%s)",
                self._name,
                what,
                self._lost_count,
                self._lost_why,
            )
            self._lost_count = 0


def _bodyless(exchange: Exchange, connection: Any) -> Exchange:
    """Return what a line needs of an exchange, which holds its body as long as somebody has it."""
    kept = Exchange(exchange.vars, exchange.own_count)
    kept.connection, kept.client, kept.is_from_front = connection, exchange.client, exchange.is_from_front
    kept.arrived_at, kept.began_at, kept.thread_id = exchange.arrived_at, exchange.began_at, exchange.thread_id
    kept.end = exchange.end
    return kept


def append_unanswered(config: Config, requests: Iterable[tuple[float, str]], worker: int, pid: int) -> None:
    """
    Add a line for each request that a worker process was at when it died: for how long, and "METHOD target", escaped.

    This does not wait for the reader of a named pipe.
    """
    name = config.access_log
    if name is None:
        return
    line_format = LineFormat(config.access_log_format, worker, pid)
    lines = line_format.lines([died(text, seconds) for seconds, text in requests])
    try:
        target = open_target(name, is_patient=False)
        try:
            target.write(lines)
        finally:
            target.close()
    except (OSError, ValueError) as exc:
        logger.error("cannot write what was cut to the access log %r: %s", name, _why(exc))


def _why(exc: Exception) -> str:
    return getattr(exc, "strerror", None) or str(exc)
