"""Imports of a uWSGI file beside the app."""

import sys

import pytest

from aserve.compat.moving.draft import Given
from aserve.compat.moving.uwsgi_imports import UwsgiImports
from aserve.extension import Life, LifeContext

pytestmark = pytest.mark.long_on_pypy


def test_imports_come_with_the_app(tmp_path, monkeypatch, caplog):
    """By name, or by a file's path, where the app is imported; a failing one does not end the start."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "moved_tasks.py").write_text("import builtins\nbuiltins.moved_tasks_ran = True\n")
    (tmp_path / "moved_bad.py").write_text("raise OSError('no database')\n")
    imports = UwsgiImports([Given("import", "moved_bad", "a.ini:1"), Given("import", "moved_tasks.py", "a.ini:2")])
    import builtins

    imports.on_life(Life.FORKED, LifeContext(None))
    assert not hasattr(builtins, "moved_tasks_ran")
    imports.on_life(Life.IMPORTS, LifeContext(None))
    assert builtins.moved_tasks_ran
    del builtins.moved_tasks_ran
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("a.ini:1: import: ") and "no database" in caplog.messages[0]
    sys.modules.pop("moved_tasks", None)
