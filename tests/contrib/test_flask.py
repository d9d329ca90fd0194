"""flask --app NAME aserve."""

import pytest

pytest.importorskip("flask")
from flask.cli import FlaskGroup

from aserve.contrib import flask as flask_module

APP = "from flask import Flask\ndef create_app(name='x'):\n    return Flask(name)\n"


@pytest.mark.parametrize(
    ("words", "spec", "more"),
    [
        (["--app", "site_a", "aserve"], "load('site_a')", []),
        (["--app", "site_a", "aserve", "--threads", "4", "-b", ":1"], "load('site_a')", ["--threads", "4", "-b", ":1"]),
        (["--app", "site_a:create_app('b')", "aserve", "--reload"], "load(\"site_a:create_app('b')\")", ["--reload"]),
        (["--debug", "--app", "site_a", "aserve"], "load('site_a')", ["--reload"]),
        (["--debug", "--app", "site_a", "aserve", "--no-reload"], "load('site_a')", []),
        (["aserve"], "load(None)", []),
        (["aserve", "-h", "::1", "-p", "81"], "load(None)", ["--host", "::1", "--port", "81"]),
    ],
)
def test_the_command_names_the_app_as_flask(monkeypatch, tmp_path, words, spec, more):
    """--debug reloads, unless told otherwise; all further flags are ours."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLASK_DEBUG", "0")
    monkeypatch.setenv("FLASK_RUN_FROM_CLI", "false")  # flask sets FLASK_RUN_FROM_CLI for later tests, too
    monkeypatch.delenv("FLASK_APP", raising=False)
    (tmp_path / "site_a.py").write_text(APP)
    became = []
    monkeypatch.setattr(flask_module, "become_aserve", became.append)
    group = FlaskGroup(add_default_commands=False, load_dotenv=False)
    group.add_command(flask_module.command)
    group.main(words, standalone_mode=False)
    assert became == [["-m", "aserve", f"aserve.contrib.flask:{spec}", *more]]


def test_load_finds_the_app_as_flask(monkeypatch, tmp_path):
    """With --debug the app stands behind Werkzeug's debugger."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLASK_DEBUG", "0")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "site_b.py").write_text(APP)
    assert flask_module.load("site_b:create_app('named')").name == "named"
    monkeypatch.setenv("FLASK_DEBUG", "1")
    assert flask_module.load("site_b:create_app('named')").app.name == "named"
