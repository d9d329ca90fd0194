"""Targets of lines: files, standard output, syslog; and the fate of lost lines."""

import contextlib
import fcntl
import io
import os
import re
import resource
import signal
import socket
import sys

import pytest
from harness.targets import write_lines

from aserve.core import log_target
from aserve.core.log_target import MAX_MESSAGE_BYTES, FileTarget, StreamTarget, SyslogTarget, keep_output, open_target

MESSAGE = re.compile(rb"<190>1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (\S+) aserve (\d+) access - (.*)", re.DOTALL)


@pytest.fixture
def file(tmp_path):
    """A target whose file is below tmp_path, named log."""
    target = FileTarget(str(tmp_path / "log"))
    yield target
    target.close()
    target.close()


# Files


def test_a_file_is_appended_and_reopened(file, tmp_path, monkeypatch):
    """Lines are appended; after `reopen` to the present file of the name, wherever the app has gone."""
    monkeypatch.chdir("/")
    assert write_lines(file, ["a\n", "b\n"]) == 2
    os.rename(tmp_path / "log", tmp_path / "log.1")
    assert file.reopen()
    write_lines(file, ["c\n"])
    assert ((tmp_path / "log.1").read_text(), (tmp_path / "log").read_text()) == ("a\nb\n", "c\n")


def test_a_batch_is_one_write(file, monkeypatch):
    """Of several processes none can tear another's lines."""
    written = []
    monkeypatch.setattr(os, "write", lambda fd, octets: written.append(bytes(octets)) or len(octets))
    write_lines(file, ["a\n"] * 10_000)
    assert written == [b"a\n" * 10_000]


@contextlib.contextmanager
def no_file_beyond(size):
    """Let files be as if the disk were full at this size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_a_disk_that_becomes_full(file, tmp_path):
    """Written lines are counted; a torn one is taken back, or another process's next line would follow it."""
    with no_file_beyond(7):
        assert write_lines(file, ["abc\n", "def\n", "ghi\n"]) == 1
    assert file.why_in_part == "File too large"
    assert (tmp_path / "log").read_text() == "abc\n"
    with no_file_beyond(4), pytest.raises(OSError, match="too large"):
        write_lines(file, ["jkl\n"])
    assert write_lines(file, ["mno\n", "pqr\n"]) == 2
    assert (tmp_path / "log").read_text() == "abc\nmno\npqr\n"


@pytest.fixture
def full(file, tmp_path, monkeypatch):
    """full(*sizes, also) -> how many of two lines were written, while the disk takes so much at a time; after each, call `also`."""
    real = os.write

    def full(*sizes, also):
        left = list(sizes)

        def write(fd, octets):
            if not left:
                raise OSError(28, "No space left on device")
            sent = real(fd, octets[: left.pop(0)])
            also()
            return sent

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", write)
            return write_lines(file, ["abc\n", "defg\n"])

    return full


def test_a_torn_line_that_another_has_followed(file, full, tmp_path):
    """The torn line stays, as another's follows; but it does not begin our next."""

    def follow():
        with open(tmp_path / "log", "a") as other:
            other.write("other\n")

    assert full(6, also=follow) == 1
    assert write_lines(file, ["def\n"]) == 1
    assert (tmp_path / "log").read_text() == "abc\ndeother\n\ndef\n"


def test_a_torn_line_in_two_pieces(file, full, tmp_path):
    """Another's line may be between the pieces: the first piece stays."""

    def follow():
        if (tmp_path / "log").stat().st_size < 8:
            with open(tmp_path / "log", "a") as other:
                other.write("other\n")

    assert full(6, 1, also=follow) == 1
    assert write_lines(file, ["ghi\n"]) == 1
    assert (tmp_path / "log").read_text() == "abc\ndeother\nf\nghi\n"


def test_a_torn_line_while_another_writes(file, full, tmp_path):
    """The cut-off end might be the other's."""
    with open(tmp_path / "log", "a") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert full(6, also=lambda: None) == 1
        assert (tmp_path / "log").read_text() == "abc\nde"
    assert write_lines(file, ["ghi\n"]) == 1
    assert full(6, also=lambda: None) == 1
    assert (tmp_path / "log").read_text() == "abc\nde\nghi\nabc\n"


def test_a_pipe_that_nobody_reads(tmp_path):
    """A writer unable to wait learns of it."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="No such device"):
        open_target(str(tmp_path / "pipe"), is_patient=False)


# Standard output


def test_standard_output_is_left_to_the_program(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    target = open_target("-")
    assert isinstance(target, StreamTarget)
    assert write_lines(target, ["a\n"]) == 1 and not target.reopen()
    target.close()
    assert stream.getvalue() == "a\n"
    stream.close()
    with pytest.raises(OSError, match="closed"):
        write_lines(target, ["b\n"])


class NoFile:
    """An object for `print`, and no more."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        if text == "refused\n":
            raise OSError(28, "No space left on device")
        self.text += text


def test_an_object_without_a_flush(monkeypatch):
    """Such an object gets the lines as well; its exception loses them."""
    monkeypatch.setattr(sys, "stdout", NoFile())
    target = open_target("-")
    assert write_lines(target, ["a\n"]) == 1 and sys.stdout.text == "a\n"
    with pytest.raises(OSError, match="No space"):
        write_lines(target, ["refused\n"])
    sys.stdout.text = None
    with pytest.raises(OSError, match="unsupported operand"):
        write_lines(target, ["b\n"])


@pytest.fixture(params=["buffered", "unbuffered"])
def output(request, tmp_path):
    """A stream into a file below tmp_path, named log; unbuffered: as with PYTHONUNBUFFERED."""
    is_buffered = request.param == "buffered"
    raw = open(tmp_path / "log", "wb", buffering=-1 if is_buffered else 0)
    stream = io.TextIOWrapper(raw, encoding="utf-8", write_through=not is_buffered)
    yield stream
    stream.close()


def open_output(stream, monkeypatch):
    """Return the target of a process whose standard output this is."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        patch.setattr(sys, "__stdout__", stream)
        return open_target("-")


def test_standard_output_on_a_disk_that_becomes_full(output, tmp_path, monkeypatch):
    """Refused lines are lost, and not written later; a torn line is not cut back, as others have the file, too, but ended."""
    target = open_output(output, monkeypatch)
    with no_file_beyond(7):
        assert write_lines(target, ["abc\n", "def\n", "ghi\n"]) == 1
        assert target.why_in_part == "File too large"
        for _ in range(2):
            with pytest.raises(OSError, match="too large"):
                write_lines(target, ["jkl\n"])
    assert (tmp_path / "log").read_text() == "abc\ndef"
    assert write_lines(target, ["mno\n", "pqr\n"]) == 2 and not target.reopen()
    target.close()
    output.close()
    assert (tmp_path / "log").read_text() == "abc\ndef\nmno\npqr\n"


def test_what_the_program_prints(output, tmp_path, monkeypatch):
    """The program's line comes before a later one, but on a full disk its loss is not ours, nor ours its."""
    target = open_output(output, monkeypatch)
    output.write("printed\n")
    assert write_lines(target, ["a\n"]) == 1 and (tmp_path / "log").read_text() == "printed\na\n"
    with no_file_beyond(10):
        with contextlib.suppress(OSError):  # unbuffered
            output.write("lost?\n")
        with pytest.raises(OSError, match="too large"):
            write_lines(target, ["b\n"])
    assert write_lines(target, ["c\n"]) == 1
    assert (tmp_path / "log").read_text() in ("printed\na\nlost?\nc\n", "printed\na\nc\n")
    target.close()
    target.close()


def test_output_that_the_program_closes(output, tmp_path, monkeypatch):
    """Lines go on to the file, and none to the next owner of the descriptor's number."""
    target = open_output(output, monkeypatch)
    number = output.fileno()
    output.close()
    with open(tmp_path / "other", "w") as other:
        assert other.fileno() == number
        assert write_lines(target, ["a\n"]) == 1
    target.close()
    assert ((tmp_path / "log").read_text(), (tmp_path / "other").read_text()) == ("a\n", "")


def test_another_file_in_its_place(tmp_path, monkeypatch):
    """A program's replacement gets the text as a stream: it may do more than write."""
    with open(tmp_path / "other", "w") as other:
        monkeypatch.setattr(sys, "stdout", other)
        assert isinstance(open_target("-"), StreamTarget)


@pytest.mark.parametrize("is_real", [True, False])
def test_what_a_command_has_kept(output, tmp_path, monkeypatch, is_real):
    """The first stream gets the lines, whatever has its name, or its descriptor's number."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", output)
        if is_real:
            patch.setattr(sys, "__stdout__", output)
        keep_output()
        keep_output()
    monkeypatch.setattr(sys, "stdout", None)
    with open(tmp_path / "other", "w") as other:
        if is_real:
            os.dup2(other.fileno(), output.fileno())
        target = open_target("-")
    assert write_lines(target, ["a\n"]) == 1
    target.close()
    assert ((tmp_path / "log").read_text(), (tmp_path / "other").read_text()) == ("a\n", "")
    if is_real:
        os.close(log_target._kept[0][1])


def test_no_standard_output(monkeypatch):
    """A process may have none."""
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(OSError, match="standard output is closed"):
        open_target("-")


# Syslog


@pytest.fixture
def journal(tmp_path):
    """A local syslog server: its path, and its datagrams; journal() begins it anew."""
    opened = []

    def begin():
        path = tmp_path / "dev-log"
        path.unlink(missing_ok=True)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sock.bind(str(path))
        sock.settimeout(30)
        opened.append(sock)
        return sock

    yield begin
    for each in opened:
        each.close()


def text_of(sock):
    """Return the line of the next message, whose header is right."""
    match = MESSAGE.fullmatch(sock.recv(1 << 16))
    assert match and match[1].decode() == socket.gethostname() and int(match[2]) == os.getpid()
    return match[3]


def test_the_local_syslog(journal, tmp_path):
    """A line is a datagram of RFC 5424; a too long one is cut."""
    sock = journal()
    target = open_target(f"syslog:{tmp_path}/dev-log")
    assert isinstance(target, SyslogTarget) and write_lines(target, ["a b\n", "c" * 10_000 + "\n"]) == 2
    assert text_of(sock) == b"a b"
    assert len(sock.recv(1 << 16)) == MAX_MESSAGE_BYTES
    target.close()


def test_a_syslog_that_begins_anew(journal, tmp_path):
    first = journal()
    target = open_target(f"syslog:{tmp_path}/dev-log")
    first.close()
    second = journal()
    assert write_lines(target, ["a\n"]) == 1 and text_of(second) == b"a"
    second.close()
    with pytest.raises(OSError, match="refused"):
        write_lines(target, ["b\n"])
    target.close()


def test_a_syslog_that_does_not_keep_up(journal, tmp_path):
    """Nobody waits for it; refused lines are counted."""
    sock = journal()
    target = open_target(f"syslog:{tmp_path}/dev-log")
    lines = ["a" * 5000 + "\n"] * 10_000
    taken = write_lines(target, lines)
    assert 0 < taken < len(lines)
    with pytest.raises(BlockingIOError):
        write_lines(target, lines)
    target.close()
    sock.close()


def test_syslog_over_udp():
    """With or without a name of the host; the port is 514 if none is given."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(30)
        sock.bind(("127.0.0.1", 0))
        target = open_target(f"syslog:udp://127.0.0.1:{sock.getsockname()[1]}")
        write_lines(target, ["a\n"])
        assert text_of(sock) == b"a"
        assert target.reopen() and write_lines(target, ["b\n"]) == 1 and text_of(sock) == b"b"
        target.close()
    target = SyslogTarget("udp://127.0.0.1")
    assert target._socket.getpeername()[1] == 514
    target.close()


@pytest.mark.parametrize("name", ["syslog:udp://", "syslog:udp://a/b", "syslog:udp://a:99999"])
def test_syslog_without_a_place(name):
    """The message names the right form."""
    with pytest.raises(ValueError, match=r"udp://HOST:PORT|[Pp]ort"):
        open_target(name)


def test_no_syslog_is_an_error(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        open_target(f"syslog:{tmp_path}/none")


def test_a_logger_makes_a_record_of_each_line(caplog):
    target = open_target("logger:shop.access")
    with caplog.at_level("INFO", "shop.access"):
        assert target.write("one 100%s\ntwo\n") == 0
    assert caplog.record_tuples == [("shop.access", 20, "one 100%s"), ("shop.access", 20, "two")]
    assert target.reopen() is False and target.why_in_part == ""
    target.close()
