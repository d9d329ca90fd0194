"""Messages on standard error: no thread waits for its reader, and lost lines are counted and reported."""

import io
import logging
import os
import sys

import pytest

from aserve.core import error_log, log_pipe
from aserve.core.error_log import MAX_WAITING, ErrorLog, end_error_log, lost_lines, on_second, open_error_log

LINE = "x" * 999


class Reader:
    """A pipe as standard error."""

    def __init__(self, monkeypatch):
        self.fd, self._writing = os.pipe()
        os.set_blocking(self.fd, False)
        self.stream = os.fdopen(self._writing, "w", encoding="utf-8")
        monkeypatch.setattr(sys, "stderr", self.stream)

    def read(self):
        found = b""
        while True:
            try:
                octets = os.read(self.fd, 1 << 20)
            except BlockingIOError:
                return found.decode()
            found += octets

    def close(self):
        """Stop reading for good."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


@pytest.fixture
def reader(monkeypatch):
    """Standard error's reader, and no error log of this process."""
    monkeypatch.setattr(error_log, "_current", [])
    monkeypatch.setattr(error_log, "ENDING_SECONDS", 0.02)
    monkeypatch.setattr(log_pipe, "WAITING_BYTES", 1 << 14)
    reader = Reader(monkeypatch)
    yield reader
    reader.close()
    reader.stream.close()


@pytest.fixture
def log(reader):
    """An error log that writes to it."""
    log = open_error_log()
    yield log
    log.release_target()


def say(log, text, *args):
    log.handle(logging.LogRecord("aserve", logging.ERROR, "", 0, text, args, None))


def fill(log):
    """Write until lines are lost; return how many were written."""
    count, before = 0, log.lost_count
    while log.lost_count == before:
        count += 1
        say(log, "%d %s", count, LINE)
    return count


def read_all(reader):
    """Return what there is, and what has waited, as seconds pass."""
    found = reader.read()
    on_second()
    while error_log._current[0]._lines:
        found += reader.read()
        on_second()
    return found + reader.read()


def test_a_reader_that_stops(reader, log):
    """Lines wait up to a limit; further ones are lost, and their number follows the waiting ones."""
    written = fill(log)
    say(log, f"{LINE}\n{LINE}")
    on_second()
    assert lost_lines() == 3
    lines = read_all(reader).splitlines()
    assert lines == [f"{number} {LINE}" for number in range(1, written)] + [
        "lines of this log were lost: 3 (its reader does not keep up)"
    ]
    say(log, "all is wéll")
    assert reader.read() == "all is wéll\n" and lost_lines() == 3


def test_what_waits_is_bounded(log):
    """The bound is a length, whatever waits."""
    fill(log)
    say(log, "%s", "y" * MAX_WAITING)
    assert sum(map(len, log._lines)) <= MAX_WAITING


def test_the_end_of_a_process(reader, log, monkeypatch):
    """A slow reader gets a moment; a gone one gets none."""
    fill(log)
    end_error_log()
    assert log._lines
    assert "were lost: 1 " in read_all(reader)
    say(log, "last words")
    end_error_log()
    assert reader.read() == "last words\n"
    fill(log)
    reader.close()
    monkeypatch.setattr(error_log, "ENDING_SECONDS", 1e9)
    end_error_log()
    assert log._lines and log._lost_count


def test_a_child_writes_none_of_its_parents_lines(reader, log):
    fill(log)
    reader.read()
    pid = os.fork()
    if not pid:
        log.flush()
        os._exit(0)
    os.waitpid(pid, 0)
    assert reader.read() == ""
    log._forget()  # as there
    log.flush()
    assert reader.read() == ""


def test_a_child_of_a_process_with_another_target(reader, monkeypatch):
    """The same."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    log = ErrorLog()
    log._lines.append("a")
    log._forget()
    assert not log._lines


def test_standard_error_that_is_replaced(reader, log, monkeypatch):
    """This process's log goes to the present standard error."""
    monkeypatch.setattr(sys, "stderr", reader.stream)  # pytest has one for each phase
    assert open_error_log() is log
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    other = open_error_log()
    say(other, "here")
    assert other is not log and sys.stderr.getvalue() == "here\n"


def test_a_child_after_the_app(reader, log, monkeypatch):
    """Standard error replaced by an app in a mold does not matter to a worker forked from the mold."""
    log._forget()  # as in a child
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert open_error_log() is log


def test_no_standard_error(reader, monkeypatch):
    """Then there is no reader, and nothing is lost."""
    monkeypatch.setattr(sys, "stderr", None)
    log = open_error_log()
    say(log, "unheard")
    on_second()
    assert lost_lines() == 0
    log.release_target()


def test_a_message_that_cannot_be_made(reader, log, monkeypatch):
    """Such a message is a bug of its caller, which logging reports."""
    monkeypatch.setattr(logging, "raiseExceptions", False)
    say(log, "%d", "no number")
    assert reader.read() == ""


def test_a_program_that_embeds_a_server(monkeypatch):
    monkeypatch.setattr(error_log, "_current", [])
    on_second()
    assert lost_lines() == 0
    end_error_log()
