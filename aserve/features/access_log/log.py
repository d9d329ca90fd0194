"""The access log: a line for each request, however it has ended, made and written off its path.

Owns:     the lines that wait to be written; requests without a line; what is told when lines are lost;
          the lines of a process that has died.
Thread:   `write` whichever thread tells of ends (core/ends.py); `write_refused`, `on_second`, `reopen` on the event loop.
          `append_unanswered` in another process, which serves nothing.
Not here: what a line says (log_format.py), where it goes (core/log_target.py); what is logged when (connections/connection.py,
          connections/wire_loop.py); error logs (logging).

A line costs 0.6 us alone, and 0.2 us among 64, if the same was asked in this second (2026-11-23, CPython 3.11).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from ...core.ends import Ended
from ...core.episode import Episode
from ...core.errors import BindError, RequestRefused
from ...core.exchange import ANSWERED, REFUSED, Exchange
from ...core.log_target import Target, open_target
from ...settings import EngineSettings
from .line_program import new_program
from .log_format import LineFormat
from .log_line import parse_skip
from .log_values import died, path_of, record_of
from .settings import AccessLogSettings

logger = logging.getLogger("aserve")


# The most characters that wait for the next second; beyond it they are written at once. Guess: some 250 lines.
_MAX_LENGTH = 1 << 15

_time, _monotonic = time.time, time.monotonic


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
        # The format as native/lines.c takes it; None: Python makes all lines.
        self.program = None if skip else new_program(line_format, lambda: self._epoch, worker)
        self.wants_times = self._format.wants_times  # see Service.times_requests
        self.wants_ids = self._format.wants_id
        self.wants_head = self._format.wants_head
        self._skips = [parse_skip(text) for text in skip]
        self._flushing = threading.Lock()  # guards the format, the target, and all of these
        self._lines: list[str] = []  # that wait: texts of one or more
        self._length = 0  # of these
        self._set_clock()
        self._trouble = Episode()
        self._goes_on = False  # something was written since the last failure
        self._lost_count = 0  # lines, since it began
        self._lost_why = ""  # the last of them
        self.lost_count = 0  # lines, since the start

    @classmethod
    def of(cls, config: AccessLogSettings, worker: int | None) -> AccessLog:
        """Open the one of these settings; see __init__."""
        return cls(config.access_log or "", config.access_log_format, config.access_log_skip, worker)

    def _set_clock(self) -> None:
        """Note what to add to time.monotonic(), so that each request need not ask for the time of day, too."""
        self._epoch = _time() - _monotonic()

    def write(self, ended: Sequence[Ended]) -> None:
        """Make the lines of these."""
        with self._flushing:
            if self._skips:
                ended = [each for each in ended if not self._is_skipped(each)]
            self._add(self._format.lines(ended, self._epoch))

    def write_lines(self, octets: bytes) -> None:
        """Take lines that native/lines.c has made."""
        with self._flushing:
            self._add([octets.decode()])

    def _add(self, made: list[str]) -> None:
        self._lines += made
        self._length += sum(map(len, made))
        if self._length > _MAX_LENGTH:
            self._flush()

    def write_refused(self, connection: Any, exchange: Exchange | None, why: RequestRefused) -> None:
        """Make the line of a request that the app has not seen, or not answered in time, of what is known of it."""
        known = exchange or Exchange("", 0)
        addr, end = (known.client or connection).remote_addr, REFUSED if known.end == ANSWERED else known.end
        times = known.arrived_at, known.began_at, 0.0, _monotonic()
        self.write([(known.vars, known.is_from_front, addr, why.status, 0, end, *times, known.thread_id, False, b"")])

    def flush(self) -> None:
        """Write the lines that wait."""
        with self._flushing:
            self._flush()

    def _flush(self) -> None:
        if self._lines:
            lines = "".join(self._lines)
            self._lines, self._length = [], 0
            self._put(lines)

    def on_second(self) -> None:
        """Called once a second: write what waits, and tell when trouble is over."""
        with self._flushing:
            self._set_clock()
            self._flush()
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

    def _is_skipped(self, ended: Ended) -> bool:
        record = record_of(ended, 0.0)
        return any(skip.path.match(path_of(record)) and skip.status.match(str(record.status)) for skip in self._skips)

    def _put(self, lines: str) -> None:
        """Write them; what cannot be written is lost: a full disk or a closed pipe must not stop the service."""
        try:
            lost = self._target.write(lines)
            why = self._target.why_in_part
        except OSError as exc:
            lost, why = lines.count("\n"), _why(exc)
        self._goes_on = not lost
        if not lost:
            return
        self._lost_count, self._lost_why = self._lost_count + lost, why
        self.lost_count += lost
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


def append_unanswered(config: EngineSettings, requests: Iterable[tuple[float, str]], worker: int, pid: int) -> None:
    """
    Add a line for each request that a worker process was at when it died: for how long, and "METHOD target", escaped.

    This does not wait for the reader of a named pipe.
    """
    assert isinstance(config, AccessLogSettings)
    name = config.access_log
    if name is None:
        return
    line_format = LineFormat(config.access_log_format, worker, pid)
    lines = line_format.lines([died(text, seconds) for seconds, text in requests], _time() - _monotonic())
    try:
        target = open_target(name, is_patient=False)
        try:
            target.write("".join(lines))
        finally:
            target.close()
    except (OSError, ValueError) as exc:
        logger.error("cannot write what was cut to the access log %r: %s", name, _why(exc))


def _why(exc: Exception) -> str:
    return getattr(exc, "strerror", None) or str(exc)
