"""The order of a start, and the parts beside a server."""

import contextlib
import os
import sys

import pytest

from aserve.command import alone, cli, serving
from aserve.features import Config
from aserve.lifecycle import exits


def test_exit_status_is_the_servers(served, monkeypatch):
    monkeypatch.setattr(serving, "run_server", lambda app, config, *_: 7)
    assert cli.main([]) == 7


def test_binding_before_the_app(served, monkeypatch, tmp_path, capsys):
    """With settings of the process, sockets are bound and the pid file is written before the app's import; a failure leaves nothing."""
    (tmp_path / "looking.py").write_text(
        "import os\nassert sorted(os.listdir()) == ['a.pid', 'hello.py', 'looking.py', 's']\n1/0"
    )
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert cli.main(["looking:app", "--bind", "unix:s", "--pid-file", "a.pid"]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["hello.py", "looking.py"] and served == []


@pytest.mark.parametrize("path", [None, "/run/control"], ids=["none", "control"])
def test_what_stands_beside_a_server(monkeypatch, path):
    """The answering part of a control socket, if any; when the server has gone, signals are held to the end of the process."""
    told = []

    @contextlib.contextmanager
    def control_of(server, path, level):
        told.append((server, path))
        yield
        told.append("closed")

    monkeypatch.setattr(alone, "control_of", control_of)
    monkeypatch.setattr(exits, "hold_signals", lambda: told.append("held"))
    with serving.beside(Config(control=path))("a server"):
        assert "held" not in told
    assert told == [*([("a server", path), "closed"] if path else []), "held"]
