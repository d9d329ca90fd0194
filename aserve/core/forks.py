"""Processes that the app forks: they drop the server's descriptors, and end if they return into the server.

Owns:     the hooks around os.fork(); the end of a child that returns from the app (`end_child`); flushing what was printed before
          (`flush_output`); `weakly`, for hooks of objects.
Thread:   the thread that forks, which is the only thread of the child.
Not here: subprocess, which starts another program: there all our descriptors close, and hooks
          run only with preexec_fn.

A child has a copy of everything, but no other thread. Three things must not happen:

- A signal for the child ends the server: the child inherits the handlers, and the descriptor by
  which they wake the parent's event loop. So it gets back the handlers that were installed before.
- The child answers, too. So after each call of the app, the worker checks whether `forked` has grown
  since the server was started (an empty list, unless the app has forked). If it has, this is a child,
  and it ends. A server that the child starts itself is not the parent's, and works.
- The child keeps connections open: their clients would see the end of a response without a length, or of
  the server, only when the child ends, and the port would stay taken. So, before all else, the child drops
  the server's descriptors. /dev/null takes the place of each: a Python object may still own the number,
  and would close another file with that number. The parent's epoll set still watches what it watched, as
  long as the parent has it open (epoll(7), Q6).
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

# One item for each fork between the process that imported this module and this process.
forked: list[None] = []

# How long `end_process` may take if a pipe is full or a lock is taken. Guess.
LAST_WORDS_SECONDS = 10

# A struct sockaddr: family, port, host; or family, path.
ADDRESS_BYTES = 128
PORT_END = 4


class Watched(Protocol):
    """An object with threads and descriptors that a child must not use: a server."""

    def on_forked(self) -> tuple[Iterable[int], Iterable[bytes]]:
        """
        Stop all activity, in a child; return what the child must drop: descriptors, and addresses.

        The addresses are those of the listeners, as `local_address` returns them; every socket that is bound to one is
        dropped. (Descriptors are cheaper to find. Addresses are complete: a connection may be between two owners.)
        """


_watched: weakref.WeakSet[Watched] = weakref.WeakSet()
# By signal: our handler, and the one that was installed before; None: a handler that is not Python's.
_handlers: dict[signal.Signals, tuple[Any, Any]] = {}
# The same of the handlers that stand before all others of ours, and again behind them.
_first: dict[signal.Signals, tuple[Any, Any]] = {}
# The address of Python's function for all signals that it handles: another one stands where code in C has a handler, as by faulthandler.register().
_pythons: set[int] = set()
_set_handler = signal.signal  # kept_handlers (lifecycle/signals.py) puts another one there meanwhile
# By thread: the signals that it blocked before it began to fork.
_masks: dict[int, Any] = {}


def watch(watched: Watched) -> None:
    """Call `on_forked` of this server in each child."""
    _watched.add(watched)


def unwatch(watched: Watched) -> None:
    """Stop calling `on_forked` of this server: it has closed everything."""
    _watched.discard(watched)


def local_address(fd: int) -> bytes:
    """Return the address to which a stream socket is bound, as octets of a sockaddr; empty: not a stream socket."""
    return _local_address(fd, ffi.new("char[]", ADDRESS_BYTES))


def _local_address(fd: int, room: Any) -> bytes:
    return bytes(ffi.buffer(room, max(lib.sockets_local_address(fd, room, ADDRESS_BYTES), 0)))


def own_handlers(earlier: dict[signal.Signals, Any], are_first: bool = False) -> None:
    """Record that the server handles these signals; a child gets the handlers in `earlier` back, and behind the first ones those before them."""
    for number, handler in earlier.items():
        first, before = _first.get(number, (handler, handler))
        _handlers[number] = signal.getsignal(number), before if handler is first else handler
        if are_first:
            _first[number] = _handlers[number]
            if not _pythons:  # later the app may have one in C already
                _pythons.add(lib.signal_handler(number))


def disown_handlers() -> None:
    """Record that no handlers but the first ones are the server's any more."""
    _handlers.clear()
    _handlers.update(_first)


def disown_all_handlers() -> dict[signal.Signals, Any]:
    """Record that a child keeps the server's handlers; return what `own_handlers` needs to take that back."""
    earlier = {number: before for number, (ours, before) in _handlers.items() if signal.getsignal(number) == ours}
    _handlers.clear()
    _first.clear()
    return earlier


# The end of a child that returns


def end_if_forked(count: int, exc: BaseException | None = None) -> None:
    """End this process if it is a child of the one in which `forked` had `count` items."""
    if len(forked) != count:
        end_child(exc)


def end_child(exc: BaseException | None = None) -> NoReturn:
    """
    End this process, a child that returned into the server from the app, by an exception or without one.

    Exit status, as in a program of its own: that of a SystemExit (0 for sys.exit() and sys.exit(0)); a KeyboardInterrupt
    ends it by SIGINT; otherwise 1. Output that it printed is flushed; neither atexit functions nor `finally` blocks of
    its parent's frames run.
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
    End this process at once, after say() and a flush of what it has printed.

    Failures of these are ignored; if one hangs, SIGALRM ends the process. A negative status is a signal, which ends it as by default.
    """
    try:
        with contextlib.suppress(ValueError):  # not the main thread: then nothing ends a hang
            signal.alarm(LAST_WORDS_SECONDS)  # first: it stops a timer of the app's
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
        with contextlib.suppress(Exception):
            say()
        flush_output()
        if status < 0:
            signal.signal(-status, signal.SIG_DFL)
            # To this thread: another one may not have it blocked. Unless this one has, nothing follows.
            signal.pthread_kill(threading.get_ident(), -status)
    finally:
        os._exit(status if status >= 0 else 128 - status)


def flush_output() -> None:
    """Flush standard output and error, as far as they have a reader: before a fork, as the child would write it again, and before an end."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # None, closed, a full disk, or no reader
            stream.flush()


# The hooks


def _before() -> None:
    if _handlers:
        # A signal for a child that is a microsecond old (`process.start(); process.terminate()`) must wait for _in_child.
        _masks[threading.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, set(_handlers))
    if _watched:
        flush_output()  # buffered output must not be written twice; see `end_child`


def _unblock() -> None:
    # The handlers of signals that arrived meanwhile run here.
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
    """Let signals do what they would do without the server."""
    if signals_enabled is not None:
        signals_enabled.__enter__()  # PyPy still does not take the thread that forks for the main thread
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
        except Exception:  # a bug in aserve: drop those of the others anyway
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
    """Whether `addresses` holds this address, or its port on all interfaces."""
    return address in addresses or address[:PORT_END].ljust(len(address), b"\0") in addresses


def _replace_by_null(fds: set[int]) -> None:
    """Replace these descriptors by /dev/null, so that their numbers stay taken."""
    try:
        null = os.open(os.devnull, os.O_RDWR)
    except OSError:  # no descriptor is left, or there is no such file
        for fd in fds:
            with contextlib.suppress(OSError):
                os.close(fd)
        return
    for fd in fds:
        with contextlib.suppress(OSError):  # the one used to list them is closed
            os.dup2(null, fd, inheritable=False)
    os.close(null)


def weakly(method: Callable[[], object]) -> Callable[[], None]:
    """Return a function that calls this method while its object lives: os.register_at_fork() and atexit keep their functions for ever."""
    found = weakref.WeakMethod(method)

    def call() -> None:
        alive = found()
        if alive is not None:
            alive()

    return call


os.register_at_fork(before=_before, after_in_parent=_unblock, after_in_child=_in_child)
