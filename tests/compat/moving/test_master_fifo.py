"""The FIFO for commands of uWSGI's deploy scripts."""

import os
import signal
import stat
import types

import pytest

from aserve.compat.moving.master_fifo import CommandFifo, MasterFifo
from aserve.core.errors import BindError
from aserve.features import Config

pytestmark = pytest.mark.long_on_pypy


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Return an existing FIFO, its function, and the sent signals."""
    watched, sent = [], []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append(number))
    config = Config(master_fifo=str(tmp_path / "fifo"), workers=1)
    assert MasterFifo.is_on(config) and not MasterFifo.is_on(Config())
    fifo = MasterFifo(config).supervise(types.SimpleNamespace(watch=lambda *given: watched.append(given)))
    fifo.answer({}, lambda *given: None, is_upgraded=False)
    yield types.SimpleNamespace(path=tmp_path / "fifo", fifo=fifo, watched=watched, sent=sent)
    fifo.close(is_end=True)


def test_commands_are_signals(opened, caplog):
    """Each letter is a signal; one without effect here has a line."""
    caplog.set_level("INFO")
    assert stat.S_ISFIFO(opened.path.stat().st_mode) and stat.S_IMODE(opened.path.stat().st_mode) == 0o600
    ((_, obey, _),) = opened.watched
    opened.path.write_text("r\n")
    obey()
    opened.path.write_text("+- q\nQxs")
    obey()
    assert opened.sent == [signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGTERM, signal.SIGQUIT]
    assert caplog.messages[0] == f"command r of {opened.path}"
    assert caplog.messages[-2].startswith(f"command 'x' of {opened.path} has no effect here: commands are r R c ")
    assert "aserve status" in caplog.messages[-1]


def test_the_end_removes_the_fifo(opened):
    opened.fifo.close(is_end=False)
    assert opened.path.exists() and len(opened.watched) == 1
    opened.fifo.close(is_end=True)
    assert opened.path.exists()  # closed already
    opened.fifo.answer({}, lambda *given: None, is_upgraded=True)
    opened.fifo.close(is_end=True)
    assert not opened.path.exists() and opened.watched[-1][2] == 0


def test_a_fifo_that_has_gone(opened, caplog):
    """The end goes on; a file of another kind stays."""
    opened.path.unlink()
    opened.fifo.close(is_end=True)
    assert "cannot remove" in caplog.messages[-1]
    opened.fifo.answer({}, lambda *given: None, is_upgraded=False)
    opened.path.unlink()
    opened.path.write_text("")
    opened.fifo.close(is_end=True)
    assert opened.path.exists()


def test_a_fifo_of_another_program(opened, tmp_path):
    """The FIFO is not taken from a reading program, such as uWSGI beside this server; nor removed at the end."""
    beside = CommandFifo(str(opened.path), lambda *given: None)
    with pytest.raises(BindError, match="another program takes its commands from there; stop it"):
        beside.answer({}, lambda *given: None, is_upgraded=False)
    opened.path.rename(tmp_path / "moved")
    beside.answer({}, lambda *given: None, is_upgraded=False)
    opened.fifo.close(is_end=True)
    assert opened.path.exists()
    beside.close(is_end=True)
    assert not opened.path.exists()


def test_what_was_there(tmp_path, caplog):
    """An earlier FIFO, or a script's file in the same place, is replaced; all further files stay."""
    path = tmp_path / "fifo"
    fifo = CommandFifo(str(path), lambda *given: None)
    for make in (lambda: os.mkfifo(path), lambda: path.write_text("c\n")):
        make()
        fifo.answer({}, lambda *given: None, is_upgraded=False)
        assert stat.S_ISFIFO(path.stat().st_mode)
        fifo.close(is_end=True)
    path.write_text("x" * 100)
    with pytest.raises(BindError, match="there is a file, and it is no FIFO"):
        fifo.answer({}, lambda *given: None, is_upgraded=False)
    fifo.answer({}, lambda *given: None, is_upgraded=True)
    assert caplog.messages[-1].endswith("serving without it") and path.read_text() == "x" * 100
