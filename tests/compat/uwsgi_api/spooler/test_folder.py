"""Jobs as files: whole or not there, one process's at a time, and never lost."""

import os
import pathlib
import socket
import subprocess
import sys

import pytest

from aserve.compat.uwsgi_api.spooler import folder as module
from aserve.compat.uwsgi_api.spooler.folder import (
    JobFolder,
    close_wake,
    count_jobs,
    list_jobs,
    open_wake,
    read_job,
    take_job,
    wake,
    write_job,
)

LATER = 1e11  # nobody's clock is there


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "jobs")


def names(folder):
    return sorted(path.name for path in pathlib.Path(folder).rglob("*") if path.is_file())


def test_a_job_is_written_whole(folder):
    """A job is written as by uWSGI, and is there as a whole, readable for its user only."""
    path = write_job(folder, {b"name": b"value", b"": b"\xff"}, b"the body")
    assert read_job(path) == ({b"name": b"value", b"": b"\xff"}, b"the body")
    octets = pathlib.Path(path).read_bytes()
    assert octets == b"\x11\x12\x00\x00\x04\x00name\x05\x00value\x00\x00\x01\x00\xffthe body"
    assert os.stat(path).st_mode & 0o777 == 0o600 and os.stat(folder).st_mode & 0o777 == 0o700
    assert os.path.basename(path).startswith("uwsgi_spoolfile_on_") and names(folder) == [os.path.basename(path)]


def test_jobs_come_by_priority_then_time(folder):
    paths = [
        write_job(folder, {}, at=at, priority=priority)
        for at, priority in ((7, ""), (5, ""), (9, "20"), (8, "3"), (6, "20"))
    ]
    found = list_jobs(folder)
    assert [due.path for due in found] == [paths[number] for number in (3, 4, 2, 1, 0)]
    assert [due.at for due in found] == [8, 6, 9, 5, 7]
    assert list_jobs(f"{folder}/none") == []


def test_what_cannot_be_written(folder, monkeypatch):
    """Then nothing is left, and the caller knows."""
    for values, priority, why in (
        ({b"a": b"x" * 65536}, "", "64 KiB at most"),
        ({b"a": b"x" * 40000, b"b": b"x" * 40000}, "", "64 KiB at most"),
        ({}, "high", "'high' is no priority"),
        ({}, "../x", "is no priority"),
    ):
        with pytest.raises(ValueError, match=why):
            write_job(folder, values, priority=priority)

    os.mkdir(folder)

    def fail(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        write_job(folder, {})
    assert names(folder) == []


def test_it_is_synced(folder, monkeypatch):
    """The file before the name, then the folder; before both the place of a new folder."""
    steps = []
    rename, fsync = os.rename, os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (steps.append(os.path.isdir(f"/proc/self/fd/{fd}")), fsync(fd)))
    monkeypatch.setattr(os, "rename", lambda old, new: (steps.append("name"), rename(old, new)))
    write_job(folder, {})
    assert steps == [True, False, "name", True]
    write_job(folder, {})
    assert steps[4:] == [False, "name", True]


def test_one_at_a_time(folder):
    """A taken job is kept from others until let go; a done job is nobody's."""
    path = write_job(folder, {b"a": b"b"}, b"c")
    job = take_job(path, LATER)
    assert (job.path, job.values, job.body) == (path, {b"a": b"b"}, b"c") and take_job(path, LATER) is None
    job.close()
    job = take_job(path, LATER)
    job.remove()
    job.remove()
    assert take_job(path, LATER) is None and list_jobs(folder) == []
    job.close()


def test_one_that_was_done_meanwhile(folder, monkeypatch):
    """A process with a removed job open does not do the job once more."""
    path = write_job(folder, {})
    flock = module.fcntl.flock
    monkeypatch.setattr(module.fcntl, "flock", lambda *args: (flock(*args), os.unlink(path)))
    assert take_job(path, LATER) is None


def test_time_makes_a_job_due(folder):
    """A job is not due before the time, whoever has listed the job; put off, the job is as new."""
    path = write_job(folder, {}, at=5000)
    assert take_job(path, 4999) is None
    job = take_job(path, 5000)
    assert job.put_off(5000, 30) == 30
    job.close()
    assert take_job(path, 5029) is None and list_jobs(folder)[0].at == 5030


def test_back_off_grows_with_the_delay(folder, monkeypatch):
    """The wait is as long as the job has been due: from a second to an hour."""
    monkeypatch.setattr(module.time, "time", lambda: 1000.0)
    path = write_job(folder, {}, at=5000)
    job = take_job(path, LATER)
    assert [job.put_off(now) for now in (5000, 5000.5, 5002, 5010, 9000, 99000)] == [1, 1, 2, 10, 3600, 3600]
    job.close()
    os.rename(path, other := f"{folder}/uwsgi_spoolfile_on_x")
    job = take_job(other, LATER)
    assert job.put_off(5000) == 1
    job.close()


UNREADABLE = [
    (b"", "it has no head"),
    (b"\x11\x00", "it has no head"),
    (b"\x00\x00\x00\x00", r"it begins with b'\\x00"),
    (b"\x11\x09\x00\x00\x01\x00a", "has 7 octets"),
    (b"\x11\x03\x00\x00\x01\x00a", "its values overrun it"),
    (b"\x11\x03\x00\x00\x09\x00a", "its values overrun it"),
]


@pytest.mark.parametrize(("octets", "why"), UNREADABLE)
def test_what_is_no_job(folder, octets, why):
    """Such a file is put aside, and not lost."""
    path = pathlib.Path(write_job(folder, {}))
    path.write_bytes(octets)
    with pytest.raises(ValueError, match=why):
        take_job(str(path), LATER)
    assert list_jobs(folder) == [] and names(folder) == [f".unreadable-{path.name}"]


def test_what_cannot_be_looked_at(folder, monkeypatch):
    """Other jobs are there all the same, and the caller is told."""
    path = write_job(folder, {})
    os.unlink(write_job(folder, {}, priority="5"))
    pathlib.Path(folder, ".new-x").touch()
    scandir, now, told = os.scandir, module.time.time(), []

    def refuse(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", lambda place: refuse(place) if place.endswith("/5") else scandir(place))
    monkeypatch.setattr(os, "unlink", refuse)
    monkeypatch.setattr(module.time, "time", lambda: now + 3700)
    assert [due.path for due in list_jobs(folder)] == [path]
    assert list_jobs(folder, lambda path, what, fault: told.append((path, what, fault.strerror)))
    assert sorted(told) == [
        (f"{folder}/{name}", "cannot be looked at", "Permission denied") for name in (".new-x", "5")
    ]


def test_what_nobody_goes_on_writing(folder, monkeypatch):
    """A dead process's unfinished file is removed when old."""
    write_job(folder, {})
    pathlib.Path(folder, ".new-x").touch()
    assert len(list_jobs(folder)) == 1 and len(names(folder)) == 2
    now = module.time.time()
    monkeypatch.setattr(module.time, "time", lambda: now + 3700)
    assert len(list_jobs(folder)) == 1 and len(names(folder)) == 1


def test_waking_tells_of_a_new_job(folder):
    """A waiting process is told of a new job; without one, nothing happens."""
    wake(folder)
    fd = open_wake(folder)
    with pytest.raises(BlockingIOError):
        os.read(fd, 9)
    write_job(folder, {}, priority="1")
    assert os.read(fd, 9) == b"j"
    for _ in range(70000):
        wake(folder)  # no reader: it does not wait
    os.close(open_wake(folder))
    os.close(fd)


@pytest.mark.parametrize("kind", ["file", "link to a file", "link to nothing", "socket"])
def test_waking_where_something_else_stands(folder, tmp_path, kind):
    """A file can be read at any time, and would wake all the time: the file is replaced, and nothing is written to the file."""
    os.mkdir(folder)
    place = pathlib.Path(folder, ".wake")
    if kind == "file":
        place.write_bytes(b"x")
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(place))
    else:
        place.symlink_to(tmp_path / "other")
    if kind == "link to a file":
        (tmp_path / "other").touch()
    wake(folder)
    fd = open_wake(folder)
    with pytest.raises(BlockingIOError):
        os.read(fd, 9)
    wake(folder)
    assert os.read(fd, 9) == b"j" and place.is_fifo() and not place.is_symlink()
    os.close(fd)
    assert kind != "link to a file" or (tmp_path / "other").read_bytes() == b""


def test_waking_writes_to_no_file(folder):
    """A writer of a job leaves the file in the FIFO's place unchanged."""
    os.mkdir(folder)
    place = pathlib.Path(folder, ".wake")
    place.write_bytes(b"x")
    wake(folder)
    assert place.read_bytes() == b"x"


def test_waking_where_two_replace(folder, monkeypatch):
    """The second process finds the first process's FIFO, and leaves the FIFO there."""
    os.mkdir(folder)
    place = pathlib.Path(folder, ".wake")
    place.touch()
    lock, first = module.fcntl.flock, []

    def another_is_quicker(fd, how):
        monkeypatch.setattr(module.fcntl, "flock", lock)
        first.append(open_wake(folder))
        lock(fd, how)

    monkeypatch.setattr(module.fcntl, "flock", another_is_quicker)
    second = open_wake(folder)
    wake(folder)
    assert os.read(first[0], 9) == b"j"
    os.close(first[0])
    os.close(second)


def test_the_last_leaves_no_fifo(folder):
    """The last ending process removes the FIFO, and nothing else; the next process makes a new FIFO."""
    first, second = JobFolder(folder), JobFolder(folder)
    place = pathlib.Path(folder, ".wake")
    first.close()
    assert place.is_fifo()
    wake(folder)
    assert os.read(second._waking, 9) == b"j"
    second.close()
    assert os.listdir(folder) == []
    third = JobFolder(folder)
    place.unlink()
    place.write_bytes(b"x")
    third.close()
    assert place.read_bytes() == b"x"
    os.rename(folder, f"{folder}.gone")
    close_wake(folder, os.open(os.devnull, os.O_RDONLY))


DIES = """\
import os, sys, time
from aserve.compat.uwsgi_api.spooler.folder import take_job
job = take_job(sys.argv[1], time.time())
print(job is not None, flush=True)
os.kill(os.getpid(), 9)
"""


def test_one_whose_process_dies(folder):
    path = write_job(folder, {})
    done = subprocess.run([sys.executable, "-Ic", DIES, path], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n" and done.returncode == -9
    job = take_job(path, LATER)
    assert job is not None
    job.close()


def test_how_many_wait(tmp_path, monkeypatch):
    """Jobs of priorities count, too; other files do not; counting stops at a number."""
    folder = str(tmp_path / "jobs")
    assert count_jobs(folder) == 0
    write_job(folder, {b"a": b"b"})
    write_job(folder, {b"a": b"b"}, priority="5", at=4e9)
    open_wake_fd = open_wake(folder)
    os.close(open_wake_fd)
    (tmp_path / "jobs" / "7").touch()
    assert count_jobs(folder) == 2
    monkeypatch.setattr(module, "MAX_COUNTED", 1)
    assert count_jobs(folder) <= 1
