"""A request to end wakes a poll, also by a signal whose handler has not run."""

import contextlib
import os
import select
import signal

import pytest

from aserve.lifecycle.termination import Termination


@pytest.fixture
def termination():
    """One for SIGUSR1, which a test may send."""
    before = signal.getsignal(signal.SIGUSR1)
    with contextlib.closing(Termination()) as termination:
        termination.wake_by_signals()
        yield termination
    signal.signal(signal.SIGUSR1, before)


def wakes(termination):
    """Whether a poll would return at once."""
    poll = select.poll()
    poll.register(termination, select.POLLIN)
    return bool(poll.poll(0))


def test_a_request_wakes_a_poll(termination):
    assert not termination.is_requested and not wakes(termination)
    termination.request()
    assert termination.is_requested and wakes(termination)
    termination.clear()
    termination.clear()
    assert termination.is_requested and not wakes(termination)


def test_a_signal_wakes_a_poll(termination):
    signal.signal(signal.SIGUSR1, lambda *what: None)
    os.kill(os.getpid(), signal.SIGUSR1)
    assert wakes(termination) and not termination.is_requested


def test_a_full_pipe(termination):
    """A storm of requests stops nothing."""
    for _ in range(70_000):
        termination.request()
    assert termination.is_requested and wakes(termination)


def test_a_signal_behind_the_end():
    termination = Termination()
    termination.wake_by_signals()
    termination.close()
    termination.request()
    assert termination.is_requested and signal.set_wakeup_fd(-1) == -1
