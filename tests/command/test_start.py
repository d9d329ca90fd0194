"""A start: the named app is served, checked, or tried."""

import os

import pytest

from aserve.command import as_child, start
from aserve.settings import ConfigError

pytestmark = pytest.mark.long_on_pypy


def test_serving_and_checking(served, capsys):
    """The app reaches the server; with --check the app does not, and the text names the app."""
    assert start.start({"app": "hello:app"}, None, os.environ) == 0
    assert served[0][0].__module__ == "hello"
    assert start.start({"app": "hello:app", "check": True}, None, os.environ) == 0
    assert len(served) == 1 and "hello:app" in capsys.readouterr().out


def test_apps_that_are_here(served, tmp_path, capsys):
    """Without a name the present apps are listed, and nothing is served."""
    (tmp_path / "shop.py").write_text("def app(environ, start_response):\n    return []\n")
    assert start.start({}, None, os.environ) == 2
    assert served == [] and "shop:app" in capsys.readouterr().err


def test_a_trial_reads_the_arguments_itself(monkeypatch):
    """The channel of the trial tells of mistakes in the arguments."""
    calls = []
    monkeypatch.setattr(as_child, "run_trial", lambda fd, read, load, enter: calls.append((fd, read)) or 5)

    def args():
        raise ConfigError("wrong")

    assert start.start_trial(args, 9) == 5
    [(fd, read)] = calls
    assert fd == 9
    with pytest.raises(ConfigError, match="wrong"):
        read()
