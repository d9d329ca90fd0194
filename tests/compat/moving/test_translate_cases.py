"""`aserve translate` of each case of tests/moving: its output, started, is the same server."""

import os
import sys

import pytest
from harness.interpreter import NEEDS_LINUX
from moving import compare

from aserve.command.flags import parse_args
from aserve.command.plans import read_settings
from aserve.compat.moving.translate import run_translate
from aserve.settings import ConfigError

pytestmark = [NEEDS_LINUX, pytest.mark.long_on_pypy]
PORT = "8000"
PATHS = [path for path in sorted(compare.CASES.iterdir()) if not compare.Case(path).is_program]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of a case, now the current one; a file's changes to this process are put back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    for name in [
        name
        for name in os.environ
        if name.startswith(("ASERVE_", "UWSGI_", "GUNICORN_")) or name in ("PORT", "WEB_CONCURRENCY")
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MOVING_TIMES", str(tmp_path / "times"))
    return tmp_path


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_the_same_server(path, folder, capsys):
    """Each setting and the app are the case's own, or the case starts nowhere; only gunicorn's loggers need the file."""
    case = compare.Case(path)
    compare.lay_out(case, folder, PORT)
    words = case.words(PORT)
    try:
        plan = read_settings({**parse_args(words), "dropped_guards": "warn"})
    except ConfigError as fault:  # a file without an app
        with pytest.raises(ConfigError) as caught:
            run_translate(["translate", *words], os.environ)
        assert str(caught.value) == str(fault)
        return
    run_translate(["translate", *words], os.environ)
    (folder / "printed.toml").write_text(capsys.readouterr().out)
    printed = read_settings({"config": "printed.toml", "dropped_guards": "warn"})
    assert printed.spec == plan.spec
    config = plan.config
    if "logs" in plan.origin.draft.facts:
        config = config.replace(access_log=printed.config.access_log)
    assert printed.config == config


def test_without_the_app(folder, capsys):
    """Translation needs neither the app nor its folder, nor the variables."""
    (folder / "case.ini").write_text(
        "[uwsgi]\nhttp = :$(PORT)\nmodule = $(PROJECT).wsgi\nprocesses = $(WORKERS)\nchdir = /nowhere\n"
    )
    run_translate(["translate", "case.ini"], os.environ)
    printed = capsys.readouterr().out
    (folder / "printed.toml").write_text(printed)
    with pytest.raises(ConfigError, match="the variable PROJECT is not set"):
        read_settings({"config": "printed.toml"})
    os.environ.update({"PORT": "81", "PROJECT": "shop", "WORKERS": "3"})
    try:
        ours, theirs = read_settings({"config": "printed.toml"}), read_settings({"uwsgi_ini": "case.ini"})
        assert (ours.spec, ours.config) == (theirs.spec, theirs.config) and ours.spec == "shop.wsgi:application"
    finally:
        for name in ("PORT", "PROJECT", "WORKERS"):
            del os.environ[name]
    assert "${env:WORKERS}" in printed


def test_a_file_that_prints(folder, capsys):
    """A gunicorn file's prints are no part of the translation; a value has the file's default."""
    (folder / "conf.py").write_text(
        "import os\nprint('hello')\nworkers = int(os.environ.get('N', '3'))\nbind = f\"0.0.0.0:{os.getenv('PORT', '8000')}\"\n"
    )
    before = dict(os.environ)
    run_translate(["translate", "conf.py"], os.environ)
    said = capsys.readouterr()
    assert 'workers = "${env:N:-3}"' in said.out and 'bind = ["0.0.0.0:${env:PORT:-8000}"]' in said.out
    assert "hello" not in said.out and "hello" in said.err and dict(os.environ) == before
