"""Signals beside the server's own: the app's handlers, and the end at a second one."""

import asyncio
import faulthandler
import functools
import logging
import os
import signal
import subprocess
import sys

import pytest
from harness.interpreter import has_module, new_loop

from aserve.core import forks
from aserve.lifecycle import signals
from aserve.lifecycle.signals import Interrupted, Signals, early, unblock_all

# Python 3.12 and later warn of a fork beside threads, tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

LOOPS = ["asyncio", "uvloop"] if has_module("uvloop") else ["asyncio"]


@pytest.fixture(params=LOOPS)
def loop(request):
    """An event loop of each kind."""
    loop = new_loop(request.param)
    yield loop
    loop.close()


def raise_signals(loop, count, wait_until=None, **options):
    """Send SIGTERM to this process so often while handled; return the words of the app's handler and ours."""
    told = []
    earlier = signal.getsignal(signal.SIGTERM)
    handled = Signals(loop)

    async def main():
        handled.handle(signal.SIGTERM, lambda: told.append("ours"), **options)
        handled.unblock()
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


def test_a_blocked_signal_is_handled(loop):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        assert raise_signals(loop, 1) == ["ours"]
        assert signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ())
        unblock_all()
        assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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
    """A handler that would end the process, or fails, does not keep ours from running."""

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
    """A child forked while the server's handlers are taken away gets none of them."""
    monkeypatch.setattr(forks, "_handlers", {})
    earlier, disown, told = signal.getsignal(signal.SIGTERM), forks.disown_handlers, []

    def disown_handlers():
        told.append(signal.getsignal(signal.SIGTERM))
        disown()

    monkeypatch.setattr(forks, "disown_handlers", disown_handlers)
    handled = Signals(None)
    handled.handle(signal.SIGTERM, lambda: None)
    assert forks._handlers == {signal.SIGTERM: (signal.getsignal(signal.SIGTERM), earlier)}
    handled.close()
    assert told == [earlier] and forks._handlers == {} and signal.getsignal(signal.SIGTERM) is earlier


# At the start


def test_what_comes_early_waits(loop):
    """An early signal waits for its handler; a signal without a later handler is answered, each time."""
    early.begin(interrupts=True)
    told = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        with pytest.raises(Interrupted):  # which code that is imported may drop
            signal.raise_signal(number)
    early.wait()
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.raise_signal(number)
    handled = Signals(loop)

    async def main():
        for number in (signal.SIGTERM, signal.SIGUSR1):
            handled.handle(number, functools.partial(told.append, number))
        handled.answer_others(told.append)
        signal.raise_signal(signal.SIGUSR2)
        early(signal.SIGTERM, None)  # the app's handler calls the one before: ours runs anyway
        while len(told) < 6:
            await asyncio.sleep(0.001)

    loop.run_until_complete(main())
    handled.close()
    assert told == [
        signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR2, signal.SIGUSR2,
    ]  # fmt: skip
    signal.raise_signal(signal.SIGTERM)  # it waits again
    assert list(early.came) == [signal.SIGTERM]


def test_handlers_of_the_program_stay():
    """The program's handlers in Python and in C stay, and signals ignored by `nohup`; ours go where the program goes on."""
    signal.signal(signal.SIGTERM, print)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # a shell's `&` may have it ignored
    faulthandler.register(signal.SIGUSR2)
    try:
        with early.beside_program():
            kept = [number for number in signals.STARTING if signal.getsignal(number) is not early]
            signal.signal(signal.SIGTTIN, print)
        assert kept == [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2]
        assert signal.getsignal(signal.SIGQUIT) is signal.SIG_DFL and signal.getsignal(signal.SIGTTIN) is print
        with early.beside_program():
            pass
    finally:
        faulthandler.unregister(signal.SIGUSR2)


@pytest.mark.parametrize("is_foreground", [True, False])
def test_a_process_in_the_background(monkeypatch, is_foreground):
    """Such a process is in another group than the terminal's front; without a terminal there is no background."""
    monkeypatch.setattr(signals, "TERMINAL", os.devnull)
    monkeypatch.setattr(os, "tcgetpgrp", lambda fd: os.getpgrp() - (not is_foreground))
    assert signals.is_in_background() is not is_foreground
    monkeypatch.setattr(signals, "TERMINAL", "/no/such/file")
    assert not signals.is_in_background()


# Effects of signals


ASK = "import signal; from aserve.lifecycle.signals import early; print(not early.begin([signal.SIGHUP]))"


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_what_the_process_was_started_with(handler):
    """A signal ignored at the start is known as such, also where the interpreter does not tell."""
    command = [sys.executable, "-c", ASK]
    set_handler = functools.partial(signal.signal, signal.SIGHUP, handler)
    told = subprocess.run(command, preexec_fn=set_handler, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert told == f"{handler is signal.SIG_IGN}\n"


def test_what_this_process_has_set(monkeypatch):
    """Handlers set by Python itself are known; where the system does not tell, they count alone."""
    for status in (signals.STATUS, "/no/such/file", os.devnull):
        monkeypatch.setattr(signals, "STATUS", status)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        assert signals.Early().begin([signal.SIGHUP]) == {signal.SIGHUP: signal.SIG_DFL}
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert not signals.Early().begin([signal.SIGHUP])


# Foreign code beside our handlers


def test_handlers_are_kept(caplog):
    """Handlers are put back, and the place where signals are read; a line names them."""

    def ours(number, frame):
        pass

    signal.signal(signal.SIGTERM, ours)
    reading, writing = os.pipe2(os.O_NONBLOCK)
    signals.own_wakeup_fd(writing)
    try:
        with signals.kept_handlers("conf.py"):
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.set_wakeup_fd(-1)
        assert signal.getsignal(signal.SIGTERM) is ours
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        os.kill(os.getpid(), signal.SIGTERM)
        assert os.read(reading, 9) == bytes([signal.SIGTERM])
    finally:
        signals.own_wakeup_fd(-1)
        os.close(reading)
        os.close(writing)
    assert "conf.py has set handlers for SIGTERM, SIGINT, which were removed" in caplog.text


def test_the_default_is_not_even_set(caplog):
    """A signal during such code ends no process; the code may set the default of others, and later all."""
    came = []
    signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
    with signals.kept_handlers("conf.py"):
        from signal import signal as by_name

        for number in (signal.SIGTERM, signal.SIGALRM):
            by_name(number, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
    assert came == [signal.SIGTERM]
    assert "conf.py has set handlers for SIGTERM, which were removed" in caplog.text
    by_name(signal.SIGTERM, signal.SIG_DFL)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_nothing_is_set(caplog):
    """Code that leaves signals alone needs no word, and its exceptions go on."""
    with pytest.raises(ValueError, match="x"), signals.kept_handlers("conf.py"):
        raise ValueError("x")
    assert caplog.text == "" and signal.set_wakeup_fd(-1) == -1


def test_one_that_is_not_pythons(monkeypatch):
    real = signal.getsignal
    with monkeypatch.context() as patch:
        patch.setattr(signal, "getsignal", lambda number: None if number == signal.SIGTERM else real(number))
        handling = signals.kept_handlers("conf.py")
        handling.__enter__()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    handling.__exit__(None, None, None)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


# After the end


@pytest.mark.parametrize("stdout", ["none", "unread"])
def test_leaving_at_once(stdout):
    """The process ends, whatever the state of its standard output."""
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
