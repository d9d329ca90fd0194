"""The end of the command: lines, and a status."""

import errno
import os
import signal

import pytest

from aserve.command import outcome
from aserve.core.errors import BindError
from aserve.lifecycle.load_error import LoadError
from aserve.lifecycle.signals import Interrupted
from aserve.settings import ConfigError


@pytest.mark.parametrize(
    ("fault", "status", "said"),
    [
        (ConfigError("one\ntwo"), 2, "aserve: error: one\naserve: error: two\n"),
        (BindError("port 80 is taken"), 2, "aserve: error: port 80 is taken\n"),
        (LoadError("it raised", "Traceback\n"), 1, "Traceback\naserve: error: it raised\n"),
        (KeyboardInterrupt(), 130, ""),
        (Interrupted(signal.SIGTERM), 143, "aserve: SIGTERM: ending before it has served\n"),
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), 1, "aserve: error: too many open files: "),
    ],
)
def test_errors_are_lines_and_a_status(monkeypatch, capsys, fault, status, said):
    """The status tells whose fault an error is."""
    ends = []
    monkeypatch.setattr(outcome.exits, "bound_exit", ends.append)

    def fail():
        raise fault

    assert outcome.status_of(fail) == status and ends == [status]
    assert capsys.readouterr().err.startswith(said)


def test_others_keep_their_status_or_fault(monkeypatch):
    """A task without error has a status; a foreign fault is not hidden."""
    monkeypatch.setattr(outcome.exits, "bound_exit", lambda status: None)
    assert outcome.status_of(lambda: 3) == 3

    def fail():
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        outcome.status_of(fail)
