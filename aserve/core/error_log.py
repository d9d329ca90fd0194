"""The messages of a process on standard error, whose reader may stop.

Owns:     ErrorLog, and this process's instance; waiting lines, and lost lines.
Thread:   any: logging locks a handler. A forked child begins without waiting lines.
Not here: the messages and their form (lifecycle/logs.py); writing to a pipe or a file (log_target.py).

No thread waits for the reader, nor does the end of the process. A few lines wait in memory, for the next message or the next second; further lines
are lost, counted, and reported when the reader is back. A thread for the log could not serve a supervisor, which forks.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time

from .forks import weakly
from .log_pipe import PipeTarget
from .log_target import FileTarget, Target, keep_output, open_stream

# The most characters that wait in memory. Guess: tracebacks of a burst.
MAX_WAITING = 1 << 16
# For how long the end of a process waits for a reader. Guess.
ENDING_SECONDS = 1.0
_PAUSE_SECONDS = 0.01


class ErrorLog(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.stream = sys.stderr
        self.is_inherited = False
        # Without standard error there is no reader, so no lines count as lost.
        self._target: Target = open_stream(self.stream) if self.stream is not None else FileTarget(os.devnull)
        self._lines: list[str] = []  # waiting
        self._is_behind = False  # there is a slow reader
        self._lost_count, self._lost_why = 0, ""  # since the last report
        self.lost_count = 0  # since the start
        os.register_at_fork(after_in_child=weakly(self._forget))
        atexit.register(weakly(self.finish))

    def emit(self, record: logging.LogRecord) -> None:
        """Write a message; without room keep the message for later, or lose it."""
        try:
            text = self.format(record)
        except Exception:
            self.handleError(record)
            return
        self._lines += _lines_of(text)
        self._write()

    def flush(self) -> None:
        """Write the waiting lines, as far as there is room."""
        self.acquire()
        try:
            self._write()
        finally:
            self.release()

    def finish(self) -> None:
        """Write the waiting lines; give a slow reader ENDING_SECONDS."""
        deadline = time.monotonic() + ENDING_SECONDS
        self.flush()
        while self._lines and self._is_behind and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
            self.flush()

    def release_target(self) -> None:
        """Close the target: another ErrorLog takes over."""
        self._target.close()
        self._lines.clear()

    def _write(self) -> None:
        if self._put() and self._lost_count:
            text = f"lines of this log were lost: {self._lost_count} ({self._lost_why})"
            self._lost_count = 0
            note = logging.LogRecord("aserve", logging.WARNING, "", 0, text, None, None)
            self._lines += _lines_of(self.format(note))
            self._put()

    def _put(self) -> bool:
        """Write the waiting lines; return whether all went out. Drop lines over MAX_WAITING."""
        lines, self._lines = self._lines, []  # a signal's handler may log meanwhile
        sent, self._is_behind, why = 0, False, ""
        try:
            sent = len(lines) - self._target.write("".join(lines)) if lines else 0
            why = self._target.why_in_part
        except OSError as exc:
            self._is_behind, why = isinstance(exc, BlockingIOError), exc.strerror or str(exc)
        if sent == len(lines):
            return True
        self._is_behind |= sent > 0
        room = MAX_WAITING
        for kept, line in enumerate(lines[sent:]):
            room -= len(line)
            if room < 0:
                lost = len(lines) - sent - kept
                self._lost_count, self._lost_why = self._lost_count + lost, why
                self.lost_count += lost
                del lines[sent + kept :]
                break
        self._lines[:0] = lines[sent:]
        return False

    def _forget(self) -> None:
        """Drop the waiting lines in a forked child: the parent writes them."""
        self.is_inherited = True
        self._lines, self._lost_count = [], 0
        if isinstance(self._target, PipeTarget):
            self._target.forget()


def _lines_of(text: str) -> list[str]:
    return [line + "\n" for line in text.split("\n")]


_current: list[ErrorLog] = []  # none in a program that embeds a Server


def open_error_log() -> ErrorLog:
    """Return the ErrorLog of this process, or of its parent; a new one if the program has replaced standard error. With a new one, `-` becomes the standard output of now (`keep_output`)."""
    if not (_current and (_current[0].is_inherited or _current[0].stream is sys.stderr)):
        for earlier in _current:
            earlier.release_target()
        _current[:] = [ErrorLog()]
        keep_output()
    return _current[0]


def log_failure(logger: logging.Logger, text: str, *args: object, exc: BaseException) -> None:
    """Log the reason of a 500; where a level or logging.disable() silences the logger, a command's log has the line, without the traceback."""
    if logger.isEnabledFor(logging.ERROR) or not _current:
        logger.error(text, *args, exc_info=exc, stacklevel=2)
    else:
        _current[0].handle(logging.LogRecord(logger.name, logging.ERROR, "", 0, text, args, None))


def on_second() -> None:
    """Write the waiting lines, once a second."""
    for current in _current:
        if current._lines:
            current.flush()


def lost_lines() -> int:
    """Return how many lines of this process were lost since the start."""
    return _current[0].lost_count if _current else 0


def end_error_log() -> None:
    """Write the waiting lines before os._exit() or exec."""
    for current in _current:
        current.finish()


def end_logs() -> None:
    """Close the app's handlers and ours, and write the waiting lines, before os._exit() or exec."""
    logging.shutdown()
    end_error_log()
