"""Tests run in several processes side by side: `pytest --children 4` (children.py), or `pytest -n 2` (pytest-xdist).

A test marked `alone` runs while the other processes run none. Where the collecting process dies, these processes are aborted, and tell the stacks of
their threads.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import pathlib
import signal
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

PR_SET_PDEATHSIG = 1


def configure(config: pytest.Config) -> None:
    """Take part, in whichever of the processes this is; without -n nothing is done."""
    folder = getattr(config, "workerinput", {}).get("turns")
    if folder is not None:
        config.pluginmanager.register(Turns(pathlib.Path(folder)))
        end_with_parent()
    elif config.getoption("dist", "no") != "no":
        config.pluginmanager.register(Starter())


def end_with_parent() -> None:
    """Have the system abort this process when its parent ends: pytest's faulthandler does the rest."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGABRT)


class Starter:
    """The plugin in the process that starts the others."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="aserve-")

    def pytest_configure_node(self, node: Any) -> None:
        """Tell a process about to start where it meets the others."""
        node.workerinput["turns"] = self._folder.name

    def pytest_unconfigure(self) -> None:
        """Called at the end."""
        self._folder.cleanup()


class Turns:
    """The plugin in each process that runs tests."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        folder = pathlib.Path(folder)
        # A test's process goes through the door into the room; a lone test's keeps the door closed, or the others would go in by turns for ever. The
        # locks are a process's: a process forked by a test keeps none.
        self._door = open(folder / "door", "a+b")
        self._room = open(folder / "room", "a+b")

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # around pytest-timeout: waiting here does not count
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Run a test at its turn."""
        is_alone = item.get_closest_marker("alone") is not None
        fcntl.lockf(self._door, fcntl.LOCK_EX)
        try:
            fcntl.lockf(self._room, fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH)
            if not is_alone:
                fcntl.lockf(self._door, fcntl.LOCK_UN)
            return (yield)
        finally:
            fcntl.lockf(self._room, fcntl.LOCK_UN)
            fcntl.lockf(self._door, fcntl.LOCK_UN)

    def pytest_unconfigure(self) -> None:
        """Called at the end."""
        self._door.close()
        self._room.close()
