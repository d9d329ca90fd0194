"""The folder of the start, by its name: entered by its present target, or refused in words."""

import os
import sys
import types

import pytest

from aserve.core.start_folder import FolderGoneError, StartFolder

OWN = frozenset(sys.modules)


@pytest.fixture
def releases(tmp_path, monkeypatch):
    """Two releases, and a link to the first, in which the process is."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "current").symlink_to("one")
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "one" / "venv"))
    monkeypatch.chdir(tmp_path / "current")
    return tmp_path


def flip(releases):
    (releases / "next").symlink_to("two")
    (releases / "next").rename(releases / "current")


def test_its_name_is_the_environments_if_true(releases):
    """The name is the environment's, if true; else the process's place."""
    current, one = str(releases / "current"), str(releases / "one")
    for said, found in (
        (current, (current, True)),
        (one, (one, True)),
        (str(releases), (one, False)),
        ("current", (one, False)),
        ("", (one, False)),
        (str(releases / "missing"), (".", False)),
    ):
        assert StartFolder.of_this_process({"PWD": said}) == found
    assert StartFolder.of_this_process({}) == (one, False)


def test_a_link_that_leads_elsewhere(releases):
    """The process goes there; so do sys.path's entries of the folder, but not an environment in it."""
    folder, one, two = StartFolder(str(releases / "current"), True), str(releases / "one"), str(releases / "two")
    sys.path[:] = [f"{one}/lib", one, f"{one}/venv/lib", f"{one}x"]
    folder.enter(OWN)
    assert os.getcwd() == one
    flip(releases)
    folder.enter(OWN)
    assert os.getcwd() == two
    assert sys.path == [f"{two}/lib", two, f"{one}/venv/lib", f"{one}x"]


def test_what_was_imported_from_it(releases, monkeypatch):
    """To read everything again, modules of the folder are forgotten; not the first ones, aserve's or C's."""
    places = {
        "r_own": "a.py", "r_conf": "b.py", "r_c": "c.so", "aserve.r": "d.py", "r_venv": "venv/e.py", "r_none": None,
    }  # fmt: skip
    for name, path in places.items():
        module = types.ModuleType(name)
        module.__file__ = path and str(releases / "one" / path)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(sys, "path_importer_cache", {str(releases): None})
    StartFolder(str(releases / "current"), True).enter(frozenset({"r_own"}), is_anew=True)
    assert [name for name in places if name not in sys.modules] == ["r_conf"]
    assert not sys.path_importer_cache


@pytest.mark.parametrize("is_said", [True, False])
def test_a_folder_that_is_gone(releases, is_said):
    """The folder is told with its name, and advice; the process stays."""
    (releases / "current").unlink()
    with pytest.raises(
        FolderGoneError, match=r"current, where aserve was started, cannot be entered any more \(No such"
    ):
        StartFolder(str(releases / "current"), is_said).enter(OWN)
    assert os.getcwd() == str(releases / "one")


def test_another_folder_in_its_place(releases):
    """Without a told name, another folder may not be the meant one."""
    flip(releases)
    with pytest.raises(FolderGoneError, match="is another folder now, and without PWD in the environment"):
        StartFolder(str(releases / "current"), False).enter(OWN)


def test_a_folder_that_may_not_be_entered(releases, monkeypatch):
    """Where rights hide the name's target, nothing is told; a different target is."""
    folder = StartFolder(str(releases / "current"), True)
    flip(releases)

    def deny(*_):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as denied:
        denied.setattr(os.path, "samefile", deny)
        folder.enter(OWN)
    monkeypatch.setattr(os, "chdir", deny)
    with pytest.raises(
        FolderGoneError, match="current, where aserve was started, cannot be entered: Permission denied"
    ):
        folder.enter(OWN)
    monkeypatch.undo()


def test_where_the_process_is_nowhere(releases, monkeypatch):
    """A removed folder is entered again where its name leads somewhere."""
    folder = StartFolder(str(releases / "current"), True)
    flip(releases)
    (releases / "one").rmdir()
    path = sys.path[:]
    folder.enter(OWN)
    assert os.getcwd() == str(releases / "two") and sys.path == path


def test_whole_paths_go_by_the_name(releases):
    """A path below the folder goes by the name, if known and leading somewhere."""
    current = str(releases / "current")
    assert StartFolder(current, True).whole("a/b") == f"{current}/a/b"
    assert StartFolder(current, True).whole("/a") == "/a"
    assert StartFolder(current, False).whole("a") == StartFolder("/missing", True).whole("a") == "a"
