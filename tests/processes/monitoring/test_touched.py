"""Files whose change is seen."""

from __future__ import annotations

import os

from aserve.processes.monitoring.touched import TouchedFiles


def test_changes(tmp_path, monkeypatch):
    """A file that appears, is touched, written or replaced has changed, once; one that goes has not."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "file"
    touched = TouchedFiles(["file", "other"])
    assert touched.find_changed() == ""
    path.touch()
    assert touched.find_changed() == str(path)
    assert touched.find_changed() == ""
    os.utime(path, (1, 1))
    assert touched.find_changed() == str(path)
    path.write_text("more")
    os.utime(path, (1, 1))
    assert touched.find_changed() == str(path)
    monkeypatch.chdir("/")  # where it was looked for counts
    path.unlink()
    assert touched.find_changed() == ""
    path.touch()
    assert touched.find_changed() == str(path)


def test_none():
    """Without files there is nothing to see."""
    assert TouchedFiles([]).find_changed() == ""


def test_other_files_from_now_on(tmp_path):
    """What has changed since the last look is found, where a file was known before; one that is new has not changed."""
    known, new = tmp_path / "known", tmp_path / "new"
    known.touch()
    touched = TouchedFiles([str(known), str(tmp_path / "gone")])
    os.utime(known, (1, 1))
    new.touch()
    touched.follow([str(known), str(new)])
    assert touched.find_changed() == str(known)
    assert touched.find_changed() == ""
    os.utime(new, (1, 1))
    (tmp_path / "gone").touch()
    assert touched.find_changed() == str(new)
    assert touched.find_changed() == ""
