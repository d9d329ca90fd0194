"""Targets whose reader may stop: nobody waits, no line is torn, and lost lines are counted."""

import contextlib
import io
import os
import pty
import socket
import sys
import time

import pytest
from harness.targets import write_lines

from aserve.core.log_pipe import BEHIND, PipeTarget, awaited_reader
from aserve.core.log_target import StreamTarget, open_target

LINE = "x" * 99 + "\n"
LONG = "y" * 9999 + "\n"


@pytest.fixture
def fifo(tmp_path):
    """A named pipe: its path, and its reader."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield path, reader
    with contextlib.suppress(OSError):  # the test has
        os.close(reader)


def read_all(fd):
    """Return the octets readable at this moment."""
    found = b""
    while True:
        try:
            octets = os.read(fd, 1 << 20)
        except BlockingIOError:
            return found
        if not octets:
            return found
        found += octets


def fill(target, line):
    """Write until nothing is taken any more; return how many were."""
    taken = 0
    for lines in ([line] * 50, [line]):
        with contextlib.suppress(BlockingIOError):
            while True:
                taken += write_lines(target, lines)
    return taken


@pytest.mark.parametrize("line", [LINE, LONG], ids=["short", "long"])
def test_a_reader_that_stops(fifo, line):
    """Nobody waits; the reader later finds the taken lines, each whole."""
    path, reader = fifo
    target = open_target(str(path))
    assert isinstance(target, PipeTarget)
    taken = fill(target, line)
    with pytest.raises(BlockingIOError, match=BEHIND):
        write_lines(target, [line])
    found = read_all(reader)
    assert write_lines(target, [LINE]) == 1
    found += read_all(reader)
    assert found == line.encode() * taken + LINE.encode()
    target.close()
    target.close()


def test_more_than_there_is_room_for(fifo):
    """Some lines are taken, the others counted."""
    path, reader = fifo
    target = open_target(str(path))
    assert write_lines(target, [LINE] * 3) == 3 and read_all(reader) == (LINE * 3).encode()
    taken = write_lines(target, [LONG] * 500)
    assert 0 < taken < 500
    read_all(reader)
    target.close()


def test_a_reader_that_has_gone(fifo):
    """A gone reader is an error; the next finds whole lines, after `reopen` or without it, and a name without a reader is refused."""
    path, reader = fifo
    target = open_target(str(path))
    fill(target, LONG)
    os.close(reader)
    with pytest.raises(OSError, match="Broken pipe"):
        write_lines(target, [LINE])
    with pytest.raises(OSError, match="No such device"):
        target.reopen()
    again = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    read_all(again)  # the kernel has kept it
    assert write_lines(target, [LINE]) == 1 and target.reopen() and write_lines(target, [LINE]) == 1
    assert read_all(again) == LINE.encode() * 2
    target.close()
    os.close(again)


def test_no_reader_yet(tmp_path):
    """Lines are lost until there is a reader, and each write looks."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    target = open_target(str(path))
    for _ in range(2):
        with pytest.raises(OSError, match="No such device"):
            write_lines(target, [LINE])
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    assert write_lines(target, [LINE]) == 1 and read_all(reader) == LINE.encode()
    target.close()
    os.close(reader)


def test_a_socket_has_no_reader_either(tmp_path):
    """A socket is no named pipe: its failure to open is a mistake."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / "socket"))
        with pytest.raises(OSError, match="No such device"):
            open_target(str(tmp_path / "socket"))


def test_a_reader_that_is_awaited(tmp_path, monkeypatch, caplog):
    """The wait is told once; the reader finds no end of the file before the log begins."""
    path, readers = tmp_path / "pipe", []
    os.mkfifo(path)

    def sleep(seconds):
        if caplog.records and len(readers) < 2:
            readers.append(os.open(path, os.O_RDONLY | os.O_NONBLOCK) if readers else None)

    monkeypatch.setattr(time, "sleep", sleep)
    caplog.set_level("INFO", "aserve")
    with awaited_reader(str(path)), pytest.raises(BlockingIOError):
        os.read(readers[1], 1)
    assert os.read(readers[1], 1) == b""
    os.close(readers[1])
    assert caplog.messages == [f"waiting for a reader of the named pipe {str(path)!r}"]


@pytest.mark.parametrize("name", ["", "none", "file"])
def test_what_has_no_reader(tmp_path, name):
    """Nothing is waited for."""
    (tmp_path / "file").touch()
    with awaited_reader(name and str(tmp_path / name)):
        pass


def standard_output(monkeypatch, fd):
    """Let standard output be this descriptor; return the access log's target."""
    monkeypatch.setattr(sys, "stdout", os.fdopen(os.dup(fd), "w"))
    return open_target("-")


def refuse(*_):
    raise PermissionError


@pytest.mark.parametrize("has_proc", [True, False])
def test_standard_output_as_a_pipe(monkeypatch, has_proc):
    """Its flags stay: others write to it, and wait."""
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    if not has_proc:  # or it is another user's
        monkeypatch.setattr(os, "open", refuse)
    target = standard_output(monkeypatch, theirs)
    taken = fill(target, LINE)
    with pytest.raises(BlockingIOError, match=BEHIND):
        write_lines(target, [LINE])
    assert os.get_blocking(theirs) and read_all(ours) == LINE.encode() * taken
    assert not target.reopen()
    target.close()
    os.write(theirs, b"still open")
    sys.stdout.close()
    for fd in (ours, theirs):
        os.close(fd)


def test_standard_output_as_a_socket(monkeypatch):
    """As in a service of systemd."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        target = standard_output(monkeypatch, theirs.fileno())
        taken = fill(target, LINE)
        found = read_all(ours.fileno())
        assert write_lines(target, [LINE]) == 1
        assert found + read_all(ours.fileno()) == LINE.encode() * (taken + 1)
        target.close()
        sys.stdout.close()


def test_standard_output_as_a_terminal(monkeypatch):
    """A stopped terminal (Ctrl-S) stops nobody."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    target = standard_output(monkeypatch, theirs)
    fill(target, LINE)
    assert read_all(ours).startswith(LINE[:-1].encode())
    target.close()
    sys.stdout.close()
    for fd in (ours, theirs):
        os.close(fd)


def test_standard_output_otherwise(monkeypatch, tmp_path):
    """A file, and a program's replacement, are written as by the program."""
    for stream in (io.StringIO(), object(), open(tmp_path / "file", "w")):
        monkeypatch.setattr(sys, "stdout", stream)
        assert isinstance(open_target("-"), StreamTarget)
    stream.close()
