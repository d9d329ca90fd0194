"""Importing the app: the choice of an app, and the app's surroundings."""

import os
import re
import sys
import types

import pytest

from aserve.command import apps, cli
from aserve.compat.uwsgi_api import memory
from aserve.features import Config
from aserve.lifecycle.mounts import nothing_here

APP = "def app(environ, start_response):\n    start_response('200 OK', [])\n    return []\n"


def test_the_apps_surroundings(served, monkeypatch, tmp_path):
    """Folder, variables and import path are the app's, before the import."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delenv("SHOP", raising=False)
    (tmp_path / "in" / "lib").mkdir(parents=True)
    (tmp_path / "in" / "lib" / "of_the_app.py").write_text("")
    (tmp_path / "in" / "moved_app.py").write_text(f"import os, of_the_app\nos.environ['SHOP']\n{APP}")
    assert (
        cli.main(["moved_app:app", "--chdir", "in", "--python-path", "lib", "--env", "SHOP=1", "--access-log", "a"])
        == 0
    )
    ((_, config),) = served
    assert config.access_log == str(tmp_path / "a") and os.getcwd() == str(tmp_path / "in")
    assert os.environ.pop("SHOP") == "1"


def test_files_without_an_app(served, capsys, tmp_path):
    assert cli.main(["--static", "/=."]) == 0
    ((app, config),) = served
    assert app is nothing_here and config.static == (f"/={tmp_path}",) and "demo" not in capsys.readouterr().err
    assert cli.main(["--static", "/=.", "--compress", "--check"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"app:     none (a function)\nstatic:  /={tmp_path}\ncompress: ") and "gzip\n" in told


def test_mounts_are_imported_and_named(served, capsys, tmp_path):
    (tmp_path / "other.py").write_text((tmp_path / "hello.py").read_text())
    assert cli.main(["hello:app", "--mount", "/a=other:app"]) == cli.main(["--mount", "/=other"]) == 0
    (first, _), (second, _) = served
    assert first.main.__module__ == "hello" and second.main is nothing_here and "demo" not in capsys.readouterr().err
    sys.modules.pop("other")
    assert cli.main(["hello:app", "--mount", "/a=other:app", "--check"]) == 0
    assert capsys.readouterr().out.startswith("app:     hello:app (a function)\nmount:   /a=other:app\n")
    sys.modules.pop("other")


def test_an_app_that_has_patched_threads(served, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "gevent.monkey", types.SimpleNamespace(is_module_patched=lambda name: True))
    assert cli.main(["hello:app"]) == 2 and served == []
    assert capsys.readouterr().err.startswith("aserve: error: the app has called gevent.monkey.patch_all()")


def test_an_import_that_takes_long(served, monkeypatch, tmp_path):
    """The log tells the import, the time, and the line of the app, again and again; the app is served at the import's end."""
    told = []
    monkeypatch.setattr(apps, "SLOW_START_SECONDS", 0.01)
    monkeypatch.setattr(apps, "logger", types.SimpleNamespace(warning=lambda text, *values: told.append(text % values)))
    monkeypatch.setitem(sys.modules, "told_lines", types.SimpleNamespace(told=told))
    wait = "while sum('in connect' in text for text in told_lines.told) < 2: time.sleep(0.01)"
    source = f"import time, told_lines\ndef connect():\n {wait}\nconnect()\n"
    (tmp_path / "slow_app.py").write_text(f"{source}{APP}def make(word): return app\n")
    assert cli.main(["slow_app:make('secret')"]) == 0 and len(served) == 1
    text = r"slow_app:make\(\.\.\.\) is being imported, for \d+ s; that is at \(the last call first\):\n"
    assert all(re.match(text, message) for message in told)
    assert 'slow_app.py", line 3, in connect' in told[-1]


def test_modules_of_settings_are_imported_before_the_app(monkeypatch):
    """A file of the app's may have the name of a module."""
    found = []
    monkeypatch.setattr(apps, "find_interrupt", lambda: found.append("there"))
    apps.import_needed(Config())
    assert found == []
    apps.import_needed(Config(request_seconds=5))
    assert found == ["there"]
    pytest.importorskip("httptools")
    apps.import_needed(Config(http_parser="httptools"))
    assert "aserve.protocols.httptools1" in sys.modules


def test_an_import_that_serves_by_itself(served, monkeypatch, tmp_path):
    """The log says so, with the remedy, before the import counts as long."""
    told = []
    monkeypatch.setattr(apps, "SERVING_SECONDS", 0.01)
    monkeypatch.setattr(apps, "SLOW_START_SECONDS", 3600.0)
    monkeypatch.setattr(apps, "logger", types.SimpleNamespace(warning=lambda text, *values: told.append(text % values)))
    monkeypatch.setitem(sys.modules, "told_of_serving", types.SimpleNamespace(told=told))
    source = "import time, told_of_serving\ndef serve_forever():\n while not told_of_serving.told: time.sleep(0.01)\nserve_forever()\n"
    (tmp_path / "runs_itself.py").write_text(f"{source}{APP}")
    assert cli.main(["runs_itself:app"]) == 0 and len(served) == 1
    assert re.match(
        rf"runs_itself:app is being imported, for \d+ s{re.escape(apps.SERVES_ITSELF)}; that is at", told[0]
    )
    assert 'runs_itself.py", line 4, in <module>' in told[0]


def test_an_import_where_no_thread_starts(served, monkeypatch, tmp_path):
    """The import goes on without a watch."""

    def refuse(*args):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(apps, "_thread", types.SimpleNamespace(**{**vars(apps._thread), "start_new_thread": refuse}))
    assert cli.main(["hello:app"]) == 0 and len(served) == 1


@pytest.mark.parametrize(
    ("flags", "is_there"),
    [
        ([], False),
        (["--bind", "scgi://127.0.0.1:0"], False),
        (["--bind", "uwsgi://127.0.0.1:0"], True),
        (["--bind", ":0", "--bind", "uwsgi://unix:s"], True),
        (["--uwsgi-module", "on"], True),
        (["--route", "^/rpc", "rpc f"], True),
        (["--bind", "uwsgi://127.0.0.1:0", "--uwsgi-module", "off"], False),
    ],
    ids=str,
)
def test_import_uwsgi_works_where_uwsgi_is_spoken(served, monkeypatch, tmp_path, flags, is_there):
    """An app with `import uwsgi` as a sign of uWSGI finds the module where uwsgi is spoken, or where asked for."""
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if not type(f).__module__.startswith("aserve")])
    monkeypatch.delitem(sys.modules, "uwsgi", raising=False)
    name = f"asks_{is_there}_{len(flags)}"
    (tmp_path / f"{name}.py").write_text(
        "try:\n    import uwsgi\nexcept ImportError:\n    uwsgi = None\n"
        "def app(environ, start_response): return []\napp.uwsgi = uwsgi\n"
    )
    monkeypatch.chdir(tmp_path)
    assert cli.main([f"{name}:app", *flags]) == 0
    assert (sys.modules.pop(name).app.uwsgi is not None) is is_there
    sys.modules.pop("uwsgi", None)


@pytest.mark.parametrize("flags", [["--uwsgi-module", "on"], ["--uwsgi-cache", "items=1"], []])
def test_this_hosts_alone(served, capsys, flags, monkeypatch):
    """A line says so, where parts of the app share something."""
    monkeypatch.setattr(memory, "_memory", None)
    monkeypatch.setattr(memory, "KEPT", {})
    assert cli.main(["hello:app", *flags]) == 0
    count = capsys.readouterr().err.count("are for this host only; to share them between hosts give --shared")
    assert count == ("--uwsgi-cache" in flags)
    if memory._memory is not None:
        os.close(memory._memory.fd)


def test_the_apps_traceback_comes_first(served, capsys, tmp_path):
    """A failing app's traceback is shown, then our line; the status is not a mistake's, as the next start may succeed."""
    (tmp_path / "hello.py").write_text("1 / 0\n")
    assert cli.main(["hello"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "hello.py" in lines[1]
    assert lines[-1].startswith("aserve: error: importing hello raised ZeroDivisionError")


def test_interrupted_while_importing(served, tmp_path):
    """Ctrl-C during a slow import ends the command without a traceback."""
    (tmp_path / "hello.py").write_text("raise KeyboardInterrupt\n")
    assert cli.main(["hello"]) == 130
