"""A program for gunicorn serves in the program's process."""

import sys

import pytest

from aserve.command import outcome
from aserve.command.handed_down import HandedDescriptors
from aserve.compat.gunicorn import serving
from aserve.compat.moving.gunicorn_programs import GunicornProgram
from aserve.processes.children.command import TRIAL_VARIABLE

PROGRAM = GunicornProgram("std.py", "a:b()", dict)


@pytest.fixture
def calls(monkeypatch):
    """What is started."""
    found = []
    monkeypatch.setattr(serving, "_begun", None)
    monkeypatch.setattr(outcome.exits, "bound_exit", lambda status: None)
    monkeypatch.setattr(serving, "start", lambda args, fd, environ: found.append((args, fd)) or 3)
    monkeypatch.setattr(serving, "start_trial", lambda args, fd: found.append((args(), fd)) or 4)
    return found


def test_alone_the_program_reads_the_environment(calls, monkeypatch, tmp_path):
    """`python std.py`: the descriptors of a previous supervisor come from the environment."""
    assert serving.run_program(PROGRAM, {"check": True}) == 3
    assert calls == [({"gunicorn_program": PROGRAM, "check": True}, None)]
    with open(tmp_path / "channel", "w") as file:
        monkeypatch.setenv(TRIAL_VARIABLE, str(file.fileno()))
        assert serving.run_program(PROGRAM, {}) == 4
        assert calls[1:] == [({"gunicorn_program": PROGRAM}, file.fileno())]


def test_by_the_command(calls):
    """`aserve --workers 2 python std.py`: the program finds the flags, and the read settings."""
    serving.begin({"workers": "2"}, HandedDescriptors(None, 8))
    assert serving.run_program(PROGRAM, {}) == 3
    assert calls == [({"gunicorn_program": PROGRAM, "workers": "2"}, 8)]


def test_words_behind_the_program_are_its_own(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["std.py", "-w", "2"])
    assert serving.program_words()[0] == ["-w", "2"]
