"""Octets ahead of their reader wait in a file: in order, within its limit, and nothing is left of it."""

import os
import random
import tempfile
import threading

import pytest

from aserve.core import spool as spool_module
from aserve.core.budgets import Budget, SpoolSpace
from aserve.core.errors import ClientDisconnected
from aserve.core.spool import ResponseSpool


def space(octets=1 << 30, files=100):
    return SpoolSpace(Budget(octets), Budget(files), "aserve-test-")


@pytest.fixture
def new(files):
    """Make a spool that has begun: new(limit_bytes)."""
    spools = []

    def make(limit_bytes=100):
        spools.append(ResponseSpool(limit_bytes, space()))
        assert spools[-1].begin()
        return spools[-1]

    yield make
    for spool in spools:
        assert spool.close() is None


def during(monkeypatch, step):
    """While the next piece is being written, the loop does this."""
    real = os.pwrite

    def pwrite(*arguments):
        monkeypatch.setattr(spool_module.os, "pwrite", real)
        step()
        return real(*arguments)

    monkeypatch.setattr(spool_module.os, "pwrite", pwrite)


def test_first_in_first_out(new):
    """Reads return the appended octets, in any pieces; read empty, the spool is over."""
    spool = new()
    for octets in (b"abc", b"", b"defgh", b"i"):
        assert spool.append(octets)
    assert [spool.read(2), spool.read(5), spool.read(100)] == [b"ab", b"cdefg", b"hi"]
    assert spool.is_begun
    assert spool.read(100) == b"" and not spool.is_begun


def test_no_file_without_need(new, files):
    """The file is made for the first octets, in the appending thread; one for all."""
    spool = new()
    assert files == []
    for _ in range(3):
        spool.append(b"x" * 100)
        spool.read(100)
    assert len(files) == 1


def test_the_file_has_no_name(new, files):
    """However the process ends, nothing is left behind."""
    new().append(b"abc")
    assert os.fstat(files[0].fileno()).st_nlink == 0


def test_the_limit_is_exact(new):
    """Up to the limit, and not an octet more; read octets make room."""
    spool = new(10)
    assert spool.append(b"0123456789")
    assert not spool.has_room(1) and not spool.append(b"a")
    assert spool.is_begun
    assert spool.read(3) == b"012"
    assert spool.has_room(3) and not spool.has_room(4)
    assert not spool.append(b"abcd") and spool.append(b"abc")
    assert spool.read(100) + spool.read(100) == b"3456789abc"


def test_more_than_the_limit_in_one_piece(new):
    """An impossible piece is not waited for once all before it is read."""
    spool = new(10)
    assert spool.append(b"01234")
    assert not spool.append(b"x" * 11) and spool.is_begun
    spool.read(5)
    assert not spool.append(b"x" * 11) and not spool.is_begun


def test_the_file_does_not_grow(new, files):
    """Ever more octets go through a file no larger than the limit."""
    spool = new(1000)
    numbers = random.Random(7)
    sent, received = bytearray(), bytearray()
    for _ in range(2000):
        octets = numbers.randbytes(numbers.randrange(1, 300)) if hasattr(numbers, "randbytes") else os.urandom(200)
        while not spool.append(octets):
            received += spool.read(numbers.randrange(1, 400))
        sent += octets
    while spool.is_begun:
        received += spool.read(333)
    assert received == sent
    assert os.fstat(files[0].fileno()).st_size <= 1000


def test_one_writes_while_the_other_reads(new):
    """Two threads, one descriptor, every octet in its place."""
    spool = new(4096)
    expected = b"".join(b"%06d\n" % number for number in range(20_000))
    is_over = threading.Event()

    def write():
        for start in range(0, len(expected), 999):
            while not spool.append(expected[start : start + 999]):
                spool.begin()
        is_over.set()

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    received = bytearray()
    while len(received) < len(expected):
        was_over = is_over.is_set()
        octets = spool.read(1500)
        received += octets
        assert octets or not was_over, "octets were lost"
    writer.join(30)
    assert received == expected


def test_who_has_to_tell_the_reader(new):
    """The reader is called once, and again only after it has found nothing."""
    spool = new()
    spool.append(b"abc")
    assert spool.wants_reader() and not spool.wants_reader()
    spool.read(100)
    assert not spool.wants_reader()
    assert spool.read(100) == b"" and spool.wants_reader()


def test_read_empty_while_more_is_written(new, monkeypatch):
    """A reader that finds nothing while a piece is on its way to the disk is called back for it."""
    spool = new()
    during(monkeypatch, lambda: seen.append((spool.read(100), spool.is_begun)))
    seen = []
    assert spool.append(b"abc")
    assert seen == [(b"", True)]
    assert spool.wants_reader() and spool.read(100) == b"abc"


# Faults


def test_no_place_for_the_file(new, monkeypatch):
    """Where no file can be made, the spool tells it once, and has no room from then on."""
    spool = new()
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent/folder")
    with pytest.raises(OSError):
        spool.append(b"abc")
    assert not spool.is_begun and not spool.has_room(1) and not spool.begin()
    assert not spool.append(b"abc")


def test_a_full_disk_loses_no_earlier_octet(new, monkeypatch):
    """Octets on the disk are still read; nothing of the failed piece is."""
    spool = new()
    spool.append(b"abc")
    file = spool._file.file
    with open("/dev/full", "wb", buffering=0) as spool._file.file, pytest.raises(OSError):
        spool.append(b"defgh")
    spool._file.file = file
    assert spool.is_begun and not spool.has_room(1)
    assert spool.read(100) == b"abc" and spool.read(100) == b""
    assert not spool.is_begun and not spool.begin()


def test_a_file_that_has_lost_its_end(new, files):
    """A disk that does not give back its octets is an error, not the end."""
    spool = new()
    spool.append(b"abc")
    os.ftruncate(files[0].fileno(), 0)
    with pytest.raises(OSError, match="lost its end"):
        spool.read(100)


# The budget of all responses


def test_the_disk_of_all_responses(files):
    """The limit of all is a limit for each; reads make room in its own file, and the end gives all back."""
    room = space(octets=10)
    one, other = ResponseSpool(100, room), ResponseSpool(100, room)
    assert one.begin() and one.append(b"123456")
    assert other.begin() and not other.has_room(5) and not other.append(b"abcde") and not other.is_begun
    assert other.begin() and other.has_room(4) and other.append(b"abcd")
    assert not one.has_room(1) and not one.append(b"7") and one.is_begun
    assert one.read(100) == b"123456" and one.read(100) == b""
    assert one.begin() and one.append(b"789") and room.octets.count == 10
    assert other.close() is None and room.octets.count == 6 and one.has_room(4)
    assert one.close() is None and room.octets.count == room.files.count == 0


def test_no_file_for_another_response(files):
    """With too many temporary files, a response takes the short way, and may have one after another's end."""
    room = space(files=1)
    one, other = ResponseSpool(100, room), ResponseSpool(100, room)
    assert one.begin() and one.append(b"abc")
    assert other.begin() and not other.has_room(3) and not other.append(b"abc") and not other.is_begun
    assert one.close() is None
    assert other.begin() and other.has_room(3) and other.append(b"abc")
    assert other.close() is None and room.files.count == 0


# The end


def test_a_sealed_spool_takes_nothing_more(new):
    spool = new()
    spool.append(b"abc")
    spool.seal()
    with pytest.raises(ClientDisconnected):
        spool.append(b"late")
    assert spool.read(100) == b"abc"


@pytest.mark.parametrize("is_used", [False, True])
def test_a_closed_spool_takes_nothing_more(new, files, is_used):
    spool = new()
    if is_used:
        spool.append(b"abc")
    assert spool.close() is None and all(file.closed for file in files)
    assert not spool.begin()
    with pytest.raises(ClientDisconnected):
        spool.append(b"late")
    assert len(files) == is_used


def test_closed_while_it_is_written(new, files, monkeypatch):
    """The descriptor is not taken from under the writer, whose number might be another's by then."""
    spool = new()
    spool.append(b"abc")
    during(monkeypatch, lambda: closed.append((spool.close(), files[0].closed)))
    closed = []
    assert spool.append(b"def")
    assert closed == [(None, False)] and files[0].closed


def test_closed_while_nothing_could_be_written(files, monkeypatch):
    """The same where there is no file even then."""
    spool = ResponseSpool(100, space())
    spool.begin()

    def refuse(**options):
        spool.close()
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(OSError):
        spool.append(b"abc")
    assert files == []


def test_a_large_file_is_closed_elsewhere(new, files, monkeypatch):
    """A slow close does not hold up the loop: it is left to a worker."""
    monkeypatch.setattr(spool_module, "QUICK_CLOSE_BYTES", 10)
    spool = new()
    spool.append(b"x" * 11)
    close_file = spool.close()
    assert close_file is not None and not files[0].closed
    close_file()
    assert files[0].closed


class SlowToClose:
    """A file, and an event during its close, by either thread."""

    def __init__(self, file, meanwhile):
        self._file, self._meanwhile, self.closings = file, meanwhile, 0

    def fileno(self):
        return self._file.fileno()

    @property
    def closed(self):
        return self._file.closed

    def close(self):
        self.closings += 1
        self._file.close()
        self._meanwhile()


@pytest.fixture
def slow_files(monkeypatch):
    """Make files that are slow to close: slow_files(meanwhile) returns the list of those made."""

    def set_up(meanwhile):
        made, real = [], tempfile.TemporaryFile

        def make(*arguments, **options):
            made.append(SlowToClose(real(*arguments, **options), meanwhile))
            return made[-1]

        monkeypatch.setattr(tempfile, "TemporaryFile", make)
        return made

    return set_up


def test_closed_again_while_a_worker_closes_the_file(slow_files, monkeypatch):
    """A file under its worker's close has an owner: the loop, which gives the spool up twice, has nothing to do."""
    monkeypatch.setattr(spool_module, "QUICK_CLOSE_BYTES", 10)
    spool = ResponseSpool(100, space())
    again = []
    files = slow_files(lambda: again.append((spool.close(), spool.read(100))))
    spool.begin()
    spool.append(b"x" * 11)
    close_file = spool.close()
    assert close_file is not None and spool.close() is None
    close_file()
    assert again == [(None, b"")] and files[0].closings == 1


def test_nobody_waits_for_a_file_that_its_writer_closes(slow_files, monkeypatch):
    """While the writer slowly closes a given-up file, the loop goes on."""
    spool = ResponseSpool(100, space())
    seen = []

    def look():
        loop = threading.Thread(
            target=lambda: seen.append((spool.close(), spool.read(1), spool.has_room(1))), daemon=True
        )
        loop.start()
        loop.join(30)

    files = slow_files(look)
    spool.begin()
    during(monkeypatch, spool.close)
    assert spool.append(b"abc")
    assert seen == [(None, b"", False)] and files[0].closings == 1


def test_what_comes_behind_an_empty_spool():
    """A piece appended after the last read makes later ones go to the file, too, and not past it."""
    spool = ResponseSpool(1000, space())
    assert spool.begin() and spool.append(b"one")
    assert (spool.read(100), spool.read(100), spool.is_begun) == (b"one", b"", False)
    assert spool.append(b"two") and spool.is_begun
    spool.close()
