"""Signals read from a descriptor."""

import os
import select
import signal
import threading

import pytest

from aserve.core import forks
from aserve.lifecycle.signals import early
from aserve.processes.children.signal_pipe import SignalPipe, block_signals

# Python 3.12 and later warn of a fork beside threads, tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

NUMBERS = (signal.SIGHUP, signal.SIGUSR1)


@pytest.fixture
def pipe():
    before = [signal.getsignal(number) for number in NUMBERS]
    pipe = SignalPipe(NUMBERS)
    yield pipe
    pipe.close()
    assert [signal.getsignal(number) for number in NUMBERS] == before


def test_signals_are_read_in_order(pipe):
    assert pipe.read() == []
    os.kill(os.getpid(), signal.SIGUSR1)
    os.kill(os.getpid(), signal.SIGHUP)
    assert select.select([pipe], [], [], 10)[0] == [pipe]
    assert pipe.read() == [signal.SIGUSR1, signal.SIGHUP]
    assert pipe.read() == []


def test_what_came_before(hangup):
    """Signals of the start are read here first; behind the end they wait again."""
    early.begin(NUMBERS, interrupts=True)
    signal.raise_signal(signal.SIGUSR1)
    pipe = SignalPipe(NUMBERS)
    assert pipe.read() == [signal.SIGUSR1] and not early.came
    pipe.close()
    assert signal.getsignal(signal.SIGUSR1) is early
    assert forks.disown_all_handlers() == dict.fromkeys(NUMBERS, signal.SIG_DFL)


def test_a_storm_of_signals_does_no_harm(pipe):
    for _ in range(100_000):
        signal.raise_signal(signal.SIGHUP)
    while found := pipe.read():
        assert set(found) == {signal.SIGHUP}


def test_a_blocked_signal_waits(pipe):
    with block_signals():
        # To this thread: a supervisor has no other, but the tests' process may have an unblocked one.
        signal.pthread_kill(threading.get_ident(), signal.SIGHUP)
        assert pipe.read() == []
    assert select.select([pipe], [], [], 10)[0]
    assert pipe.read() == [signal.SIGHUP]


@pytest.fixture
def hangup():
    """SIGHUP as set by a terminal: under nohup ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def test_a_child_of_others(hangup, pipe):
    """A signal for a process forked here by foreign code is not read here, and works as before."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.write(writing, b"x")
        signal.pause()
        os._exit(0)  # where the signal was handled
    os.read(reading, 1)
    os.kill(pid, signal.SIGHUP)
    assert os.waitpid(pid, 0)[1] == signal.SIGHUP and pipe.read() == []
    os.close(reading)
    os.close(writing)


def test_signals_of_others(pipe):
    """A signal handled by foreign code, even one without a name, comes here, and does not reach that code."""
    numbers = (signal.SIGUSR2, signal.SIGRTMIN + 3)
    before = [signal.signal(number, lambda number, frame: None) for number in numbers]
    for number in (*numbers, signal.SIGUSR1):
        signal.raise_signal(number)
    assert pipe.read() == [signal.SIGUSR1]
    for number, handler in zip(numbers, before):
        signal.signal(number, handler)


def test_a_handler_that_is_not_pythons(monkeypatch):
    """Such a handler cannot be put back: the default takes its place."""
    real = signal.signal
    monkeypatch.setattr(signal, "signal", lambda *arguments: real(*arguments) and None)
    pipe = SignalPipe([signal.SIGUSR2])
    monkeypatch.undo()
    pipe.close()
    assert signal.getsignal(signal.SIGUSR2) == signal.SIG_DFL
