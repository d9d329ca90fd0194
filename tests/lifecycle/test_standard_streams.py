"""Closed standard descriptors: /dev/null is there, and nothing else is touched."""

import os
import subprocess
import sys

import pytest
from harness.interpreter import later_on_pypy

from aserve.lifecycle import standard_streams
from aserve.lifecycle.standard_streams import fill_standard_streams

# Tells its findings on its own descriptor, after it has closed some of the others.
CHILD = """
import os, sys
from aserve.lifecycle.standard_streams import fill_standard_streams
os.urandom(1)  # PyPy 3.11 opens a file for it, and keeps it
for fd in map(int, sys.argv[2].split()):
    os.close(fd)
out = int(sys.argv[1])
sys.stdin = sys.stdout = sys.stderr = None
fill_standard_streams()
kinds = [str(os.fstat(fd).st_rdev == os.stat(os.devnull).st_rdev) for fd in range(3)]
found = [*kinds, str(all(map(os.get_inheritable, range(3)))), str(None in (sys.stdin, sys.stdout, sys.stderr))]
print("lost", file=sys.stderr, flush=True)
os.write(out, " ".join(found).encode())
"""


@pytest.mark.parametrize("closed", [later_on_pypy("0"), later_on_pypy("2"), "0 1 2", ""])
def test_closed_descriptors_become_dev_null(closed):
    """Each closed one is /dev/null, which programs inherit; Python has a file on each."""
    read, write = os.pipe()
    with open(read, "rb") as answer:
        command = [sys.executable, "-Ic", f"import sys; sys.path[:] = {sys.path!r}\n{CHILD}", str(write), closed]
        subprocess.run(command, pass_fds=[write], stdin=subprocess.PIPE, capture_output=True, check=True)
        os.close(write)
        *kinds, is_inherited, lacks = answer.read().decode().split()
    assert kinds == [str(str(fd) in closed) for fd in range(3)]
    assert is_inherited == "True" and lacks == "False"


@pytest.mark.parametrize("taken", [True, False], ids=["another thread opens a file", "no /dev"])
def test_what_cannot_be_filled(monkeypatch, taken):
    """The number is left to its present owner; nothing is left open."""
    closed = []

    def open_(path, flags):
        if not taken:
            raise FileNotFoundError(2, "No such file or directory")
        return 77

    monkeypatch.setattr(standard_streams, "is_open", lambda fd: False)
    fake = {"open": open_, "close": closed.append}
    monkeypatch.setattr(
        standard_streams, "os", type("os", (), {**vars(os), **{k: staticmethod(v) for k, v in fake.items()}})
    )
    before = sys.stdin, sys.stdout, sys.stderr
    fill_standard_streams()
    assert closed == [77] * 3 * taken and (sys.stdin, sys.stdout, sys.stderr) == before


def test_what_is_open_stays():
    before = sys.stdin, sys.stdout, sys.stderr
    fill_standard_streams()
    assert (sys.stdin, sys.stdout, sys.stderr) == before


def test_a_reader_that_has_gone(monkeypatch):
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        standard_streams.discard_output()
        file.write("more")
        file.flush()
