"""How long a thread may keep the GIL."""

import subprocess
import sys

import pytest

from aserve.lifecycle import switch_interval as module
from aserve.lifecycle.switch_interval import CPYTHON_SECONDS, SECONDS, shorten_switch_interval


@pytest.fixture
def interval(monkeypatch):
    """The interval of an otherwise unused interpreter."""
    kept = [CPYTHON_SECONDS]
    monkeypatch.setattr(sys, "getswitchinterval", lambda: kept[0])
    monkeypatch.setattr(sys, "setswitchinterval", lambda seconds: kept.__setitem__(0, seconds))
    monkeypatch.setattr(sys.implementation, "name", "cpython")
    monkeypatch.setattr(module, "HAS_GIL", True)
    return kept


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="of CPython")
def test_the_default_is_known():
    """A new interpreter has the interval that counts as nobody's choice."""
    print_it = "import sys; print(sys.getswitchinterval())"
    done = subprocess.run([sys.executable, "-I", "-c", print_it], capture_output=True, text=True, check=True)
    assert float(done.stdout) == CPYTHON_SECONDS


def test_it_is_shortened(interval):
    assert shorten_switch_interval() and interval == [SECONDS]
    assert not shorten_switch_interval() and interval == [SECONDS]


def test_what_was_set_stays(interval):
    """A site's own choice is left alone."""
    interval[0] = 0.02
    assert not shorten_switch_interval() and interval == [0.02]


def test_without_a_gil(interval, monkeypatch):
    """There is nothing to keep."""
    monkeypatch.setattr(module, "HAS_GIL", False)
    assert not shorten_switch_interval() and interval == [CPYTHON_SECONDS]


def test_pypy_counts_bytecodes(interval, monkeypatch):
    monkeypatch.setattr(sys.implementation, "name", "pypy")
    assert not shorten_switch_interval() and interval == [CPYTHON_SECONDS]
