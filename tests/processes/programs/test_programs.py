"""Starting real programs; tests/e2e/test_attached.py has their whole life."""

import os
import re
import signal
import subprocess
import sys

import pytest

from aserve.processes.programs import programs

BLOCKED = """\
import os, signal, sys, types
from aserve.processes.programs.programs import start_program
from aserve.lifecycle.program import Program
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
pid = start_program(Program("a", ("grep", "^Sig[BI]", "/proc/self/status")), os.environ, None, types.SimpleNamespace(close=int))
os.waitpid(pid, 0)
"""


def test_signals_that_are_ignored_or_blocked():
    """A program inherits neither, as from nohup."""
    done = subprocess.run([sys.executable, "-Ic", BLOCKED], capture_output=True, text=True, timeout=60)
    found = {name: int(mask, 16) for name, mask in re.findall(r"Sig(\w+):\s*(\w+)", done.stderr)}
    valid = sum(1 << (number - 1) for number in signal.valid_signals())  # others are the C library's
    assert found["Blk"] == 0 and not found["Ign"] & valid


@pytest.mark.parametrize("place", [os.devnull, "/no/such/file"])
def test_standard_input_is_empty(monkeypatch, place):
    monkeypatch.setattr(programs.os, "devnull", place)
    fd = programs._open_nothing()
    assert os.read(fd, 1) == b""
    os.close(fd)
