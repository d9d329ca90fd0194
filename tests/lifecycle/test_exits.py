"""The exit of a process kept by the app: the named culprits, and the limit."""

import concurrent.futures
import io
import multiprocessing
import os
import signal
import sys
import threading
import types

import pytest
from harness.places import run_in

from aserve.core import forks
from aserve.lifecycle import exits
from aserve.lifecycle.exits import Remaining, begin_ending, bound_exit
from aserve.workers.threads import OwnThread

# Python 3.12 and later warn of a fork beside threads, tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


class Clock:
    """Time passing by sleeps; at a moment an event may happen."""

    def __init__(self):
        self.now = 0.0
        self.at = {}

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        for moment in [moment for moment in self.at if moment <= self.now]:
            self.at.pop(moment)()


@pytest.fixture(autouse=True)
def ends(monkeypatch):
    """The exit statuses of this process, with the moment; handlers are put back."""
    found, before = [], {number: signal.getsignal(number) for number in exits.LATE}

    def end(status, say):
        say()
        found.append((status, exits.time.monotonic()))

    monkeypatch.setattr(forks, "end_process", end)
    monkeypatch.setattr(exits.logging, "shutdown", lambda: None)
    monkeypatch.setattr(exits, "_ends_at", [])
    monkeypatch.setattr(exits, "_began_at", [])
    yield found
    forks.disown_handlers()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """The time of the module."""
    clock = Clock()
    monkeypatch.setattr(exits, "time", clock)
    return clock


@pytest.fixture(autouse=True)
def only_new(monkeypatch):
    """Let nothing remain but a test's own threads: this process may have older ones."""
    find = exits.find_remaining
    before = find()

    def find_new():
        threads, processes = find()
        return Remaining(
            [name for name in threads if name not in before.threads],
            [child for child in processes if child not in before.processes],
        )

    monkeypatch.setattr(exits, "find_remaining", find_new)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_comes_with_the_first(ends, clock, monkeypatch, caplog, number):
    """The signal counts as the same, although the server's handlers are gone; a later signal ends the process at once."""
    begin_ending(30.0)
    exits.hold_signals()
    clock.now = 0.5
    signal.raise_signal(number)
    assert ends == []
    clock.now = 0.6
    signal.raise_signal(number)
    assert ends == [(128 + number, 0.6)] and f"{number.name} again: leaving at once" in caplog.text


def test_signals_of_a_process_that_served(ends, clock):
    """Signals with a meaning only for a serving process end nothing."""
    exits.hold_signals()
    for number in (signal.SIGHUP, signal.SIGUSR1):
        signal.raise_signal(number)
    assert ends == []


@pytest.mark.parametrize(("seconds", "is_ignored"), [(0.5, True), (0.6, False)])
def test_while_the_interpreter_ends(clock, seconds, is_ignored):
    """The interpreter restores the defaults: a signal beside the first must not kill the process then."""
    begin_ending(30.0)
    exits.hold_signals()
    own = signal.signal(signal.SIGUSR1, signal.SIG_DFL)  # handlers set by the app since then stay
    clock.now = seconds
    exits._ignore_late_signals()
    assert (signal.getsignal(signal.SIGTERM) == signal.SIG_IGN) is is_ignored
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL and own is not None


def test_what_has_no_flush_is_not_flushed(clock, monkeypatch):
    """The interpreter would call the flush at the end, fail, and make the status 120; a stream with a flush is left alone."""
    begin_ending(30.0)
    monkeypatch.setattr(sys, "stdout", object())
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    exits._skip_what_is_no_file()
    assert sys.stdout is None and sys.stderr is not None


@pytest.fixture
def kept():
    """Let a non-daemon thread keep the process; called: the thread ends."""
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait, name="of-the-app")
    thread.start()

    def end():
        gate.set()
        thread.join()

    yield end
    end()


def bound(status=0):
    """Bound the exit, and wait until the thread has ended."""
    bound_exit(status)
    for thread in threading.enumerate():
        if thread.name == "aserve-ending":
            thread.join()


WAITING = "waiting for the app's thread of-the-app; a second signal ends it, or the time limit, in {} s"


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize(
    ("seconds", "status", "expected"),
    [
        (None, 2, (2, 4.0)),  # nothing was served: a thread without end has a short wait
        (30.0, 0, (1, 30.0)),
        (30.0, 1, (1, 30.0)),
        (0.5, 0, (1, 1.0)),  # requests have used up the time
    ],
)
def test_a_thread_that_does_not_end(ends, caplog, seconds, status, expected):
    """A thread of the app's is named; at the time limit the process ends, and says where the thread was."""
    if seconds is not None:
        begin_ending(seconds)
        begin_ending(99.0)  # the end has begun already
    bound(status)
    assert ends == [expected]
    waiting, leaving = caplog.messages
    assert waiting == WAITING.format(f"{expected[1] - 1:.0f}")
    first, *stack = leaving.splitlines()
    assert first.startswith("the time to end is over: leaving the app's thread of-the-app unfinished; stacks (")
    assert stack[0] == "of-the-app:" and "threading.py" in leaving


@pytest.mark.usefixtures("kept")
def test_a_signal_meanwhile(ends, caplog):
    """A signal ends such a process at once."""
    bound()
    ends.clear()
    os.kill(os.getpid(), signal.SIGTERM)
    assert ends[0][0] == 128 + signal.SIGTERM
    assert caplog.messages[2:] == ["SIGTERM again: leaving at once"]


def test_a_thread_that_ends_in_time(kept, clock, ends, caplog):
    """A short wait is not worth a line; a thread with an end before the limit ends nothing."""
    clock.at = {1.0: kept}
    begin_ending(30.0)
    bound()
    [line] = caplog.messages
    assert line.startswith("the time to end is over: leaving what the app does at exit unfinished; stacks (")
    assert ends == [(1, 34.0)]  # if the interpreter has not ended by then


@pytest.mark.parametrize(("seconds", "moment"), [(10.0, 14.0), (None, 8.0)])
def test_atexit_functions_that_do_not_end(ends, caplog, seconds, moment):
    """Such functions have a while longer than threads, also where nothing was served; the line tells the main thread's place."""
    if seconds is not None:
        begin_ending(seconds)
    bound()
    assert ends == [(1, moment)]
    assert "\nMainThread:\n" in caplog.messages[0] and "test_exits.py" in caplog.messages[0]


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("in_thread", [False, True])
def test_a_child_of_what_remains(in_thread):
    """A process forked by a thread of the app's after the end has the old handlers, and not the ending ones."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    before = signal.SIG_DFL, signal.getsignal(signal.SIGINT)
    bound()
    assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
    statuses = []

    def fork():
        pid = os.fork()
        if not pid:
            os._exit((signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) != before)
        statuses.append(os.waitpid(pid, 0)[1])

    run_in(in_thread, fork)
    assert statuses == [0]


def test_beside_the_main_thread(kept, ends):
    """Where signals cannot be handled, the main thread's program ends the process."""
    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=bound)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) == before and ends == []


def test_a_process_that_remains(monkeypatch, caplog):
    """A process of multiprocessing is named, too; at the time limit the process gets SIGTERM."""
    ended = []
    child = types.SimpleNamespace(name="of-the-app", pid=7, terminate=lambda: ended.append("terminated"))
    monkeypatch.setattr(multiprocessing.process, "active_children", lambda: [child])
    bound()
    assert "waiting for the app's process of-the-app (pid 7); " in caplog.messages[0]
    assert "leaving the app's process of-the-app (pid 7) unfinished" in caplog.messages[1] and ended == ["terminated"]


def test_without_pools_and_processes(monkeypatch, kept):
    """Where the app has imported neither, threads are found all the same."""
    for name in ("concurrent.futures.thread", "multiprocessing.process"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert exits.find_remaining() == Remaining(["of-the-app"], [])


@pytest.mark.parametrize(
    "kind", [OwnThread, lambda target, name: threading.Thread(target=target, name=name, daemon=True)]
)
def test_a_pool_that_a_thread_has_filled(kind):
    """The interpreter joins the threads of a pool whoever the maker: one of our own threads, or a daemon."""
    gate, started = threading.Event(), threading.Event()
    pool = concurrent.futures.ThreadPoolExecutor(1, "pooled")

    def fill():
        pool.submit(gate.wait)
        started.set()
        gate.wait()

    thread = kind(fill, "filling")
    thread.start()
    started.wait()
    try:
        assert exits.find_remaining().threads == ["pooled_0"]
    finally:
        gate.set()
        thread.join()
        pool.shutdown()


def test_end_in_time(monkeypatch):
    """A process without a supervisor ends, whatever the obstacle."""
    statuses = []
    monkeypatch.setattr(exits.os, "_exit", statuses.append)
    exits.end_in_time(0.0)
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join()
    assert statuses == [1]
