"""One process orders at a time."""

import os
import subprocess
import sys

import pytest

from aserve.features.https.turn import take_turn


def test_one_at_a_time(tmp_path):
    """Another process has no turn until the first has ended."""
    path = str(tmp_path / "lock")
    with take_turn(path) as first:
        assert first is not None
        with take_turn(path) as second:
            assert second is None
    with take_turn(path) as third:
        assert third is not None


def test_a_child_keeps_it(tmp_path):
    """An order that goes on keeps its turn, even if its starter does not."""
    path = str(tmp_path / "lock")
    with take_turn(path) as fd:
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[fd])
    with take_turn(path) as other:
        assert other is None
    child.communicate(b"\n")
    with take_turn(path) as other:
        assert other is not None


def test_a_link_is_no_lock(tmp_path):
    """A file elsewhere is not opened."""
    os.symlink(tmp_path / "other", tmp_path / "lock")
    with pytest.raises(OSError, match="symbolic"), take_turn(str(tmp_path / "lock")):
        pass
