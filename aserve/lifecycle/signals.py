"""The signals of a process that serves, or is about to serve.

Owns:     Early: the handlers before those of an event loop; the handlers of run(), which call the app's own first; whether a signal is ignored or
          blocked; the end at a second signal; kept_handlers, around code that might change handlers.
Thread:   the main thread.
Not here: the server's reaction to a signal (server/running.py), handlers in children (core/forks.py), a stopped process without an end
          (lifecycle/exits.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import functools
import logging
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Callable, NoReturn

from .._cparsers import lib
from ..core import forks
from ..core.error_log import end_logs

logger = logging.getLogger("aserve")

# A terminal, `make` and `timeout` send one Ctrl-C or SIGTERM to the process and to the group: two signals this close together count as one, and do
# not end the process at once.
SAME_SIGNAL_SECONDS = 0.5
STATUS = "/proc/self/status"
TERMINAL = "/dev/tty"
SIGNAL_STACK_BYTES = 1 << 20  # for each of 64 signals at once, and more; unused pages take no memory
# All signals handled by any process of the command.
HANDLED = (
    signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR1, signal.SIGUSR2,
    signal.SIGCHLD,
)  # fmt: skip

# The signals of `early`: these only where they have their default, which ends or stops the process; the rest of STARTING always.
FREE_BY_DEFAULT = (signal.SIGQUIT, signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR2)
STARTING = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, *FREE_BY_DEFAULT)
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)

Earlier = dict[signal.Signals, Any]  # handlers

_wakeup_fds: list[int] = []  # the descriptor for the signals of this process, if set


class Interrupted(KeyboardInterrupt):
    """A signal ends a starting process; an app that is being imported sees a Ctrl-C."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(f"{number.name}: ending before it has served")
        self.number = number


class Early:
    """
    The handler of signals from the start on: signals wait for the handlers of an event loop, or for the supervisor's.

    This handler is set before the app is imported: a handler of the app's that restores the earlier one, and sends the signal again, calls this one.
    """

    def __init__(self) -> None:
        self.came: dict[signal.Signals, None] = {}  # a set that keeps the order
        # Called for a signal without another handler of ours; None: the signal waits.
        self.answer: Callable[[signal.Signals], object] | None = None
        self._interrupts = False
        self._earlier: dict[signal.Signals, Any] = {}

    def __call__(self, number: int, frame: Any) -> None:
        """Handle a signal."""
        name = signal.Signals(number)
        if self.answer is not None:
            self.answer(name)
            return
        self.came[name] = None  # first: an `except:` of the app may drop the exception
        if self._interrupts and name in ENDING:
            raise Interrupted(name)

    def begin(self, numbers: Iterable[signal.Signals] = STARTING, interrupts: bool = False) -> Earlier:
        """Handle these signals, where nobody else does; `interrupts`: signals of ENDING end the process until `wait`. Return the handlers
        before."""
        self._interrupts = interrupts
        ignored, caught = _listed("SigIgn:"), _listed("SigCgt:")
        earlier = {number: signal.signal(number, self) for number in numbers if _is_free(number, ignored, caught)}
        self._earlier.update(earlier)
        # Also signals handled already: a fork of ours has given them back.
        own = {number: handler for number, handler in self._earlier.items() if signal.getsignal(number) is self}
        forks.own_handlers(own, are_first=True)
        return earlier

    def wait(self) -> None:
        """Let all signals from now on wait."""
        self._interrupts, self.answer = False, None

    def take(self, number: signal.Signals) -> bool:
        """Return whether this signal has come and waits; the caller obeys."""
        return number in self.came and not self.came.pop(number)

    @contextlib.contextmanager
    def beside_program(self) -> Iterator[None]:
        """Let signals that would end a program wait in this context; Ctrl-C raises KeyboardInterrupt as before."""
        earlier = self.begin([number for number in STARTING if number != signal.SIGINT])
        try:
            yield
        finally:
            for number, handler in earlier.items():
                if signal.getsignal(number) is self:
                    signal.signal(number, signal.SIG_DFL if handler is None else handler)
            if earlier:
                forks.disown_all_handlers()


early = Early()


class Signals:
    """Handlers on an event loop, until `close`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._earlier: dict[signal.Signals, Any] = {}
        self._blocked: set[int] = set()  # by the program, before
        self._have_run: list[signal.Signals] = []  # signals whose handler of the app has run

    def handle(self, number: signal.Signals, callback: Callable[[], object], is_once: bool = False) -> None:
        """
        Call `callback` on the loop when the signal comes; call the app's handler first, with `is_once` only the first time.

        Python's own handler, which raises KeyboardInterrupt, is not the app's. An ignored signal is handled, too: a server started by a shell in
        the background must end as well.
        """
        earlier, call = signal.getsignal(number), callback
        self._earlier[number] = earlier
        if callable(earlier) and earlier is not early and earlier is not signal.default_int_handler:
            logger.info("%s: the app's own handler, %s, runs before the server's", number.name, _name_of(earlier))
            call = functools.partial(self._run_both, number, callback, is_once)
        # Not loop.add_signal_handler: this needs the process's wake-up descriptor, and a loop of the app's takes that (--threads 0).
        signal.signal(number, lambda *_: self._loop.call_soon_threadsafe(call))
        signal.siginterrupt(number, False)  # libraries of the app's may not expect an EINTR
        forks.own_handlers({number: earlier})
        if early.take(number):
            self._loop.call_soon(callback)

    def answer_others(self, callback: Callable[[signal.Signals], object]) -> None:
        """Call `callback` on the loop for each signal that only `early` handles, also for those that have come already."""

        def answer(number: signal.Signals) -> None:
            if number not in self._earlier:
                self._loop.call_soon_threadsafe(callback, number)

        early.answer = answer
        for number in [*early.came]:
            early.take(number)
            answer(number)

    def unblock(self) -> None:
        """Unblock the handled signals, until `close`: the program, or its parent, may have blocked them."""
        self._blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, self._earlier) & {*self._earlier}

    def close(self) -> None:
        """Put the earlier handlers back."""
        early.wait()
        for number, handler in self._earlier.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not set by Python
        forks.disown_handlers()  # last: a child forked just now must not keep these handlers
        self._earlier.clear()
        signal.pthread_sigmask(signal.SIG_BLOCK, self._blocked)

    def _run_both(self, number: signal.Signals, callback: Callable[[], object], is_once: bool) -> None:
        if not is_once or number not in self._have_run:
            self._have_run.append(number)
            try:
                self._earlier[number](int(number), sys._getframe())  # as Python calls handlers
            except (SystemExit, KeyboardInterrupt):
                pass  # the handler wants the process to end, as the server does
            except BaseException:
                logger.exception("the app's own handler of %s failed", number.name)
        callback()


def _name_of(handler: Any) -> str:
    return f"{getattr(handler, '__module__', '?')}.{getattr(handler, '__qualname__', type(handler).__qualname__)}"


def write_stacks_at_crash() -> None:
    """Let a deadly signal write the stacks; the main thread calls."""
    faulthandler.enable()
    # Python's handlers run on the stack that faulthandler makes, with room for one handler. Two signals at once end a process by SIGSEGV where the
    # registers of a CPU take more than half of that stack (Intel's AMX: 11 kB of 19 kB).
    lib.signal_stack(SIGNAL_STACK_BYTES)


def unblock_all() -> None:
    """Unblock all signals: the command may inherit blocked ones from its parent."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _listed(field: str) -> int:
    """Return the signals in this field of the process's status, a bit each; PyPy reports an inherited SIG_IGN, as by `nohup`, as the default."""
    with contextlib.suppress(OSError), open(STATUS) as file:  # Linux
        for line in file:
            if line.startswith(field):
                return int(line.split()[1], 16)
    return 0


def _is_free(number: signal.Signals, ignored: int, caught: int) -> bool:
    """Whether the program has no handler for this signal, in Python or in C (faulthandler); `ignored`, `caught`: by the system, a bit each."""
    handler, bit = signal.getsignal(number), 1 << number - 1
    if number == signal.SIGQUIT:  # ignored by a shell's `&`, as SIGINT
        return handler in (signal.SIG_DFL, signal.SIG_IGN) and not caught & bit
    if number in FREE_BY_DEFAULT:
        return handler is signal.SIG_DFL and not (ignored | caught) & bit
    return not callable(handler) or handler is signal.default_int_handler


def own_wakeup_fd(fd: int) -> None:
    """Write the number of each signal to this descriptor (signal.set_wakeup_fd); -1: to none."""
    signal.set_wakeup_fd(fd, warn_on_full_buffer=False)  # in a storm of signals a few suffice
    _wakeup_fds[:] = [fd] if fd >= 0 else []


@contextlib.contextmanager
def kept_handlers(what: str) -> Iterator[None]:
    """
    Run code of the user that may set handlers for the server's signals; then restore the server's, and log what was set.

    An event loop of such code (loop.add_signal_handler) also replaces the wake-up descriptor, which is restored, too. A handler is never reset to
    the default: a signal would end the process before the server's handler is back. (Blocking signals is no way: programs that the code starts
    would inherit the block.)
    """
    before = {number: signal.getsignal(number) for number in HANDLED}
    declined: set[signal.Signals] = set()
    set_handler = signal.signal

    def set_unless_default(number: signal.Signals, handler: Any) -> Any:
        if signal.signal is not set_unless_default:  # code that has imported this function by name calls it later
            return signal.signal(number, handler)
        if callable(handler) or not callable(before.get(number)):
            return set_handler(number, handler)
        declined.add(number)
        return signal.getsignal(number)

    signal.signal = set_unless_default  # type: ignore[assignment]
    try:
        yield
    finally:
        signal.signal = set_handler
        taken = [n for n, handler in before.items() if n in declined or signal.getsignal(n) != handler]
        for number in taken:
            signal.signal(number, signal.SIG_DFL if before[number] is None else before[number])
        for fd in _wakeup_fds:
            signal.set_wakeup_fd(fd, warn_on_full_buffer=False)
        if taken:
            names = ", ".join(number.name for number in taken)
            logger.warning(
                "%s has set handlers for %s, which were removed: the server handles these signals; an app may set some while it is imported",
                what, names,
            )  # fmt: skip


def is_in_background() -> bool:
    """Whether this process may not read from its terminal now: a shell has started the process by `&`, or `bg` has continued it."""
    with contextlib.suppress(OSError), open(TERMINAL) as terminal:
        return os.tcgetpgrp(terminal.fileno()) != os.getpgrp()
    return False


def end_at_once(number: signal.Signals) -> NoReturn:
    """End the process at once, after a second signal, or SIGQUIT."""

    def say() -> None:
        logger.warning("%s%s: leaving at once", number.name, "" if number == signal.SIGQUIT else " again")
        end_logs()

    forks.end_process(128 + number, say)
