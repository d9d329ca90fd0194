"""What the command says of itself; its --version and --check are tested with it, in test_cli.py."""

from __future__ import annotations

import sys

import pytest
from harness import apps

from aserve import banner
from aserve.settings import Config


@pytest.mark.parametrize("found", [None, "/usr/bin/aserve"])
def test_command(monkeypatch, found):
    """Hints name what can be typed."""
    monkeypatch.setattr(banner.shutil, "which", lambda name: found)
    monkeypatch.setattr(sys, "executable", "/venv/bin/python")
    assert banner.command() == ("aserve" if found else "/venv/bin/aserve")


@pytest.mark.parametrize(
    ("bind", "shown"),
    [
        ("127.0.0.1:1", "http://127.0.0.1:1"),
        (":1", "port 1 of all interfaces"),
        ("unix:/a", "unix:/a"),
        ("fd:3", "fd:3"),
    ],
)
def test_describe(bind, shown):
    """--check says where it would listen."""
    text = banner.describe(Config(bind=bind), apps.hello, "a:hello")
    assert f"bind:    {shown}\n" in text and text.startswith("app:     a:hello (a function)\n")
