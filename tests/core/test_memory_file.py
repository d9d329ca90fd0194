"""Files only in memory."""

import mmap
import os
import stat
import subprocess
import sys

import pytest

from aserve.core import descriptors, memory_file
from aserve.core.memory_file import map_memory_file, open_memory_file

# Prints whether a program has a descriptor of this file.
LOOK = """
import os, sys
def is_it(name):
    try:
        status = os.stat("/proc/self/fd/" + name)
    except OSError:
        return False
    return [status.st_dev, status.st_ino] == [int(word) for word in sys.argv[1:]]
print(any(map(is_it, os.listdir("/proc/self/fd"))))
"""


def is_inherited(fd):
    status = os.fstat(fd)
    command = [sys.executable, "-ISc", LOOK, str(status.st_dev), str(status.st_ino)]
    return subprocess.check_output(command, close_fds=False, text=True) == "True\n"


@pytest.fixture(params=["memfd", "shared memory", "a folder"])
def fd(request, monkeypatch, tmp_path):
    """A new file, in each of the ways that there are."""
    if request.param == "memfd" and not hasattr(os, "memfd_create"):
        pytest.skip("this Python has no memfd_create")
    if request.param != "memfd":
        monkeypatch.delattr(os, "memfd_create", raising=False)
    if request.param == "a folder":
        monkeypatch.setattr(memory_file, "SHARED_MEMORY", str(tmp_path / "missing"))
    fd = open_memory_file("aserve-test")
    yield fd
    os.close(fd)


def test_a_file_is_empty_and_nameless(fd):
    """The file is empty, has no name, and can be written and read by its user."""
    status = os.fstat(fd)
    assert (status.st_size, status.st_nlink, status.st_uid, stat.filemode(status.st_mode)) == (
        0,
        0,
        os.geteuid(),
        "-rw-------",
    )
    os.write(fd, b"here")
    assert os.pread(fd, 9, 0) == b"here"


def test_who_inherits_it(fd):
    """No program does, but one meant to."""
    os.truncate(fd, mmap.PAGESIZE)
    with map_memory_file(fd) as memory:
        assert len(memory) == mmap.PAGESIZE
        assert not is_inherited(fd)
        os.set_inheritable(fd, True)
        assert is_inherited(fd)


def test_without_proc_no_program_inherits_it(fd, monkeypatch):
    monkeypatch.setattr(descriptors, "FOLDERS", ())
    os.truncate(fd, mmap.PAGESIZE)
    os.set_inheritable(fd, True)
    map_memory_file(fd).close()
    assert not os.get_inheritable(fd)
