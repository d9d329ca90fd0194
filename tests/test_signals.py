"""What signals do beside the server's own: the app's handlers, and the end of a process that is kept."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import sys
import threading

import pytest
from harness.interpreter import has_module, new_loop
from harness.places import run_in

from aserve import forks, signals
from aserve.signals import Signals, log_what_remains

# Python 3.12 and later warn of a fork beside threads: it is what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

LOOPS = ["asyncio", "uvloop"] if has_module("uvloop") else ["asyncio"]


@pytest.fixture(autouse=True)
def _handlers():
    """Put the signal handlers of this process back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    forks.disown_handlers()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(params=LOOPS)
def loop(request):
    """An event loop of each kind."""
    loop = new_loop(request.param)
    yield loop
    loop.close()


def raise_signals(loop, count, wait_until=None, **options):
    """Send SIGTERM to this process so often while it is handled; return what the app's handler and ours have told."""
    told = []
    earlier = signal.getsignal(signal.SIGTERM)
    handled = Signals(loop)

    async def main():
        handled.handle(signal.SIGTERM, lambda: told.append("ours"), **options)
        for number in range(count):
            os.kill(os.getpid(), signal.SIGTERM)
            while told.count("ours") <= number:
                await asyncio.sleep(0.001)

    try:
        loop.run_until_complete(main())
    finally:
        handled.close()
    assert signal.getsignal(signal.SIGTERM) is earlier
    return told


@pytest.mark.parametrize(("is_once", "count"), [(True, 1), (False, 2)])
def test_the_apps_handler_runs_first(loop, is_once, count, caplog):
    """A handler of the app's runs before ours, once or each time, and is put back afterwards; the log says so."""
    caplog.set_level(logging.INFO, "aserve")
    calls = []

    def handler(number, frame):
        calls.append((number, frame is not None))

    signal.signal(signal.SIGTERM, handler)
    assert raise_signals(loop, 2, is_once=is_once) == ["ours", "ours"]
    assert calls == [(signal.SIGTERM, True)] * count
    assert "SIGTERM: the app's own handler, " in caplog.text and "handler, runs before the server's" in caplog.text


@pytest.mark.parametrize("exc", [SystemExit(0), KeyboardInterrupt(), ValueError("a fault of the app's")])
def test_an_apps_handler_that_raises(loop, exc, caplog):
    """One that would end the process, or fails, does not keep ours from running."""

    def handler(number, frame):
        raise exc

    signal.signal(signal.SIGTERM, handler)
    assert raise_signals(loop, 1) == ["ours"]
    assert ("a fault of the app's" in caplog.text) == isinstance(exc, ValueError)


@pytest.mark.parametrize("handler", [signal.SIG_DFL, signal.SIG_IGN, signal.default_int_handler])
def test_what_is_no_handler_of_the_apps(loop, handler, caplog):
    """The system's, Python's own, and none: ours runs alone."""
    caplog.set_level(logging.INFO, "aserve")
    signal.signal(signal.SIGTERM, handler)
    assert raise_signals(loop, 1) == ["ours"] and caplog.text == ""


def test_a_child_while_handlers_are_put_back(monkeypatch):
    """Who is forked while the server's handlers are taken away gets none of them."""
    monkeypatch.setattr(forks, "_handlers", {})
    earlier = signal.getsignal(signal.SIGTERM)

    class FakeLoop:
        def add_signal_handler(self, number, callback):
            signal.signal(number, lambda *_: callback())

        def remove_signal_handler(self, number):
            [(ours, before)] = forks._handlers.values()
            assert ours is signal.getsignal(number) and before is earlier
            removed.append(number)

    removed = []
    handled = Signals(FakeLoop())
    handled.handle(signal.SIGTERM, lambda: None)
    handled.close()
    assert removed == [signal.SIGTERM] and forks._handlers == {} and signal.getsignal(signal.SIGTERM) is earlier


# After the end


@pytest.mark.parametrize("stdout", ["none", "unread"])
def test_leaving_at_once(stdout):
    """The process ends, whatever has become of its standard output."""
    pid = os.fork()
    if not pid:
        try:
            reader, writer = os.pipe()
            sys.stdout = open(writer, "w") if stdout == "unread" else None
            os.close(reader)
            if stdout == "unread":
                sys.stdout.write("something")
            signals.end_at_once(signal.SIGTERM)
        finally:
            os._exit(99)
    assert os.waitpid(pid, 0)[1] == (128 + signal.SIGTERM) << 8


@pytest.fixture
def only_new(monkeypatch):
    """Let nothing remain but what a test has begun: in this process others may have left something."""
    what_remains = signals._what_remains
    before = what_remains()
    monkeypatch.setattr(signals, "_what_remains", lambda: [name for name in what_remains() if name not in before])


@pytest.fixture
def kept(monkeypatch, only_new):
    """Let a thread that is no daemon keep the process; called: it ends."""
    monkeypatch.setattr(signals, "REPORT_SECONDS", 0.0)
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait, name="of-the-app")
    thread.start()

    def end():
        gate.set()
        thread.join()

    yield end
    end()


def wait_for_teller():
    """Wait until the thread that tells has ended."""
    for thread in threading.enumerate():
        if thread.name == "aserve-ending":
            thread.join()


def test_a_thread_that_remains(kept, caplog, monkeypatch):
    """A thread of the app's is named, and a signal ends the process at once."""
    statuses = []
    monkeypatch.setattr(forks, "end_process", lambda status, say: statuses.append(status) or say())
    monkeypatch.setattr(signals.logging, "shutdown", lambda: None)
    log_what_remains()
    wait_for_teller()
    assert caplog.messages == ["waiting for the app's thread of-the-app; a second signal ends it"]
    os.kill(os.getpid(), signal.SIGTERM)
    assert statuses == [128 + signal.SIGTERM]
    assert caplog.messages[1:] == ["SIGTERM again: leaving at once"]


def test_a_thread_that_ends_in_time(kept, caplog, monkeypatch):
    """One that ends soon is not worth a line."""
    monkeypatch.setattr(signals.time, "sleep", lambda _: kept())
    log_what_remains()
    wait_for_teller()
    assert caplog.messages == []


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("in_thread", [False, True])
def test_a_child_of_what_remains(in_thread):
    """A process that a thread of the app's forks after the end has the handlers of before, and not those that end its parent."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    before = signal.SIG_DFL, signal.getsignal(signal.SIGINT)
    log_what_remains()
    assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
    statuses = []

    def fork():
        pid = os.fork()
        if not pid:
            os._exit((signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) != before)
        statuses.append(os.waitpid(pid, 0)[1])

    run_in(in_thread, fork)
    assert statuses == [0]


@pytest.mark.usefixtures("only_new")
def test_nothing_remains(caplog):
    """Without such threads nothing is told, and signals are as before."""
    before = signal.getsignal(signal.SIGTERM)
    log_what_remains()
    assert signal.getsignal(signal.SIGTERM) == before and caplog.messages == []


def test_beside_the_main_thread(kept):
    """Where signals cannot be handled, somebody else ends the process."""
    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=log_what_remains)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.usefixtures("only_new")
def test_a_process_that_remains(caplog, monkeypatch):
    """A process of multiprocessing is named, too."""
    monkeypatch.setattr(signals, "REPORT_SECONDS", 0.0)
    process = multiprocessing.get_context("spawn").Process(target=signal.pause, name="of-the-app")
    process.start()
    try:
        log_what_remains()
        wait_for_teller()
        assert f"process of-the-app (pid {process.pid})" in caplog.text
    finally:
        process.kill()
        process.join()
