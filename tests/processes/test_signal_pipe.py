"""Signals that are read from a descriptor."""

from __future__ import annotations

import os
import select
import signal
import threading

import pytest

from aserve.processes.signal_pipe import SignalPipe, block_signals

NUMBERS = (signal.SIGHUP, signal.SIGUSR1)


@pytest.fixture
def pipe():
    before = [signal.getsignal(number) for number in NUMBERS]
    pipe = SignalPipe(NUMBERS)
    yield pipe
    pipe.close()
    assert [signal.getsignal(number) for number in NUMBERS] == before


def test_signals(pipe):
    """They are read in the order in which they came; when there is none, nothing is."""
    assert pipe.read() == []
    os.kill(os.getpid(), signal.SIGUSR1)
    os.kill(os.getpid(), signal.SIGHUP)
    assert select.select([pipe], [], [], 10)[0] == [pipe]
    assert pipe.read() == [signal.SIGUSR1, signal.SIGHUP]
    assert pipe.read() == []


def test_a_storm(pipe):
    """More than the pipe holds does no harm."""
    for _ in range(100_000):
        signal.raise_signal(signal.SIGHUP)
    while found := pipe.read():
        assert set(found) == {signal.SIGHUP}


def test_blocked(pipe):
    """A signal waits until the block is over."""
    with block_signals():
        # To this thread: a supervisor has no other, but what runs the tests may have one, which is not blocked.
        signal.pthread_kill(threading.get_ident(), signal.SIGHUP)
        assert pipe.read() == []
    assert select.select([pipe], [], [], 10)[0]
    assert pipe.read() == [signal.SIGHUP]


def test_a_handler_that_is_not_pythons(monkeypatch):
    """It cannot be put back: the default takes its place."""
    real = signal.signal
    monkeypatch.setattr(signal, "signal", lambda *arguments: real(*arguments) and None)
    pipe = SignalPipe([signal.SIGUSR2])
    monkeypatch.undo()
    pipe.close()
    assert signal.getsignal(signal.SIGUSR2) == signal.SIG_DFL
