"""Files whose change is seen."""

import os

from aserve.processes.monitoring.touched import TouchedFiles


def test_changes_are_found_once(tmp_path, monkeypatch):
    """A new, touched, written or replaced file has changed, once; a removed one has not."""
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
    monkeypatch.chdir("/")  # its first folder counts
    path.unlink()
    assert touched.find_changed() == ""
    path.touch()
    assert touched.find_changed() == str(path)


def test_no_files_show_no_change():
    assert TouchedFiles([]).find_changed() == ""


def test_other_files_from_now_on(tmp_path):
    """A change since the last look is found, where a file was known before; a new one has not changed."""
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
