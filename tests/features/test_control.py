"""--control: its commands, and its needs of a server."""

import sys
import types

import pytest
from harness.extensions import new_context

from aserve.features import Config, control
from aserve.features.control import COMMANDS, Controlling, ask
from aserve.features.control.supervising import ControlSocket
from aserve.lifecycle.supervision import SupervisorContext
from aserve.settings import ConfigError


def test_its_commands_are_loaded_late():
    """Each command is one of ask.py, which a server does not load."""
    assert set(COMMANDS) == {*ask._COMMANDS, ask.TOP} == set(Controlling.commands())
    with pytest.raises(ConfigError, match="no server answers at '/no/such'"):
        Controlling.commands()["status"](["status", "--control", "/no/such"], {})


@pytest.mark.parametrize(("slot", "are_taken"), [(None, True), (2, False)])
def test_times_are_taken_without_workers(slot, are_taken):
    """`aserve status` has the oldest requests; with workers, they are in memory read by the supervisor."""
    one = Controlling(Config(control="/run/x"))
    one.start(new_context(slot=slot))
    assert Controlling.is_on(Config(control="/run/x")) and not Controlling.is_on(Config())
    assert ("times" in one.wants) is are_taken


def watch(monkeypatch, **terminals):
    """Run `aserve top`, with textual installed; return the sockets of its screens."""
    shown = []
    monkeypatch.setitem(sys.modules, "aserve.features.control.top_screen", types.SimpleNamespace(run_top=shown.append))
    for name in ("stdin", "stdout"):
        monkeypatch.setattr(sys, name, types.SimpleNamespace(isatty=lambda name=name: terminals.get(name, True)))
    assert Controlling.commands()["top"](["top", "--control", "/run/x"], {}) == 0
    return shown


def test_top_needs_textual(monkeypatch):
    """The command has a screen with textual, and else says how to install it."""
    monkeypatch.setattr(control, "find_spec", lambda name: name == "textual")
    assert watch(monkeypatch) == ["/run/x"]
    monkeypatch.setattr(control, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs textual, .*pip install 'aserve-wsgi\[top\]'"):
        watch(monkeypatch)


@pytest.mark.parametrize("stream", ["stdin", "stdout"])
def test_top_without_a_terminal(monkeypatch, stream):
    """There is nowhere to draw: the error names a command that prints the same."""
    monkeypatch.setattr(control, "find_spec", lambda name: name == "textual")
    with pytest.raises(ConfigError, match=r"^aserve top needs a terminal; `aserve status` prints the same once\Z"):
        watch(monkeypatch, **{stream: False})


def test_its_supervisor_answers_on_a_socket(tmp_path):
    context = SupervisorContext(None, {}, lambda *_: None, None)
    assert isinstance(Controlling(Config(control=str(tmp_path / "c"))).supervise(context), ControlSocket)
