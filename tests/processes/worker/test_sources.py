"""A project's files, and its changed ones."""

import importlib
import os
import sys

import pytest

from aserve.processes.worker import sources as sources_module
from aserve.processes.worker.sources import Sources, files_below, forget_compiled

pytestmark = pytest.mark.long_on_pypy


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with an imported module, and an installed one."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("own_source", "site-packages/installed_source"):
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text("x = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    importlib.invalidate_caches()
    yield tmp_path
    for name in ("own_source", "installed_source", "later_source"):
        sys.modules.pop(name, None)


def test_modules_of_the_project_count_once(project):
    """A module of the project has changed, once; installed or foreign ones do not count."""
    import_module("own_source", "installed_source")
    sources = Sources([], [str(project)])
    assert sources.find_changed() == [] and sources.folders() == {str(project)}
    for path in (project / "own_source.py", project / "site-packages/installed_source.py"):
        os.utime(path, (1, 1))
    assert sources.find_changed() == [str(project / "own_source.py")]
    assert sources.find_changed() == []
    (project / "own_source.py").unlink()
    assert sources.find_changed() == [str(project / "own_source.py")]


def test_a_module_imported_later_counts(project):
    """A later module counts from then on; if saved since the last look, it may have been imported before."""
    path = project / "later_source.py"
    path.write_text("")
    os.utime(path, (1, 1))
    sources = Sources([], [str(project)])
    import_module("later_source")
    assert sources.find_changed() == []
    path.write_text("x = 2")
    assert sources.find_changed() == [str(path)]
    sources = Sources([], [str(project)])
    sources._seen.clear()
    path.write_text("x = 3")
    assert sources.find_changed() == [str(path)] and sources.find_changed() == []


def import_module(*names):
    importlib.invalidate_caches()
    for name in names:
        importlib.import_module(name)


def test_extra_files_are_watched_by_pattern(tmp_path):
    """Folders are looked at with all below, patterns with all matches: changes, new files, and removed ones."""
    templates = tmp_path / "templates"
    (templates / "sub").mkdir(parents=True)
    (templates / "sub/a.html").write_text("a")
    (tmp_path / "a.toml").write_text("a")
    sources = Sources([str(templates), str(tmp_path / "*.toml")], [str(tmp_path / "none")])
    assert sources.folders() == {str(templates), str(templates / "sub"), str(tmp_path)}
    assert sources.find_changed() == [] and sources.look_around() == []
    (templates / "sub/a.html").write_text("more")
    assert sources.find_changed() == [str(templates / "sub/a.html")]
    for path in (templates / "b.html", tmp_path / "b.toml", tmp_path / "b.txt"):
        path.write_text("")
    assert sources.look_around() == [str(tmp_path / "b.toml"), str(templates / "b.html")]
    assert sources.look_around() == [] and sources.find_changed() == []
    (tmp_path / "b.toml").unlink()
    assert sources.look_around() == [str(tmp_path / "b.toml")]


def test_all_files_count_while_imports_fail(tmp_path):
    """While code cannot be imported, each Python file of the project counts, new ones too."""
    (tmp_path / "a.py").write_text("")
    sources = Sources([], [str(tmp_path)])
    assert sources.folders() == set()
    sources.look_at_all()
    assert sources.folders() == {str(tmp_path)} and sources.find_changed() == []
    (tmp_path / "a.py").write_text("x")
    assert sources.find_changed() == [str(tmp_path / "a.py")]
    (tmp_path / "b.py").write_text("")
    (tmp_path / "b.txt").write_text("")
    sources.look_at_all()
    assert sources.look_around() == [str(tmp_path / "b.py")]


def test_no_change_is_forgotten(tmp_path):
    """A save just before a failing import may be the mending one."""
    (tmp_path / "a.html").write_text("")
    sources = Sources([str(tmp_path / "a.html")], [str(tmp_path)])
    (tmp_path / "a.html").write_text("mended")
    sources.look_at_all()
    assert sources.find_changed() == [str(tmp_path / "a.html")]


def test_files_below_leave_hidden_ones_out(tmp_path):
    """Hidden files, and files made or installed by tools, are left out."""
    for name in ("a.py", "p/b.py", "p/.c.py", ".git/d.py", "__pycache__/e.py", "node_modules/f.py", "env/g.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    (tmp_path / "env/pyvenv.cfg").write_text("")
    assert sorted(files_below(str(tmp_path))) == [str(tmp_path / "a.py"), str(tmp_path / "p/b.py")]


def test_too_many_files(tmp_path, monkeypatch):
    """The look at a folder has an end."""
    monkeypatch.setattr(sources_module, "MAX_FILES", 2)
    for name in "abc":
        (tmp_path / name).write_text("")
    assert len(list(Sources([str(tmp_path)], [])._paths())) >= 2
    assert len(Sources([str(tmp_path)], [])._extra_files) == 2


def test_compiled_code_is_forgotten(tmp_path):
    """A second save within a second, of the same size, is seen by Python, too."""
    path = tmp_path / "a.py"
    compiled = importlib.util.cache_from_source(str(path))
    os.mkdir(os.path.dirname(compiled))
    open(compiled, "w").close()
    forget_compiled([str(path), str(tmp_path / "none.py"), str(tmp_path / "a.html")])
    assert not os.path.exists(compiled)
