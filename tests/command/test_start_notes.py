"""The lines at the beginning of a service."""

import os
import sys

import pytest

from aserve.command import cli, start_notes

pytestmark = pytest.mark.long_on_pypy


@pytest.mark.parametrize(("on_path", "command"), [("/bin/aserve", "aserve"), (None, "/venv/bin/aserve")])
def test_the_demo_says_how_to_serve_another(served, capsys, monkeypatch, on_path, command):
    """Without an app, a line has the command to type; with the path where a venv is not active."""
    monkeypatch.setattr("shutil.which", lambda name: on_path)
    monkeypatch.setattr(sys, "executable", "/venv/bin/python")
    cli.main([])
    assert f"for yours: {command} module:app\n" in capsys.readouterr().err


def test_a_service_of_kubernetes_with_our_name(served, monkeypatch, capsys):
    """The service's variables are no settings: the command starts, and names the remedy once."""
    for name, value in (("SERVICE_HOST", "10.0.0.1"), ("SERVICE_PORT", "80"), ("PORT", "tcp://10.0.0.1:80")):
        monkeypatch.setenv(f"ASERVE_{name}", value)
    cli.main([])
    text = "ASERVE_SERVICE_HOST and others describe a service of Kubernetes, and are ignored; enableServiceLinks: false leaves them out"
    assert capsys.readouterr().err.count(text) == 1


def test_unknown_variables_are_named_once(served, monkeypatch, capsys):
    """Variables of a wrapper end no start; a single line has the names."""
    monkeypatch.setenv("ASERVE_HOME", "/opt/aserve")
    monkeypatch.setenv("ASERVE_BIN", "/opt/aserve/bin/aserve")
    cli.main(["hello:app"])
    assert len(served) == 1
    text = "ASERVE_HOME, ASERVE_BIN: no settings have these variables, which are ignored"
    assert capsys.readouterr().err.count(text) == 1


def test_a_socket_of_systemd_that_is_not_bound(served, monkeypatch, capsys):
    """The socket's clients would wait for ever: a warning names the socket."""
    for name, value in (("PID", os.getpid()), ("FDS", 1), ("FDNAMES", "web")):
        monkeypatch.setenv(f"LISTEN_{name}", str(value))
    cli.main(["--bind", "systemd:web"])
    cli.main(["--bind", "127.0.0.1:0"])
    text = "systemd has passed the socket web, and no --bind names it: its clients wait and get no answer; --bind systemd:web serves them"
    assert capsys.readouterr().err.count(text) == 1


def test_a_warning_for_root(served, monkeypatch, capsys):
    """An app run by root is told with the remedy, unless root is asked for."""
    monkeypatch.setattr(start_notes, "is_root", lambda: True)
    cli.main([])
    cli.main(["--user", str(os.geteuid()), "--group", str(os.getegid()), "--bind", "127.0.0.1:0"])
    assert capsys.readouterr().err.count("the app runs as root") == 1
