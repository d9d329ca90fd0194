"""Deadlines of requests: `--request-timeout`.

Owns:     when the app got each exchange, and what happens when that is too long ago: the log line with the worker's stack; RequestTimeout, raised in
          the worker (an interrupt); writing off a worker that does not come back.
Thread:   two, under banners: workers run the app, the event loop checks once a second.
Not here: the answers (gateway.py makes the 504 of an interrupted worker, connections/loop/wire_loop.py the 504 of a worker written off), replacing
          a thread (workers/executor.py), raising an exception in a thread (workers/interrupt.py).

An interrupt may hit between any two bytecodes. In aserve's own code an interrupt would leave a lock taken or a job lost. So interrupts must hit
only while the app's own code runs; calls from the app into aserve do not count. Two tokens say where a worker is:

`_interruptible`
          is a list of one item, since `append` and `pop` are atomic. The item is there while the worker is inside the app. The loop takes the item
          to interrupt the worker, once for each exchange, and never puts the item back. The worker takes the item when leaving the app. If
          the worker gets the item, no interrupt can come any more. If the loop has the item, the worker waits until the interrupt has been made, and
          retracts an interrupt that has not hit by then. The interrupt may also hit while the worker waits; there is no second one. So a `try`
          around `_disarm` is enough.
`_ownership`
          is a lock, of the exchange itself; the worker holds the lock while outside the app. The loop takes the lock to write a worker off, and
          then answers. A worker that leaves the app and does not get the lock drops the result and ends (WrittenOff). Workers take the lock and let it go
          only where no interrupt can come.

The app's code may run in a worker outside the app: a finalizer, between any two bytecodes of ours, maybe with a call into aserve. The finalizer
must wait for nothing held by this very worker. So the lock is reentrant; and before the loop takes the first token, the loop sets `_is_claimed`: a
worker that finds neither has taken the token itself.

A plain request in C (native/) has no Run before the promotion. Once a second, before the look at the Runs, the plain requests that may be late are
promoted; their Runs begin in the middle of the app (`begun`).

Without --request-timeout none of this runs: the gateway calls the app itself, and not the wrapper of `Deadlines.timed`.

Longer than other files: the two tokens, and all code that takes a token, are to be read together.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Callable

from ..core.body import LiveBody
from ..core.errors import AppError, ClientDisconnected, RequestRefused, RequestTimeout, WrittenOff, app_too_late
from ..core.exchange import Exchange
from ..core.frames import Call, calls_of, outer_frames, show_calls
from ..workers.executor import WORKING
from ..workers.interrupt import CHECK_SECONDS, find_interrupt
from .finalizers import refuse_inside
from .gateway import WSGIApp
from .returned import close, iterate
from .wrapping import is_inert, named_as

if TYPE_CHECKING:
    from ..workers.executor import Executor
    from .begun import BegunResponse

logger = logging.getLogger("aserve")

# How long an interrupted worker may take for its finally blocks: as long as --request-timeout, but at most this. Guess.
GRACE_SECONDS = 5.0
# How long after the refusal of a request body the 504 may take; a worker that is later still must be waiting for the client elsewhere. Guess.
ANSWER_SECONDS = 2.0

_get_ident = threading.get_ident


class Deadlines:
    def __init__(self, seconds: float, executor: Executor, max_stuck: int, on_failing: Callable[[str], None]) -> None:
        self._seconds = seconds
        self._grace_seconds = min(seconds, GRACE_SECONDS)
        self._executor = executor
        self._max_stuck = max_stuck
        self._on_failing = on_failing  # called with the reason, when too many are stuck
        self._interrupt, self.retract = find_interrupt()
        self.runs: dict[int, Run] = {}  # by thread: the exchange in the app there
        self._stuck: dict[int, Run] = {}  # by thread: written off and still inside the app
        # Promotes plain requests that arrived before a time.monotonic(), so that they get their runs (connections/lane/native.py).
        self.promote_older: Callable[[float], object] = lambda arrived_before: None
        self._timed: WSGIApp | None = None
        self._app: WSGIApp | None = None

    # --- called on the event loop ---

    def timed(self, app: WSGIApp) -> WSGIApp:
        """Return a WSGI app that calls `app`, and times the call."""

        def timed(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            run = Run(self, start_response.__self__.exchange)
            environ["wsgi.early_hints"] = run.guard(environ["wsgi.early_hints"])
            body = environ["wsgi.input"]
            if type(body) is LiveBody:
                environ["wsgi.input"] = GuardedBody(body, run)
            try:
                iterable = run.call(app, environ, run.guard_start(start_response))
            except BaseException:
                run.end()
                raise
            return run.pass_out(iterable)

        self._app, self._timed = app, named_as(timed, app)
        return self._timed

    def untimed(self, app: WSGIApp) -> WSGIApp | None:
        """Return the app inside of `timed`, for C to call and time; None: another wrapper is in front."""
        return self._app if app is self._timed else None

    def on_second(self) -> None:
        """Interrupt exchanges that take too long, and write off workers that do not come back; called once a second."""
        now = time.monotonic()
        self.promote_older(now - self._seconds)
        for run in self.runs.copy().values():  # workers add theirs meanwhile
            if run.interrupted_at is None:
                if now - run.since >= self._seconds:
                    self._interrupt_or_unblock(run, now)
            elif now - run.interrupted_at >= self._grace_seconds:
                self._write_off(run, now)

    def _interrupt_or_unblock(self, run: Run, now: float) -> None:
        """Interrupt a worker inside the app and log that, or end a wait for the client."""
        text = f"the app took longer than {self._seconds:g} s (--request-timeout)"
        if not run.take_interruptible():
            # The worker is in a call from the app into aserve, or between two pieces: a wait for the client, to be ended without an interrupt. Or
            # the worker is just leaving the app.
            body = run.exchange.body
            if run.refused_at is None and isinstance(body, LiveBody) and not body.is_complete:
                run.exchange.keep_alive = False
                run.refused_at = now
                body.refuse(RequestRefused(504, text))
            elif run.refused_at is None or now - run.refused_at >= ANSWER_SECONDS:
                run.exchange.connection.abort_slow_reader(run.exchange, f"{text}, and was waiting for its client")
            return
        run.interrupted_at = now
        try:
            calls = _calls_of(run.thread_id)
            if self._interrupt is not None:
                self._interrupt(run.thread_id, RequestTimeout)
        finally:
            run.is_interrupted = True  # the worker may be waiting for this
        logger.error(
            "%s has been with the app for %.1f s, longer than --request-timeout (%g s); %s; %s was at (the last call first):\n%s",
            run.exchange.summary,
            now - run.since,
            self._seconds,
            "RequestTimeout was raised in it"
            if self._interrupt
            else "this interpreter cannot raise an exception in it",
            self._executor.threads.name_of(run.thread_id),
            show_calls(calls).rstrip(),
        )

    def _write_off(self, run: Run, now: float) -> None:
        """Answer for a worker that does not return, and put another in the worker's place."""
        if not run.take_ownership():
            return  # in aserve's own code, or leaving the app: soon done
        name = self._executor.threads.name_of(run.thread_id)
        try:
            self._stuck[run.thread_id] = run
            self.runs.pop(run.thread_id, None)
            self._executor.write_off(run.thread_id)
        except RuntimeError as exc:
            self._on_failing(f"no thread can be started in the place of one that is stuck: {exc}")
        finally:
            run.is_written_off = True
        logger.error(
            "%s: %s has not left the app %.1f s after --request-timeout; it is written off, and another takes its "
            "place (stuck now: %d, --max-stuck: %d; since the start: %d)",
            run.exchange.summary, name, now - run.since - self._seconds, len(self._stuck), self._max_stuck,
            self._executor.threads.written_off_count,
        )  # fmt: skip
        run.exchange.connection.take_over(run.exchange, app_too_late())
        if len(self._stuck) >= self._max_stuck:
            self._on_failing(f"as many workers are stuck inside the app as --max-stuck allows: {len(self._stuck)}")

    def forget(self, exchange: Exchange) -> None:
        """Stop timing an exchange: now a WebSocket."""
        for thread_id, run in self.runs.copy().items():
            if run.exchange is exchange:
                self.runs.pop(thread_id, None)

    # --- called when a plain request is promoted, in any thread ---

    def begun(self, exchange: Exchange, thread_id: int, since: float, is_inside: bool) -> Run:
        """
        Return the run of an exchange begun in C, for the engine to put into `runs`.

        `is_inside`: the worker is inside the app, and not in a call from the app into aserve.
        """
        run = Run(self, exchange, thread_id, since)
        if is_inside:
            run._interruptible.append(None)
        return run

    # --- called in a child forked by the app ---

    def on_forked(self) -> None:
        """Free a worker in a wait for an interrupt: no thread makes one here."""
        for run in self.runs.values():
            run.is_interrupted = run.is_over = True

    # --- called from a worker ---

    def on_return(self, run: Run) -> None:
        """Log the return of a worker written off."""
        self._stuck.pop(run.thread_id, None)
        logger.warning(
            "%s: its worker, which was written off, has come back from the app after %.1f s; its result is dropped, "
            "and it ends (still stuck: %d)",
            run.exchange.summary, time.monotonic() - run.since, len(self._stuck),
        )  # fmt: skip


class Run:
    """One exchange in the app, in one worker."""

    __slots__ = (
        "_deadlines", "_interruptible", "_is_claimed", "_ownership", "exchange", "interrupted_at", "is_interrupted",
        "is_over", "is_written_off", "refused_at", "since", "thread_id",
    )  # fmt: skip

    def __init__(self, deadlines: Deadlines, exchange: Exchange, thread_id: int = 0, since: float = 0.0) -> None:
        """`thread_id`, `since`: see `Deadlines.begun`; defaults: the caller's thread, and now."""
        self._deadlines = deadlines
        self.exchange = exchange
        self.thread_id = thread_id or _get_ident()
        self._interruptible: list[None] = []
        self._is_claimed = False  # the loop has the token, or is just looking
        self._ownership = threading.RLock()
        self.interrupted_at: float | None = None  # monotonic time; the loop's
        self.refused_at: float | None = None  # the same, of the request's body
        self.is_interrupted = False  # the interrupt is made
        self.is_written_off = False
        self.is_over = False
        self.since = since or time.monotonic()
        if not thread_id:
            self._ownership.acquire()
            deadlines.runs[self.thread_id] = self

    # --- called on the event loop ---

    def take_interruptible(self) -> bool:
        """Take the right to interrupt; False: the worker is not inside the app, or was interrupted already."""
        self._is_claimed = True  # first: a worker that misses the token must find this
        is_taken = _pop(self._interruptible)
        self._is_claimed = is_taken
        return is_taken

    def take_ownership(self) -> bool:
        """Take the exchange from the worker; False: the worker is not inside the app."""
        return self._ownership.acquire(blocking=False)

    # --- called from the worker ---

    def end(self) -> None:
        """Stop timing: the app is done with this exchange."""
        self.is_over = True
        runs = self._deadlines.runs
        if runs.get(self.thread_id) is self:
            runs.pop(self.thread_id, None)  # the loop may take the run out meanwhile: `Deadlines.forget`

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """
        Call a function of the app; only here can an interrupt hit.

        Raises:
            RequestTimeout: an interrupt ended the call.
            WrittenOff: the return came too late.
            BaseException: any exception of the app.
        """
        is_back = False
        result: Any = None
        fault: BaseException | None = None
        try:
            try:
                self._give_ownership()
                if not self.is_interrupted:  # otherwise this worker has had the one interrupt
                    self._interruptible.append(None)
                result = function(*arguments)
                is_back = True
            finally:
                self._disarm()
        except BaseException as exc:
            fault = exc
        try:
            return self._take_back(
                result, None if is_back else fault
            )  # an interrupt that came too late has done no harm
        finally:
            fault = None  # or a frame would hold itself

    def come_back(self, result: Any, fault: BaseException | None) -> Iterable[bytes]:
        """Do the end of `call` for an app called in C, where no interrupt can come any more; return the result of `pass_out`."""
        try:
            iterable = self._take_back(result, fault)
        except BaseException:
            self.end()
            raise
        finally:
            fault = None
        return self.pass_out(iterable)

    def pass_out(self, iterable: Any) -> Iterable[bytes]:
        """Return the app's iterable for the gateway: timed, unless the iteration runs no code of the app."""
        if is_inert(iterable):
            self.end()
            return iterable  # type: ignore[no-any-return]
        return TimedIterable(self, iterable)

    def _take_back(self, result: Any, fault: BaseException | None) -> Any:
        """Return the app's result, or raise the app's exception; no interrupt can come here."""
        if not self._regain_ownership():
            self._drop(result)
        if fault is None:
            return result
        try:
            if self.is_interrupted and not isinstance(fault, (RequestTimeout, StopIteration)):
                raise RequestTimeout from fault  # the app has turned the interrupt into another exception
            raise fault
        finally:
            fault = None  # or a frame would hold itself

    def guard(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `function`, one of ours, for the app to call: no interrupt hits inside, and the loop cannot write the worker off."""

        def guarded(*arguments: Any) -> Any:
            if self.is_over:
                return function(*arguments)
            # Other threads of the app are never interrupted.
            was_interruptible = self._disarm() if _get_ident() == self.thread_id else False
            try:
                if not self._regain_ownership(self._refuse_to_wait):
                    if self.is_written_off:
                        raise ClientDisconnected("the request took too long, and was answered with an error (504)")
                    return function(*arguments)  # the exchange is over; `function` will notice
                try:
                    return function(*arguments)
                finally:
                    self._ownership.release()
            finally:
                if was_interruptible:
                    self._interruptible.append(None)

        return guarded

    def guard_start(self, start_response: Callable[..., Any]) -> Callable[..., Any]:
        """Return start_response guarded; the returned write() is guarded, too."""
        guarded = self.guard(start_response)

        def start(status: str, headers: Any, exc_info: Any = None) -> Callable[[bytes], None]:
            return self.guard(guarded(status, headers, exc_info))

        return start

    def _disarm(self) -> bool:
        """
        Become uninterruptible; False: the worker was so before, or an interrupt was made, and is over.

        Raises:
            RequestTimeout: the interrupt hit just now.
        """
        if _pop(self._interruptible):
            return True
        while self._is_claimed and not self.is_interrupted:
            time.sleep(CHECK_SECONDS)
        if self.is_interrupted:
            self._deadlines.retract()
        return False

    def _give_ownership(self) -> None:
        """Release the exchange: the app goes on."""
        try:
            self._ownership.release()
        except RuntimeError:
            pass  # the loop has taken the token from this worker

    def _refuse_to_wait(self) -> None:
        """
        Let the app's call wait for the exchange only where no other exchange waits for this thread.

        Raises:
            AppError: a finalizer calls, on the event loop, within code of ours, or in the worker of another exchange outside the app.
        """
        refuse_inside(self.exchange.connection.service.loop)
        here = self._deadlines.runs.get(_get_ident())
        if here is not None and here._ownership._is_owned():  # type: ignore[attr-defined]
            raise AppError("a finalizer called the response of another request between two calls of the app")

    def _regain_ownership(self, before_wait: Callable[[], object] = int) -> bool:
        """Take the exchange back, where no interrupt comes; False: the loop has answered, or the exchange is over. `before_wait` may raise."""
        while not self._ownership.acquire(blocking=False):
            if self.is_written_off or self.is_over:
                return False
            before_wait()
            time.sleep(CHECK_SECONDS)  # the loop is taking the lock, or a second thread of the app writes
        return True

    def _drop(self, result: Any) -> None:
        """Close a result that nobody needs, since the loop has answered; raise WrittenOff."""
        self._deadlines.on_return(self)
        try:
            close(result)
        except BaseException:
            logging.getLogger("aserve.app").exception("the app's iterable raised in close()")
        raise WrittenOff


class GuardedResponse:
    """The app's handle on a response begun in C."""

    __slots__ = ("early_hints", "start_response", "write")

    def __init__(self, response: BegunResponse, run: Run) -> None:
        self.start_response = run.guard_start(response.start_response)
        self.write = run.guard(response.write)
        self.early_hints = run.guard(response.early_hints)


class TimedIterable:
    """An app's iterable, with each step timed by `Run.call`."""

    def __init__(self, run: Run, iterable: Any) -> None:
        self._run = run
        self._iterable = iterable
        self._iterator: Iterator[bytes] | None = None

    def __iter__(self) -> TimedIterable:
        self._iterator = self._run.call(iterate, self._iterable)
        return self

    def __next__(self) -> bytes:
        if self._run.is_interrupted:
            raise RequestTimeout  # the app has swallowed the first
        return self._run.call(next, self._iterator)  # type: ignore[no-any-return]

    def close(self) -> None:
        """Close the app's iterable, if it can be closed."""
        run = self._run
        try:
            if run.is_written_off:
                close(self._iterable)
            else:
                run.call(close, self._iterable)
        finally:
            run.end()


class GuardedBody:
    """A live body for the app to read: no interrupt hits during a wait for the client."""

    def __init__(self, body: LiveBody, run: Run) -> None:
        self.read = run.guard(body.read)
        self.readline = run.guard(body.readline)
        self.readlines = run.guard(body.readlines)
        self.close = run.guard(body.close)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")


def _calls_of(thread_id: int) -> list[Call]:
    """Return a thread's calls of the app."""
    # The frames around the app's are ours, and always the same.
    around = (Run.call.__code__, *WORKING)
    frames = outer_frames(sys._current_frames().get(thread_id))
    return calls_of(takewhile(lambda frame: frame.f_code not in around, frames))


def _pop(token: list[None]) -> bool:
    try:
        token.pop()
    except IndexError:
        return False
    return True
