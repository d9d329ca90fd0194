"""Files made by root for the process's later user."""

import logging.handlers
import os
import pwd
from contextlib import nullcontext

import pytest

from aserve.features import Config
from aserve.lifecycle.given_files import can_give, give_files, giving_log_files

USER = pwd.getpwnam("nobody")
CONFIG = Config(user="nobody")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


@pytest.fixture
def folder(open_folder):
    """A folder of root's, unwritable for others."""
    place = open_folder / "log"
    place.mkdir(mode=0o755)
    return place


def owner_of(path):
    return os.stat(path).st_uid


@pytest.mark.parametrize("text", [None, "before\n"])
def test_it_is_made_and_given(folder, text):
    """The file keeps its content; once given, it is not given again."""
    path = folder / "access.log"
    if text:
        path.write_text(text)
    assert can_give(str(path))
    give_files([str(path)], "nobody", None)
    assert (path.read_text(), owner_of(path)) == (text or "", USER.pw_uid)
    assert not can_give(str(path))
    give_files([str(path)], "root", None)
    assert owner_of(path) == USER.pw_uid


def test_a_folder_by_a_link(folder):
    """A link of root's leads to one; another user's may lead anywhere tomorrow."""
    (folder.parent / "link").symlink_to(folder)
    assert can_give(str(folder.parent / "link" / "log"))
    os.lchown(folder.parent / "link", USER.pw_uid, USER.pw_gid)
    give_files([str(folder.parent / "link" / "log")], "nobody", None)
    assert os.listdir(folder) == []


def test_a_folder_that_others_rule_over(folder):
    """The user's own folder, one writable by others, /tmp, and one below such a folder: files there are made by the user."""
    below, groups = folder / "below", os.getgroups()
    below.mkdir()
    for owner, mode, is_safe_below in (
        (USER.pw_uid, 0o755, False),
        (0, 0o775, False),
        (0, 0o777, False),
        (0, 0o1777, True),
    ):
        os.chown(folder, owner, 0)
        folder.chmod(mode)
        give_files([str(folder / "log")], "nobody", None)
        assert (folder / "log").exists() is (owner != 0 or mode & 0o777 == 0o777) and can_give(
            str(below / "log")
        ) is is_safe_below
        if (folder / "log").exists():
            assert owner_of(folder / "log") == USER.pw_uid
            (folder / "log").unlink()
        assert os.geteuid() == os.getegid() == 0 and os.getgroups() == groups
    assert not can_give(str(folder / "none" / "log"))


@pytest.mark.parametrize("kind", [logging.FileHandler, logging.handlers.WatchedFileHandler])
@pytest.mark.parametrize("owner", [0, USER.pw_uid])
def test_files_of_handlers_are_the_users(folder, kind, owner):
    """Whichever code makes them, in a folder of root's or of the user's; --check opens none, and later handlers are as always."""
    os.chown(folder, owner, 0)
    names = folder / "check", folder / "start", folder / "later"
    for name, giving in zip(names, (giving_log_files(CONFIG, is_check=True), giving_log_files(CONFIG), nullcontext())):
        with giving:
            kind(str(name)).close()
    assert {path.name: owner_of(path) for path in folder.iterdir()} == {"start": USER.pw_uid, "later": 0}


def test_what_is_no_ordinary_file(folder):
    """A link, a second name of a file, a pipe, a device."""
    (folder / "file").write_text("")
    (folder / "link").symlink_to(folder / "file")
    os.link(folder / "file", folder / "second")
    os.mkfifo(folder / "pipe")
    for path in (folder / "link", folder / "second", folder / "pipe", "/dev/null"):
        give_files([str(path)], "nobody", None)
        assert owner_of(path) == 0


def test_without_a_user_or_root(folder, monkeypatch):
    """Nothing is made."""
    give_files([str(folder / "log")], None, None)
    monkeypatch.setattr(os, "geteuid", lambda: USER.pw_uid)
    give_files([str(folder / "log")], "nobody", None)
    assert os.listdir(folder) == []


def test_a_file_that_cannot_be_opened(folder, monkeypatch):
    """The error comes later, when it is opened for writing."""

    def refuse(*given):
        raise OSError

    monkeypatch.setattr(os, "open", refuse)
    give_files([str(folder / "log")], "nobody", None)
    assert os.listdir(folder) == []
