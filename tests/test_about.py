"""What the command says of itself, beside what tests/test_cli.py sees of it."""

from __future__ import annotations

import shutil
import sys

import pytest

from aserve.about import command_name, describe, version_line
from aserve.demo import app as demo_app
from aserve.layers import nothing_here
from aserve.mounts import Mounts
from aserve.settings import VERSION, Config


def test_version(monkeypatch):
    """Which aserve, which Python and which event loop."""
    assert version_line().startswith(f"aserve {VERSION} on ")
    monkeypatch.setattr("aserve.about.find_spec", lambda name: None)
    monkeypatch.setattr(sys, "pypy_version_info", (7, 3, 11, "final", 0), raising=False)
    assert version_line().endswith(" (7.3.11), asyncio")


@pytest.mark.parametrize(("path", "name"), [("/bin/aserve", "aserve"), (None, "/venv/bin/aserve")])
def test_what_to_type(monkeypatch, path, name):
    """Its path, where it is not on PATH."""
    monkeypatch.setattr(shutil, "which", lambda name: path)
    monkeypatch.setattr(sys, "executable", "/venv/bin/python")
    assert command_name() == name


@pytest.mark.parametrize(
    ("bind", "shown"),
    [
        ("127.0.0.1:1", "http://127.0.0.1:1"), (":1", "port 1 of all interfaces"), ("unix:/a", "unix:/a"), ("fd:3", "fd:3"),
        ("https://:1?certificate=a", "https://:1"), ("uwsgi://:1", "uwsgi://:1"),
    ],
)  # fmt: skip
def test_binds(bind, shown):
    """Each as one would open it."""
    config = Config(bind=bind, **({"certificate": "a"} if "https" in bind else {}))
    assert f"bind:    {shown}\n" in describe(config, demo_app, None)


def test_what_would_be_served():
    """The app, the mounts, folders and threads."""
    mounts = Mounts([], nothing_here)
    text = describe(Config(threads=0, mount=["/a=b:c"], static=["/s=/srv"]), mounts, None)
    assert text.startswith("app:     none (") and "mount:   /a=b:c\nstatic:  /s=/srv\n" in text
    assert "threads: 0, the app runs on the event loop's thread\n" in text
    assert describe(Config(), Mounts([], demo_app).main, "a:b").startswith("app:     a:b (a function)\n")
