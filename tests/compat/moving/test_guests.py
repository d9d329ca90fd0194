"""Foreign code in our process: its exceptions, settings and forks."""

import asyncio
import os
import signal
import sys

import pytest

from aserve.compat.moving.guests import hosting, importing_from, reporting
from aserve.lifecycle.load_error import LoadError
from aserve.lifecycle.signals import Interrupted, early

# Python 3.12 and later warn of a fork beside threads, tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.mark.parametrize("how", [hosting, reporting])
@pytest.mark.parametrize("fault", [ValueError("x"), SystemExit(3), asyncio.CancelledError(), GeneratorExit()])
def test_what_it_raises(how, fault):
    """Any exception becomes an error that names the code."""
    with (
        pytest.raises(LoadError, match=f"executing conf.py raised {type(fault).__name__}"),
        how("conf.py", "executing"),
    ):
        raise fault


def test_ctrl_c_ends_a_starting_command():
    """Ctrl-C ends a starting command; a KeyboardInterrupt of the code's own is an ordinary error."""
    early.begin(interrupts=True)
    with pytest.raises(Interrupted), reporting("conf.py", "executing"):
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(LoadError, match="raised KeyboardInterrupt"), hosting("conf.py", "executing"):
        raise KeyboardInterrupt


def test_where_it_imports_from(tmp_path):
    """The app's folder comes first, and goes again, unless the code has taken it away itself."""
    folder, before = str(tmp_path), [*sys.path]
    for takes in (False, True):
        with importing_from(folder):
            assert sys.path[0] == folder
            if takes:
                sys.path.remove(folder)
        assert sys.path == before


def test_what_it_sets():
    """A supervisor's handlers stay, also where the code raises; a worker's may be set."""
    before = signal.getsignal(signal.SIGUSR2)
    with pytest.raises(LoadError), hosting("conf.py", "executing"):
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        raise ValueError
    assert signal.getsignal(signal.SIGUSR2) == before
    with reporting("post_fork", "calling"):
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGUSR2) == signal.SIG_IGN
    signal.signal(signal.SIGUSR2, before)


@pytest.mark.parametrize("status", [None, 3])
def test_a_child_that_comes_back(status):
    """A forked child of the code ends, and is no second server."""
    pids = []
    with reporting("child_exit", "calling"):
        pids.append(os.fork())
        if not pids[0] and status:
            raise SystemExit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1]) == (status or 1)
