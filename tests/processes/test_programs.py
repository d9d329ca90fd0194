"""Starting programs, and what is told before: on real ones; tests/e2e/test_attached.py has all of their life."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from aserve.features import Config
from aserve.processes import command as command_module
from aserve.processes import programs
from aserve.processes.programs import check_programs
from aserve.settings import ConfigError

BLOCKED = """\
import os, signal, sys, types
from aserve.processes.programs import start_program
from aserve.settings.commands import Program
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


def test_a_spooler_without_proc(monkeypatch):
    """An interpreter that does not know how it was started (before 3.10) cannot start another like it: that is told at once."""
    monkeypatch.setattr(command_module, "COMMAND_LINE", "/no/such/file")
    monkeypatch.delattr(sys, "orig_argv", raising=False)
    with pytest.raises(ConfigError, match=r"spooler: the command line, .* is not known without /proc"):
        check_programs(Config(workers=1, spooler=["/tmp"]), {})


@pytest.mark.parametrize("place", [os.devnull, "/no/such/file"])
def test_standard_input(monkeypatch, place):
    """Nothing can be read from it, with /dev or without."""
    monkeypatch.setattr(programs.os, "devnull", place)
    fd = programs._open_nothing()
    assert os.read(fd, 1) == b""
    os.close(fd)


def test_what_is_not_there(tmp_path):
    """A program that is not there is told before anything starts."""
    (tmp_path / "run").write_text("#!/bin/sh\n")
    check_programs(Config(workers=1, attach=["sh -c x"]), {"PATH": "/bin:/usr/bin"})
    for attach, env, why in (
        (
            "no-such-program x",
            (),
            r"attach: cannot run 'no-such-program' of 'no-such-program ...': it is in no folder of PATH",
        ),
        ("sh", ("PATH=/nowhere",), r"it is in no folder of PATH \(/nowhere\)"),
        ("./run", (), "there is no such file that can be run"),
    ):
        with pytest.raises(ConfigError, match=why):
            check_programs(Config(workers=1, attach=[attach], env=env, chdir=str(tmp_path)), {})
    (tmp_path / "run").chmod(0o755)
    check_programs(Config(workers=1, attach=["./run"], chdir=str(tmp_path)), {})
