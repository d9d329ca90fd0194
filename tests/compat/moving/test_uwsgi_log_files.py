"""The modes of log files with a file of uWSGI's."""

import os

import pytest

from aserve.compat.moving.uwsgi import load_uwsgi
from aserve.core.log_target import FileModes, open_target
from aserve.extension import Life, LifeContext

pytestmark = pytest.mark.long_on_pypy


@pytest.fixture
def open_log(tmp_path, monkeypatch):
    """Open the log of a file of uWSGI's: open_log(line, ...) -> the mode of the log's file."""
    monkeypatch.setattr(FileModes, "made", FileModes.made)
    monkeypatch.setattr(FileModes, "given", FileModes.given)
    log = tmp_path / "a.log"

    def open_log(*lines, before=None):
        if before is not None:
            log.touch()
            log.chmod(before)
        (tmp_path / "a.ini").write_text("\n".join(["[uwsgi]", "module = shop", *lines]).replace("LOG", str(log)))
        for extension in load_uwsgi(str(tmp_path / "a.ini"), {}).facts["extensions"]:
            for event in Life:
                extension.on_life(event, LifeContext(None))
        umask = os.umask(0o022)
        target = open_target(str(log))
        os.umask(umask)
        target.reopen()
        target.close()
        return oct(log.stat().st_mode & 0o7777)

    return open_log


@pytest.mark.parametrize(
    ("lines", "before", "mode"),
    [
        (["logto = LOG"], None, "0o640"),
        (["req-logger = file:LOG"], None, "0o640"),
        (["logger = file:LOG"], None, "0o640"),
        (["daemonize = LOG"], None, "0o640"),
        (["logto = LOG"], 0o604, "0o604"),
        (["logto = LOG", "logfile-chmod = 600"], None, "0o600"),
        (["logto = LOG", "logfile-chmod = 666"], None, "0o666"),
        (["logto = LOG", "logfile-chmod = 600"], 0o644, "0o600"),
        (["daemonize = LOG", "logfile-chmod = 600"], None, "0o600"),
        (["req-logger = file:LOG", "logfile-chmod = 666"], None, "0o640"),
    ],
)
def test_as_with_uwsgi(open_log, lines, before, mode):
    """A new file is closed to others; logfile-chmod sets the mode of each file of logto and daemonize."""
    assert open_log(*lines, before=before) == mode


def test_a_mode_that_cannot_be_set(open_log, monkeypatch, caplog):
    """The file may be another user's: lines are written, as with uWSGI, and the log tells of the readers."""

    def refuse(*given):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchmod", refuse)
    assert open_log("logto = LOG", "logfile-chmod = 600", before=0o644) == "0o644"
    assert "cannot set the mode 600 of the log" in caplog.text and "Operation not permitted" in caplog.text


def test_a_mode_of_other_digits(tmp_path):
    (tmp_path / "a.ini").write_text("[uwsgi]\nmodule = shop\nlogto = /tmp/x\nlogfile-chmod = rw\n")
    with pytest.raises(ValueError, match="logfile-chmod"):
        load_uwsgi(str(tmp_path / "a.ini"), {})
