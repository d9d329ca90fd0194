"""The file with the process's number: written whole, and removed by its writer."""

import os
import stat
import subprocess
import sys

import pytest

from aserve.lifecycle.pid_file import kept_pid_file, note_that_it_stays, pid_file
from aserve.lifecycle.privileges import Account
from aserve.settings import ConfigError

PID = 4711
OURS = f"{PID}\n"
WEB = Account(7, 7, "web")


@pytest.fixture(autouse=True)
def number(monkeypatch):
    """This process has the number in the tables."""
    monkeypatch.setattr(os, "getpid", lambda: PID)


def test_no_file_without_a_path():
    with pid_file(None):
        pass


@pytest.mark.parametrize("earlier", [None, "12345\n", "half a"])
def test_it_is_there_meanwhile(tmp_path, earlier, monkeypatch):
    """The file has the number on its own line, is readable for all, and is gone afterwards; a left one is replaced."""
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
    """The target of a link with its name is not written to."""
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
    """Code that takes over in the same process writes none, and removes the old one, if still there."""
    path = tmp_path / "a.pid"
    if found is not None:
        path.write_text(found)
    with kept_pid_file(str(path)), kept_pid_file(None):
        assert path.exists() == (found is not None)
    assert path.exists() == (found == "12345\n")


def test_another_has_written_it(tmp_path):
    """A server started meanwhile keeps its own."""
    path = tmp_path / "a.pid"
    with pid_file(str(path)):
        path.write_text("12345\n")
    assert path.read_text() == "12345\n"


def test_another_has_removed_it(tmp_path):
    with pid_file(str(tmp_path / "a.pid")):
        (tmp_path / "a.pid").unlink()
        note_that_it_stays(str(tmp_path / "a.pid"), WEB)


def test_a_child_leaves_it(tmp_path, monkeypatch):
    """A forked process removes nothing of its parent's."""
    with pid_file(str(tmp_path / "a.pid")):
        monkeypatch.setattr(os, "getpid", lambda: 12345)
    assert os.listdir(tmp_path) == ["a.pid"]


def test_it_cannot_be_removed(tmp_path, monkeypatch, caplog):
    """The log says so, and that it does no harm."""
    caplog.set_level("INFO", "aserve")

    def refuse(path):
        raise OSError(30, "Read-only file system")

    with pid_file(str(tmp_path / "a.pid")):
        monkeypatch.setattr(os, "unlink", refuse)
    assert f"the pid file {tmp_path}/a.pid stays: Read-only file system; the next start replaces it" in caplog.text


def test_the_user_may_not_remove_it(tmp_path, monkeypatch, caplog):
    """After --user the file is root's, in a folder of root's: the start says so, with a remedy, and the end says nothing."""
    caplog.set_level("INFO", "aserve")

    def refuse(path):
        raise PermissionError(13, "Permission denied")

    with pid_file(str(tmp_path / "a.pid")):
        monkeypatch.setattr(os, "unlink", refuse)
        monkeypatch.setattr(os, "access", lambda path, mode: path != str(tmp_path))
        note_that_it_stays(str(tmp_path / "a.pid"), WEB)
    (record,) = caplog.records
    said = f"the pid file {tmp_path}/a.pid will stay at the end, as user web and group 7 may not remove it, and the next start replaces it; "
    assert record.getMessage().startswith(said) and "RuntimeDirectory=" in record.getMessage()


@pytest.mark.parametrize(("mode", "user", "stays"), [(0o777, 7, False), (0o1777, 7, True), (0o1777, 0, False)])
def test_a_folder_that_all_users_may_write_to(tmp_path, monkeypatch, caplog, mode, user, stays):
    """In one such as /tmp only root and the owner may remove the file; where the user may, there is no warning."""
    caplog.set_level("INFO", "aserve")
    tmp_path.chmod(mode)
    with pid_file(str(tmp_path / "a.pid")):
        monkeypatch.setattr(os, "geteuid", lambda: user)
        note_that_it_stays(str(tmp_path / "a.pid"), WEB)
        note_that_it_stays(None, WEB)
    assert bool(caplog.records) == stays


@pytest.mark.parametrize(("path", "text"), [("no/a.pid", "No such file or directory"), ("folder", "Is a directory")])
def test_it_cannot_be_written(tmp_path, path, text):
    (tmp_path / "folder").mkdir()
    said = f"cannot write the pid file {tmp_path}/{path}: {text}; see --pid-file"
    with pytest.raises(ConfigError, match=said), pid_file(str(tmp_path / path)):
        pass
    assert os.listdir(tmp_path) == ["folder"]


@pytest.fixture
def server(tmp_path):
    """Another process with the file a.pid."""
    code = f"""
from aserve.lifecycle.pid_file import pid_file
with pid_file({str(tmp_path / "a.pid")!r}):
    print(flush=True)
    input()
"""
    with subprocess.Popen([sys.executable, "-Ic", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.kill()


def test_a_server_that_runs_keeps_its_file(server, tmp_path):
    """The second refuses to start, and names the first; the file is the first's until its end."""
    path = tmp_path / "a.pid"
    with pytest.raises(ConfigError, match=rf"^the pid file {path} is that of a server that runs, pid {server.pid}: "):
        pid_file(str(path)).__enter__()
    assert path.read_text() == f"{server.pid}\n"
    server.kill()
    server.wait()
    with pid_file(str(path)):
        assert path.read_text() == OURS


def test_the_number_of_another_program_keeps_nobody(server, tmp_path):
    """A program with an ended server's number keeps no server from starting, nor, in a restarted container, does the server's own number."""
    path = tmp_path / "b.pid"
    for number in (server.pid, PID):
        path.write_text(f"{number}\n")
        with pid_file(str(path)):
            assert path.read_text() == OURS


def test_two_with_the_same_number(server, tmp_path, monkeypatch):
    """In containers with a shared volume, both are number 1: the second starts."""
    monkeypatch.setattr(os, "getpid", lambda: server.pid)
    with pid_file(str(tmp_path / "a.pid")):
        pass
