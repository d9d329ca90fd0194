"""The access log: a line for each request, after any end, formatted and written after the response.

Owns:     the lines waiting for a write; --access-log-skip; messages about lost lines; the lines of a dead worker process.
Thread:   `write` the thread of the ends' report (core/ends.py); `write_refused`, `on_second`, `reopen` on the event loop. `append_unanswered` in
          the supervisor.
Not here: the content of a line (log_format.py), the target (core/log_target.py); the ends of requests (connections/connection.py,
          connections/loop/wire_loop.py); error logs (logging).

A line costs 0.6 us alone, and 0.2 us among 64, if an equal request came in this second (2026-11-23, CPython 3.11).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from ...core.ends import Ended
from ...core.errors import BindError, RequestRefused
from ...core.exchange import ANSWERED, REFUSED, Exchange
from ...core.incident import Incident
from ...core.log_target import Target
from ...lifecycle.given_files import can_give
from ...settings import EngineSettings
from .copies import files_of, open_targets, unwritable
from .line_program import new_program
from .log_format import LineFormat
from .log_line import parse_skip
from .log_values import died, record_of, request_path
from .settings import AccessLogSettings

logger = logging.getLogger("aserve")


# How many characters may wait for the next second; more are written at once. Guess: some 250 lines.
_MAX_LENGTH = 1 << 15

_time, _monotonic = time.time, time.monotonic


class AccessLog:
    """An open access log."""

    def __init__(
        self,
        name: str,
        line_format: str = "combined",
        skip: Sequence[str] = (),
        worker: int | None = None,
        copies: Sequence[str] = (),
    ) -> None:
        """
        Open the log; all arguments are settings but `worker`: see LineFormat.

        Raises:
            BindError: the target cannot be opened.
        """
        self._name = name
        try:
            self._target: Target = open_targets([name, *copies])
        except (OSError, ValueError) as exc:
            shown = " or ".join(map(repr, [name, *copies]))
            why_not = (
                ", and aserve docs deploy" if isinstance(exc, PermissionError) else ""
            )  # what root makes for a user
            raise BindError(f"cannot write the access log {shown}: {_why(exc)}; see --access-log{why_not}") from None
        self._format = LineFormat(line_format, worker)
        # The format for native/lines.c; None: Python makes all lines.
        self.program = None if skip else new_program(line_format, lambda: self._epoch, worker)
        wanted = {"times": self._format.wants_times, "ids": self._format.wants_id, "head": self._format.wants_head}
        self.wants = [name for name, is_wanted in wanted.items() if is_wanted]  # see Extension.wants
        self._skips = [parse_skip(text) for text in skip]
        self._flushing = threading.Lock()  # guards the format, the target, and all attributes below
        self._lines: list[str] = []  # not written yet: texts of one or more lines each
        self._length = 0  # of these, in characters
        self._set_clock()
        self._trouble = Incident()
        self._goes_on = False  # a line was written since the last failure
        self._lost_count = 0  # lines, since the failure began
        self._lost_why = ""  # the last reason
        self.lost_count = 0  # lines, since the start

    @classmethod
    def of(cls, config: AccessLogSettings, worker: int | None) -> AccessLog:
        """Open the log of these settings; see __init__."""
        return cls(
            config.access_log or "", config.access_log_format, config.access_log_skip, worker, config.access_log_copy
        )

    def _set_clock(self) -> None:
        """Note the offset from time.monotonic() to the time of day: a request then costs one clock read."""
        self._epoch = _time() - _monotonic()

    def write(self, ended: Sequence[Ended]) -> None:
        """Format the lines of these requests."""
        with self._flushing:
            if self._skips:
                ended = [each for each in ended if not self._is_skipped(each)]
            self._add(self._format.lines(ended, self._epoch))

    def write_lines(self, octets: bytes) -> None:
        """Take lines from native/lines.c."""
        with self._flushing:
            self._add([octets.decode()])

    def _add(self, made: list[str]) -> None:
        self._lines += made
        self._length += sum(map(len, made))
        if self._length > _MAX_LENGTH:
            self._flush()

    def write_refused(self, connection: Any, exchange: Exchange | None, why: RequestRefused) -> None:
        """Format the line of a refused request, or of a request without an answer in time."""
        known = exchange or Exchange("", 0)
        addr, end = (known.client or connection).remote_addr, REFUSED if known.end == ANSWERED else known.end
        times = known.arrived_at, known.began_at, 0.0, _monotonic()
        self.write(
            [Ended(known.vars, known.is_from_front, addr, why.status, 0, end, *times, known.thread_id, False, b"")]
        )

    def flush(self) -> None:
        with self._flushing:
            self._flush()

    def _flush(self) -> None:
        if self._lines:
            lines = "".join(self._lines)
            self._lines, self._length = [], 0
            self._put(lines)

    def on_second(self) -> None:
        """Write the waiting lines once a second, and log when a failure is over."""
        with self._flushing:
            self._set_clock()
            self._flush()
            if self._goes_on and self._trouble.is_over_at_second():
                self._tell_lost("is written again")

    def reopen(self) -> None:
        """Open the file of this name anew; logrotate has renamed the old one."""
        self.flush()
        try:
            with self._flushing:
                is_reopened = self._target.reopen()
        except OSError as exc:
            logger.error("cannot reopen the access log %r: %s; still writing to the old file", self._name, _why(exc))
            return
        if is_reopened:
            logger.info("the access log %r was reopened", self._name)

    def close(self) -> None:
        """Write the waiting lines and close the file."""
        self.flush()
        with self._flushing:
            self._tell_lost("is closed")
            self._target.close()

    def _is_skipped(self, ended: Ended) -> bool:
        record = record_of(ended, 0.0)
        return any(
            skip.path.match(request_path(record)) and skip.status.match(str(record.status)) for skip in self._skips
        )

    def _put(self, lines: str) -> None:
        """Write lines; drop and count unwritable lines: a full disk or a closed pipe must not stop the service."""
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
    Add a line for each request in a worker process at the process's death: the seconds so far, and "METHOD target", escaped.

    Do not wait for the reader of a named pipe.
    """
    assert isinstance(config, AccessLogSettings)
    name = config.access_log
    if name is None:
        return
    line_format = LineFormat(config.access_log_format, worker, pid)
    lines = line_format.lines([died(text, seconds) for seconds, text in requests], _time() - _monotonic())
    try:
        target = open_targets([name, *config.access_log_copy], is_patient=False)
        try:
            target.write("".join(lines))
        finally:
            target.close()
    except (OSError, ValueError) as exc:
        logger.error("cannot write the lines of a dead worker's requests to the access log %r: %s", name, _why(exc))


def _why(exc: Exception) -> str:
    return getattr(exc, "strerror", None) or str(exc)


def log_files(config: AccessLogSettings) -> list[str]:
    """Return the files among the places of the log."""
    return files_of([config.access_log or "", *config.access_log_copy])


def warn_of_unwritable(config: AccessLogSettings) -> None:
    """Log the files closed to a start; root gives root's own to the user of the process."""
    for name in unwritable(log_files(config)):
        if config.user is not None and can_give(name):
            continue
        logger.warning(
            "this user may not write the access log %r: a start would end with an error; give it the file, or its folder if there is none",
            name,
        )
