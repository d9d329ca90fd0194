"""The file with the process's number: written whole, and removed by whoever has written it."""

from __future__ import annotations

import os
import stat

import pytest

from aserve.lifecycle.pid_file import kept_pid_file, pid_file
from aserve.settings import ConfigError

PID = 4711
OURS = f"{PID}\n"


@pytest.fixture(autouse=True)
def number(monkeypatch):
    """This process has the number that the tables were written with."""
    monkeypatch.setattr(os, "getpid", lambda: PID)


def test_no_file():
    """Without a path nothing is written."""
    with pid_file(None):
        pass


@pytest.mark.parametrize("earlier", [None, "12345\n", "half a"])
def test_it_is_there_meanwhile(tmp_path, earlier, monkeypatch):
    """It has the number on a line of its own, is readable for all, and is gone afterwards; one that was left is replaced."""
    path = tmp_path / "a.pid"
    if earlier is not None:
        path.write_text(earlier)
    monkeypatch.chdir(tmp_path)
    before = os.umask(0o077)
    try:
        with pid_file("a.pid"):
            monkeypatch.chdir("/")
            assert path.read_text() == OURS and os.listdir(tmp_path) == ["a.pid"]
            assert stat.S_IMODE(path.stat().st_mode) == 0o644
    finally:
        os.umask(before)
    assert os.listdir(tmp_path) == []


def test_a_link_is_replaced(tmp_path):
    """What somebody has linked to its name is not written to."""
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "a.pid").symlink_to(tmp_path / "precious")
    with pid_file(str(tmp_path / "a.pid")):
        assert (tmp_path / "a.pid").read_text() == OURS
    assert (tmp_path / "precious").read_text() == "precious"


def test_it_is_removed_after_an_error(tmp_path):
    """Whatever ends the block."""
    with pytest.raises(KeyError), pid_file(str(tmp_path / "a.pid")):
        raise KeyError
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("found", [OURS, "12345\n", None], ids=["ours", "another's", "none"])
def test_it_is_kept(tmp_path, found):
    """Code that takes over in the same process writes none, and removes that of before, if it is still there."""
    path = tmp_path / "a.pid"
    if found is not None:
        path.write_text(found)
    with kept_pid_file(str(path)), kept_pid_file(None):
        assert path.exists() == (found is not None)
    assert path.exists() == (found == "12345\n")


def test_another_has_written_it(tmp_path):
    """A server that has been started meanwhile keeps its own."""
    path = tmp_path / "a.pid"
    with pid_file(str(path)):
        path.write_text("12345\n")
    assert path.read_text() == "12345\n"


def test_another_has_removed_it(tmp_path):
    """That is no error."""
    with pid_file(str(tmp_path / "a.pid")):
        (tmp_path / "a.pid").unlink()


def test_a_child_leaves_it(tmp_path, monkeypatch):
    """A process that the app has forked removes nothing of its parent's."""
    with pid_file(str(tmp_path / "a.pid")):
        monkeypatch.setattr(os, "getpid", lambda: 12345)
    assert os.listdir(tmp_path) == ["a.pid"]


def test_it_cannot_be_removed(tmp_path, monkeypatch, caplog):
    """After --user it may be root's: the log says so, and that it does no harm."""
    caplog.set_level("INFO", "aserve")

    def refuse(path):
        raise PermissionError(13, "Permission denied")

    with pid_file(str(tmp_path / "a.pid")):
        monkeypatch.setattr(os, "unlink", refuse)
    assert f"the pid file {tmp_path}/a.pid stays: Permission denied; the next start replaces it" in caplog.text


@pytest.mark.parametrize(("path", "text"), [("no/a.pid", "No such file or directory"), ("folder", "Is a directory")])
def test_it_cannot_be_written(tmp_path, path, text):
    """One line, and nothing is left behind."""
    (tmp_path / "folder").mkdir()
    said = f"cannot write the pid file {tmp_path}/{path}: {text}; see --pid-file"
    with pytest.raises(ConfigError, match=said), pid_file(str(tmp_path / path)):
        pass
    assert os.listdir(tmp_path) == ["folder"]
