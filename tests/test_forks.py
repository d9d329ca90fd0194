"""What a child keeps of the server, and what it does not."""

from __future__ import annotations

import os
import signal
import sys
import threading

import pytest

from aserve import forks

# Python 3.12 and later warn of a fork beside threads: it is what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def run_in_child(function, in_thread=False):
    """Return what function() returns in a forked child, as text."""
    reader, writer = os.pipe()
    result = []

    def run():
        pid = os.fork()
        if not pid:
            try:
                os.write(writer, str(function()).encode())
            except BaseException as exc:
                os.write(writer, repr(exc).encode())
            finally:
                os._exit(0)
        os.close(writer)
        with open(reader, "rb") as file:
            result.append(file.read().decode())
        os.waitpid(pid, 0)

    if in_thread:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    else:
        run()
    return result[0]


@pytest.fixture
def handled():
    """Let SIGTERM and SIGUSR1 have handlers of ours, and a wake-up descriptor: (earlier one, ours, its reader)."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    os.set_blocking(reader, False)

    def earlier(*_):
        """The program's own."""

    def ours(*_):
        """The event loop's."""

    before = {number: signal.signal(number, earlier) for number in (signal.SIGTERM, signal.SIGUSR1)}
    signal.signal(signal.SIGTERM, ours)
    wakeup_fd = signal.set_wakeup_fd(writer)
    yield earlier, ours, reader
    forks.disown_handlers()
    signal.set_wakeup_fd(wakeup_fd)
    for number, handler in before.items():
        signal.signal(number, handler)
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("in_thread", [False, True])
def test_signals_are_given_back(handled, in_thread):
    """A child has the handlers that were there before ours, and wakes nobody; those that are not ours stay."""
    earlier, ours, reader = handled
    forks.own_handlers({signal.SIGTERM: earlier})

    def look():
        os.kill(os.getpid(), signal.SIGTERM)
        is_earlier = signal.getsignal(signal.SIGTERM) is earlier, signal.getsignal(signal.SIGUSR1) is earlier
        return is_earlier, signal.set_wakeup_fd(-1), signal.pthread_sigmask(signal.SIG_BLOCK, ())

    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert run_in_child(look, in_thread) == str(((True, True), -1, mask))
    assert signal.getsignal(signal.SIGTERM) is ours and signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)


def test_a_handler_that_the_app_has_changed_stays(handled):
    """What has been put in the place of ours is not ours to undo."""
    earlier, _, _ = handled
    forks.own_handlers({signal.SIGTERM: signal.SIG_DFL})
    signal.signal(signal.SIGTERM, earlier)
    assert run_in_child(lambda: signal.getsignal(signal.SIGTERM) is earlier) == "True"


def test_a_handler_that_is_not_pythons(handled):
    """Where there was one that Python does not know, it is the default."""
    forks.own_handlers({signal.SIGTERM: None})
    assert run_in_child(lambda: signal.getsignal(signal.SIGTERM)) == str(signal.SIG_DFL)


@pytest.mark.parametrize("in_thread", [False, True])
def test_without_handlers_of_ours(handled, in_thread):
    """In a program with signals of its own nothing is changed."""
    if in_thread and sys.implementation.name == "pypy":
        pytest.skip("there this thread may not ask")
    _, ours, _ = handled

    def look():
        return signal.getsignal(signal.SIGTERM) is ours, signal.set_wakeup_fd(-1) >= 0

    assert run_in_child(look, in_thread) == "(True, True)"
