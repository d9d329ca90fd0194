"""The actions of uWSGI's hooks."""

import os
import socket
import stat
import threading

import pytest

from aserve.compat.moving import uwsgi_actions
from aserve.compat.moving.uwsgi_actions import ActionError, Place, do_action

pytestmark = pytest.mark.long_on_pypy


@pytest.fixture
def place(tmp_path):
    """A folder with a file of one line."""
    (tmp_path / "there").write_text("old\n")
    (tmp_path / "there").chmod(0o644)
    return Place(str(tmp_path), {"PATH": os.environ.get("PATH", os.defpath), "WORD": "a"}, {})


@pytest.mark.parametrize(
    ("action", "argument", "text"),
    [
        ("write", "there new text", "new text"),
        ("writen", "there new", "new\n"),
        ("append", "there new", "old\nnew"),
        ("appendn", "there new", "old\nnew\n"),
        ("appendn", "there", "old\n\n"),
        ("create", "there", ""),
        ("creat", "there", ""),
        ("touch", "there", "old\n"),
        ("exec", "echo $WORD > there", "a\n"),
        ("safeexec", "echo $WORD >> there; false", "old\na\n"),
        ("chmod", "there 600", "old\n"),
        ("print", "ready", "old\n"),
        ("writefifo", "nobody.reads new", "old\n"),
    ],
)
def test_texts_are_written_to_the_file(place, tmp_path, action, argument, text):
    do_action(action, argument, place)
    assert (tmp_path / "there").read_text() == text


def test_files_get_modes_and_owners(place, tmp_path):
    do_action("touch", "new", place)
    do_action("mkdir", "folder", place)
    assert (tmp_path / "new").exists() and (tmp_path / "folder").is_dir()
    do_action("chmod", "there 640", place)
    do_action("sticky", "folder", place)
    assert stat.S_IMODE((tmp_path / "there").stat().st_mode) == 0o640
    assert (tmp_path / "folder").stat().st_mode & stat.S_ISVTX
    do_action("chown2", f"there {os.getuid()} {os.getgid()}", place)
    do_action("unlink", "there", place)
    assert not (tmp_path / "there").exists()


def test_names_of_owners(place, monkeypatch):
    given = []
    monkeypatch.setattr(os, "chown", lambda *owner: given.append(owner))
    do_action("chown", "there root root", place)
    assert given == [(place.path_of("there"), 0, 0)]


def test_variables_are_this_processs(place):
    do_action("putenv", "MOVED=now", place)
    assert place.own == {"MOVED": "now"}


def test_the_process_itself(place, tmp_path, monkeypatch):
    named = []
    monkeypatch.chdir("/")
    monkeypatch.setattr(socket, "sethostname", named.append)
    (tmp_path / "current").mkdir()
    do_action("cd", "current", place)
    do_action("hostname", "shop", place)
    assert os.getcwd() == str(tmp_path / "current") and named == ["shop"]


def test_waiting_for_a_path(place, tmp_path, monkeypatch):
    """The wait ends with the path, and after a minute at most."""
    slept = []
    monkeypatch.setattr(uwsgi_actions.time, "sleep", lambda seconds: slept.append((tmp_path / "late").mkdir()))
    do_action("wait_for_dir", "late", place)
    do_action("wait_for_file", "there", place)
    assert len(slept) == 1
    monkeypatch.setattr(uwsgi_actions.time, "sleep", lambda seconds: None)
    with pytest.raises(ActionError, match="there is none after 60 s"):
        do_action("wait_for_fs", "never", place)


def test_a_fifo_that_is_read(place, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    found = []
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    do_action("writefifo", "fifo new", place)
    thread = threading.Thread(target=lambda: found.append(os.read(reader, 100)))
    thread.start()
    thread.join()
    os.close(reader)
    assert found == [b"new"]


@pytest.mark.parametrize(
    ("action", "argument", "why"),
    [
        ("exec", "exit 3", "the command has ended with status 3"),
        ("write", "there", "it is not of the form FILE TEXT"),
        ("append", "there", "it is not of the form FILE TEXT"),
        ("writefifo", "there", "it is not of the form FILE TEXT"),
        ("putenv", "MOVED", "it is not of the form NAME=VALUE"),
        ("unlink", "absent", "No such file or directory"),
        ("mkdir", "there", "File exists"),
        ("chmod", "there rw", "invalid literal for int"),
        ("chown", "there", "not enough values to unpack"),
        ("chown", "there no-such-user-1 root", "no-such-user-1"),
    ],
)
def test_what_cannot_be_done(place, action, argument, why):
    with pytest.raises(ActionError, match=why):
        do_action(action, argument, place)
