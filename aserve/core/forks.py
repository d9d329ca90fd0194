"""Processes forked by the app: they drop the server's descriptors, and end on a return into the server.

Owns:     the hooks around os.fork(); the end of a child that returns from the app (`end_child`); flushing printed text before a fork
          (`flush_output`); `weakly`, for hooks of objects.
Thread:   the forking thread, the only thread of the child.
Not here: subprocess, for another program: there all our descriptors close, and hooks run only with preexec_fn.

A child has a copy of everything, but no other thread. Three things must not happen:

- A signal for the child ends the server: the child inherits the handlers, and the descriptor that wakes the parent's event loop. So the child gets
  back the handlers that were installed before.
- The child answers, too. So after each call of the app, the worker checks whether `forked` has grown since the start of the server (an empty list,
  unless the app has forked). If so, this process is a child, and ends. A server started by the child is the child's own, and works.
- The child keeps connections open: clients would see the end of a response without a length, or of the server, only at the end of the child, and
  the port would stay taken. So, before all else, the child drops the server's descriptors. /dev/null takes the place of each: a Python object may
  still own the number, and would close another file with that number. The parent's epoll set stays unchanged, as long as the parent has the files
  open (epoll(7), Q6).
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import signal
import sys
import threading
import weakref
from collections.abc import Iterable
from typing import Any, Callable, NoReturn, Protocol

from .._cparsers import ffi, lib
from .descriptors import list_open

try:
    from __pypy__.thread import signals_enabled  # type: ignore[import-not-found]
except ImportError:
    signals_enabled = None

logger = logging.getLogger("aserve")

# One item for each fork between the import of this module and now.
forked: list[None] = []

# How long `end_process` may take if a pipe is full or a lock is taken. Guess.
LAST_WORDS_SECONDS = 10

# A struct sockaddr: family, port, host; or family, path.
ADDRESS_BYTES = 128
PORT_END = 4


class ForkAware(Protocol):
    """An object with threads and descriptors forbidden to a child: a server."""

    def on_forked(self) -> tuple[Iterable[int], Iterable[bytes]]:
        """
        Stop all activity, in a child; return the descriptors and addresses for the child to drop.

        The addresses are those of the listeners, from `local_address`; every socket bound to one is dropped. (Descriptors are cheaper to find.
        Addresses are complete: a connection may be between two owners.)
        """


_watched: weakref.WeakSet[ForkAware] = weakref.WeakSet()
# By signal: our handler, and the handler installed before; None: a handler outside Python.
_handlers: dict[signal.Signals, tuple[Any, Any]] = {}
# The same of the handlers in front of all our other handlers, and again behind them.
_first: dict[signal.Signals, tuple[Any, Any]] = {}
# The address of Python's function for all signals: another address stands where code in C has a handler, as by faulthandler.register().
_pythons: set[int] = set()
_set_handler = signal.signal  # kept_handlers (lifecycle/signals.py) puts another function there meanwhile
# By thread: the signals blocked before the fork.
_masks: dict[int, Any] = {}


def watch(watched: ForkAware) -> None:
    """Call `on_forked` of this server in each child."""
    _watched.add(watched)


def unwatch(watched: ForkAware) -> None:
    """Stop calling `on_forked` of this server: everything is closed."""
    _watched.discard(watched)


def local_address(fd: int) -> bytes:
    """Return the address of a bound stream socket, as octets of a sockaddr; empty: not a stream socket."""
    return _local_address(fd, ffi.new("char[]", ADDRESS_BYTES))


def _local_address(fd: int, room: Any) -> bytes:
    return bytes(ffi.buffer(room, max(lib.sockets_local_address(fd, room, ADDRESS_BYTES), 0)))


def own_handlers(earlier: dict[signal.Signals, Any], are_first: bool = False) -> None:
    """Record the server's handlers of these signals; a child gets the handlers in `earlier` back, and behind the first handlers the previous
    ones."""
    for number, handler in earlier.items():
        first, before = _first.get(number, (handler, handler))
        _handlers[number] = signal.getsignal(number), before if handler is first else handler
        if are_first:
            _first[number] = _handlers[number]
            if not _pythons:  # later the app may have a handler in C already
                _pythons.add(lib.signal_handler(number))


def disown_handlers() -> None:
    """Record that no handlers but the first ones are the server's any more."""
    _handlers.clear()
    _handlers.update(_first)


def disown_all_handlers() -> dict[signal.Signals, Any]:
    """Let a child keep the server's handlers; return the argument of `own_handlers` for the way back."""
    earlier = {number: before for number, (ours, before) in _handlers.items() if signal.getsignal(number) == ours}
    _handlers.clear()
    _first.clear()
    return earlier


# The end of a child that returns


def end_if_forked(count: int, exc: BaseException | None = None) -> None:
    """End this process if a child of the process in which `forked` had `count` items."""
    if len(forked) != count:
        end_child(exc)


def end_child(exc: BaseException | None = None) -> NoReturn:
    """
    End this process, a child on a return into the server from the app, by an exception or without one.

    Exit status, as in a standalone program: the status of a SystemExit (0 for sys.exit() and sys.exit(0)); a KeyboardInterrupt leads to an end by
    SIGINT; otherwise 1. Printed output is flushed; neither atexit functions nor `finally` blocks of the parent's frames run.
    """
    status = 1
    if isinstance(exc, SystemExit) and (exc.code is None or isinstance(exc.code, int)):
        status = (exc.code or 0) & 0xFF
    elif isinstance(exc, KeyboardInterrupt):
        status = -signal.SIGINT
    end_process(status, functools.partial(_say_why, exc, status))


def _say_why(exc: BaseException | None, status: int) -> None:
    if isinstance(exc, SystemExit):
        if exc.code is not None and not isinstance(exc.code, int):
            sys.stderr.write(f"{exc.code}\n")
        logger.info("process %d, which the app forked, ends by SystemExit, with status %d", os.getpid(), status)
    elif exc is not None:
        logger.error(
            "process %d, which the app forked, ends: it raised %s", os.getpid(), type(exc).__name__, exc_info=exc
        )
    else:
        logger.error(
            "process %d, which the app forked, ends: it returned into the server, whose requests are its parent's; "
            "end such a process in the app, by os._exit()",
            os.getpid(),
        )


def end_process(status: int, say: Callable[[], object]) -> NoReturn:
    """
    End this process at once, after say() and a flush of printed output.

    Failures of the two are ignored; after a hang SIGALRM ends the process. A negative status is a signal, with the default effect.
    """
    try:
        with contextlib.suppress(ValueError):  # not the main thread: then nothing ends a hang
            signal.alarm(LAST_WORDS_SECONDS)  # first: stops a timer of the app's
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        with contextlib.suppress(Exception):
            say()
        flush_output()
        if status < 0:
            signal.signal(-status, signal.SIG_DFL)
            # To this thread: another thread may not have the signal blocked. Unless this thread has, nothing follows.
            signal.pthread_kill(threading.get_ident(), -status)
    finally:
        os._exit(status if status >= 0 else 128 - status)


def flush_output() -> None:
    """Flush standard output and error, as far as a reader is there: before a fork, as the child would write the text again, and before an end."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # None, closed, a full disk, or no reader
            stream.flush()


# The hooks


def _before() -> None:
    if _handlers:
        # A signal for a child of a microsecond (`process.start(); process.terminate()`) must wait for _in_child.
        _masks[threading.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, set(_handlers))
    if _watched:
        flush_output()  # buffered output must not be written twice; see `end_child`


def _unblock() -> None:
    # The handlers of signals during the fork run here.
    mask = _masks.pop(threading.get_ident(), None)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _in_child() -> None:
    forked.append(None)
    try:
        if _handlers:
            _give_signals_back()
        if _watched:
            _drop_servers()
    finally:
        try:
            _unblock()
        except BaseException as exc:  # a handler of the app's: Python would print this, and let the child live on
            end_child(exc)


def _give_signals_back() -> None:
    """Give signals the effect of a process without the server."""
    if signals_enabled is not None:
        signals_enabled.__enter__()  # PyPy still does not take the forking thread for the main thread
    signal.set_wakeup_fd(-1)
    for number, (ours, before) in (*_handlers.items(), *_first.items()):
        if signal.getsignal(number) == ours and (not _pythons or lib.signal_handler(number) in _pythons):
            _set_handler(number, signal.SIG_DFL if before is None else before)
    _handlers.clear()
    _first.clear()


def _drop_servers() -> None:
    """Drop the descriptors and sockets of the parent's servers."""
    fds: set[int] = set()
    addresses: set[bytes] = set()
    for watched in list(_watched):
        try:
            its_fds, its_addresses = watched.on_forked()
        except Exception:  # a bug in aserve: drop the rest anyway
            logger.exception("internal error; please report this as a bug in aserve")
            continue
        fds.update(its_fds)
        addresses.update(its_addresses)
    addresses.discard(b"")
    _watched.clear()
    present = list_open(fds)
    fds &= present
    room = ffi.new("char[]", ADDRESS_BYTES)
    fds.update(fd for fd in present - fds if _is_one_of(addresses, _local_address(fd, room)))
    _replace_by_null(fds)


def _is_one_of(addresses: set[bytes], address: bytes) -> bool:
    """Whether `addresses` holds this address, or the port on all interfaces."""
    return address in addresses or address[:PORT_END].ljust(len(address), b"\0") in addresses


def _replace_by_null(fds: set[int]) -> None:
    """Replace these descriptors by /dev/null: the numbers stay taken."""
    try:
        null = os.open(os.devnull, os.O_RDWR)
    except OSError:  # no descriptor is left, or there is no such file
        for fd in fds:
            with contextlib.suppress(OSError):
                os.close(fd)
        return
    for fd in fds:
        with contextlib.suppress(OSError):  # the descriptor used for the list is closed
            os.dup2(null, fd, inheritable=False)
    os.close(null)


def weakly(method: Callable[[], object]) -> Callable[[], None]:
    """Return a function that calls this method while the object lives: os.register_at_fork() and atexit keep functions for ever."""
    found = weakref.WeakMethod(method)

    def call() -> None:
        alive = found()
        if alive is not None:
            alive()

    return call


os.register_at_fork(before=_before, after_in_parent=_unblock, after_in_child=_in_child)
