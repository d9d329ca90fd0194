"""The subcommands: each prints, and serves nothing."""

from __future__ import annotations

import sys
import types

import pytest

from aserve.command import cli, subcommands

pytestmark = pytest.mark.long_on_pypy


def test_translating(served, capsys, tmp_path):
    """`aserve translate` prints, and serves nothing."""
    (tmp_path / "a.ini").write_text("[uwsgi]\nthreads = 3\n")
    assert cli.main(["translate", "a.ini"]) == 0
    assert "\nthreads = 3\n" in capsys.readouterr().out
    assert served == []


def test_top(monkeypatch, capsys):
    """It has a screen where textual is; where it is not, it says what to install."""
    shown = []
    monkeypatch.setitem(sys.modules, "aserve.command.top_screen", types.SimpleNamespace(run_top=shown.append))
    monkeypatch.setattr(subcommands, "find_spec", lambda name: name == "textual")
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(sys, stream, types.SimpleNamespace(isatty=lambda: True))
    assert cli.main(["top", "--control", "/run/control"]) == 0 and shown == ["/run/control"]
    monkeypatch.setattr(subcommands, "find_spec", lambda name: None)
    assert cli.main(["top", "--control", "/run/control"]) == 2 and len(shown) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "textual" in told and "pip install 'aserve-wsgi[top]'" in told


@pytest.mark.parametrize("stream", ["stdin", "stdout"])
def test_top_without_a_terminal(monkeypatch, capsys, stream):
    """There is nowhere to draw: one line says what prints the same."""
    monkeypatch.setattr(subcommands, "find_spec", lambda name: name == "textual")
    for name in ("stdin", "stdout"):
        monkeypatch.setattr(sys, name, types.SimpleNamespace(isatty=lambda name=name: name != stream))
    assert cli.main(["top", "--control", "/run/control"]) == 2
    told = capsys.readouterr().err
    assert told == "aserve: error: aserve top needs a terminal; `aserve status` prints the same once\n"
