"""Files whose change is seen."""

from __future__ import annotations

import os

from aserve.processes.touched import TouchedFiles


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
