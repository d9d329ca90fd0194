"""Run the app for one exchange (PEP 3333).

Owns:     calling the app, iterating and closing the app's iterable, turning the app's failures into a 500 or an aborted connection.
Thread:   a worker (with --threads 0: the event loop).
Spec:     PEP 3333.
Not here: checks and framing of the response (response.py), threads
          (workers/executor.py), the transport (connections/loop/wire_loop.py).

`Gateway.respond` returns one of
    bytes                the whole response
    (bytes, bytes)       the whole response, head and a large body
    FileResponse         a head, then octets of a file, sent by the server without a worker
    Iterator[bytes]      a response in pieces, to be sent as they come; a caller must exhaust or close the iterator
Before the call of the app each `Before` of the listener comes, in order: request_id.py is one. The first reply answers in the app's place.

Only WrittenOff (deadlines.py) may leave `respond`. The iterator may also raise ResponseTruncated and ClientDisconnected: the response cannot be
finished.
"""

from __future__ import annotations

import contextvars
import functools
import io
import logging
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Callable, Union

from ..core.error_log import log_failure
from ..core.errors import (
    AppError,
    ClientDisconnected,
    RequestRefused,
    RequestTimeout,
    ResponseTruncated,
    WrittenOff,
    app_too_late,
)
from ..core.exchange import REFUSED, TIMED_OUT, Exchange
from ..core.forks import end_if_forked, forked
from ..core.named_tuple import NamedTuple
from .begun import BegunResponse
from .environ import build_environ
from .head import Headers
from .response import CommonFields, Response, error_response
from .returned import close, not_iterable

logger = logging.getLogger("aserve.app")

WSGIApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


SYSTEM_FILES = (io.BufferedReader, io.BufferedRandom, io.FileIO)


class FileWrapper:
    """wsgi.file_wrapper: an iterable over a file, recognised and sent by the server itself."""

    def __init__(self, filelike: BinaryIO, blksize: int = 65536) -> None:
        self.filelike = filelike
        self.blksize = blksize

    def __iter__(self) -> Iterator[bytes]:
        while True:
            chunk = self.filelike.read(self.blksize)
            if not chunk:
                return  # any false value is the end, as in PEP 3333's own
            yield chunk

    def close(self) -> None:
        close(self.filelike)

    def extent(self) -> tuple[BinaryIO, int, int] | None:
        """Return a regular file, the offset and the octets left; None for anything else."""
        file = _system_file(self.filelike)
        if file is None:
            return None
        try:
            status = os.fstat(file.fileno())
            offset = file.tell()
        except (OSError, ValueError):
            return None  # a pipe, a closed file: read() works, or raises the right error
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            return None  # files of the kernel, below /proc, have content but no size
        return file, offset, max(status.st_size - offset, 0)


def _system_file(filelike: Any) -> BinaryIO | None:
    """
    Return the system's file with the octets of read(); None if read() may return other octets.

    An object that reads differently from the descriptor (gzip, a codec, a subclass, a decrypting wrapper) must be read. A wrapper with the file's
    own read() need not, such as Django's File.
    """
    if type(filelike) is tempfile._TemporaryFileWrapper:
        filelike = filelike.file  # a wrapper that keeps the file open while its methods are in use
    read = getattr(filelike, "read", None)
    file: Any = getattr(read, "__self__", None)
    if type(file) not in SYSTEM_FILES or read != file.read:
        return None
    return file if type(getattr(file, "raw", file)) is io.FileIO else None


class FileResponse(NamedTuple):
    """A response whose body the server sends from a file, without a worker."""

    head: bytes
    file: BinaryIO
    offset: int
    size: int  # octets to send
    close: Callable[[], None]  # of the iterable, called afterwards; the app's own runs in a worker

    @property
    def has_builtin_close(self) -> bool:
        """Whether `close` is a file's own, and no code of the app."""
        return type(getattr(self.close, "__self__", None)) in SYSTEM_FILES


Reply = Union[bytes, tuple[bytes, bytes], FileResponse, Iterator[bytes]]
# Returns status, fields and body of the response for an exception of the app; None: a 500 without details.
Explain = Callable[[Exchange, BaseException], Union[tuple[str, Headers, bytes], None]]


class Before:
    """A step of each exchange of a listener before the app."""

    __slots__ = ()
    # C does the same for a plain request (connections/lane/plain.py); no subclass of such a step may differ.
    is_done_in_c = False
    # The step keeps data in Connection.term: no other client may get the same Connection.
    keeps_term = False

    def before(self, exchange: Exchange) -> Reply | None:
        """Change the exchange, or return a reply in the app's place; on the app's thread."""
        raise NotImplementedError


class Gateway:
    __slots__ = ("_common_fields", "_name", "app", "before", "explain", "has_sendfile")

    def __init__(
        self,
        app: WSGIApp,
        common_fields: CommonFields,
        has_sendfile: bool,
        before: Sequence[Before] = (),
        explain: Explain | None = None,
    ) -> None:
        self.app = app
        self._name = _name_of(app)
        self._common_fields = common_fields
        self.has_sendfile = has_sendfile
        self.before = tuple(before)
        self.explain = explain

    def respond(self, exchange: Exchange) -> Reply:
        """Call the app, unless C has called the app (connections/lane/native.py), or an earlier step answers; return one of the forms listed
        above."""
        for step in self.before:
            reply = step.before(exchange)
            if reply is not None:
                return reply
        response: Response = exchange.response
        try:
            if type(response) is not BegunResponse:
                response = exchange.response = Response(exchange, self._common_fields)
                environ = build_environ(exchange)
                environ["wsgi.early_hints"] = response.early_hints
                iterable = self.app(environ, response.start_response)
            else:
                iterable, response.returned = (
                    response.returned,
                    None,
                )  # or an app that keeps start_response would be a cycle
            if forked:
                self._end_if_forked()
            if type(iterable) is list and not response.head_is_out:
                body = iterable[0] if len(iterable) == 1 else _join(iterable)
                if type(body) is bytes:
                    reply = response.complete(body)
                    # Either this thread sees the lock, or the thread that makes the lock sees the head out.
                    if response.sending_lock is not None and not response.join_senders():
                        raise _mixed_writes_error()
                    if reply is not None:
                        return reply
            elif type(iterable) is FileWrapper and self.has_sendfile and not response.head_is_out:
                file_reply = _file_response(response, iterable)
                if response.sending_lock is not None and not response.join_senders():
                    iterable.close()
                    raise _mixed_writes_error()
                if file_reply is not None:
                    return file_reply
        except WrittenOff:
            raise
        except BaseException as exc:  # SystemExit and the like end this request and nothing else
            return self.fail(exchange, response, exc)
        return self._stream(exchange, response, iterable)

    def fail(self, exchange: Exchange, response: Response, exc: BaseException) -> Iterator[bytes]:
        """Return the response for an app's exception."""
        if forked:
            self._end_if_forked(exc)
        return self._fail(exchange, response, exc)

    def _stream(self, exchange: Exchange, response: Response, iterable: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the response in pieces; close the iterable in any case."""
        is_over = False  # the response is whole, or the generator is closed because no more is needed
        sending = response.sending
        try:
            try:
                for chunk in iterable:
                    if forked:
                        self._end_if_forked()
                    with sending:
                        octets = response.encode(chunk)
                        if octets:
                            is_over = True
                            yield octets
                            is_over = False
                            octets = b""  # not kept while the app makes the next one
                    if response.is_full:
                        break
                if forked:
                    self._end_if_forked()
                with sending:
                    octets = response.finish()
                    is_over = True
                    if octets:
                        yield octets
            finally:
                close = getattr(iterable, "close", None)
                if close is not None:
                    close()
            if forked:
                self._end_if_forked()
        except WrittenOff:
            raise
        except BaseException as exc:
            if forked:
                self._end_if_forked(exc)
            if not is_over:
                fault = not_iterable(iterable) if type(exc) is TypeError else None
                yield from self._fail(exchange, response, fault or exc)
            elif not isinstance(exc, GeneratorExit):
                exchange.has_app_failed = True
                logger.error("%s raised %s in close()", self._name, type(exc).__name__, exc_info=exc)

    def _end_if_forked(self, exc: BaseException | None = None) -> None:
        """End this process if forked by the app."""
        end_if_forked(self._common_fields.forked_count, exc)

    def _fail(self, exchange: Exchange, response: Response, exc: BaseException) -> Iterator[bytes]:
        """Log the failure; yield a 500, or the refusal of the request's body. Raise if the head is out, to abort the connection."""
        websocket = exchange.websocket
        if websocket is not None and websocket.has_begun():
            self._log_websocket(exchange, exc)
            return
        refusal = exchange.body.refusal if exchange.body is not None else None
        if isinstance(exc, ClientDisconnected):
            if refusal is None or response.head_is_out:
                logger.info("the client left while %s served it: %s", self._name, exc)
                raise exc
            logger.info("a request body was refused while %s read it: %s", self._name, refusal)
        elif isinstance(exc, (AppError, ResponseTruncated)):
            exchange.has_app_failed = True
            log_failure(logger, "%s broke PEP 3333 at %s: %s", self._name, exchange.summary, exc, exc=exc)
        elif not isinstance(exc, RequestTimeout):  # logged by deadlines.py
            exchange.has_app_failed = True
            log_failure(logger, "%s raised %s at %s", self._name, type(exc).__name__, exchange.summary, exc=exc)
        explained = None
        if isinstance(exc, RequestTimeout):
            exchange.end = TIMED_OUT
        if refusal is not None:
            exchange.keep_alive = False  # the place of the next request is unknown
            exchange.end = TIMED_OUT if refusal.status == 504 else REFUSED
        elif isinstance(exc, RequestTimeout):
            refusal = app_too_late()
        else:
            refusal = RequestRefused(500, "the application failed; its log says why")
            explained = self.explain and self.explain(exchange, exc)
        with response.sending:
            if response.head_is_out:
                raise ResponseTruncated(str(exc)) from exc
            if explained:
                response.start_response(*explained[:2], (type(exc), exc, exc.__traceback__))  # type: ignore[arg-type]
                octets = response.complete(explained[2])
                assert octets is not None
                yield octets if isinstance(octets, bytes) else b"".join(octets)
                return
            response.replace(refusal.status)
            yield error_response(refusal.status, str(refusal), exchange, self._common_fields)

    def _log_websocket(self, exchange: Exchange, exc: BaseException) -> None:
        """Log the app's exception at the end of a WebSocket, unless meant as the end of the call on another server."""
        # engineio raises ConnectionError for Werkzeug's server, flask-sock StopIteration for gunicorn; others start no response.
        if not isinstance(exc, (ConnectionError, StopIteration, AppError)):
            exchange.has_app_failed = True
            logger.error("%s raised %s at %s", self._name, type(exc).__name__, exchange.summary, exc_info=exc)


def _name_of(app: object) -> str:
    name = getattr(app, "__qualname__", None) or type(app).__qualname__
    module = getattr(app, "__module__", None) or type(app).__module__
    return f"app {module}:{name}"


def _mixed_writes_error() -> AppError:
    """Return the error of a whole response mixed with writes of a second thread: the owner of each octet is unknown."""
    return AppError("write() was called in another thread while the app returned; the response is cut")


def _join(chunks: list[bytes]) -> bytes | None:
    """Return the chunks as one body; None: not all are bytes (`encode` raises the error)."""
    for chunk in chunks:
        if type(chunk) is not bytes:
            return None
    return b"".join(chunks)


def _file_response(response: Response, wrapper: FileWrapper) -> FileResponse | None:
    extent = wrapper.extent()
    if extent is None:
        return None
    file, offset, size = extent
    head, count = response.build_file_head(size)
    if count < 0:
        return None  # shorter than declared: streaming sends the octets, and aborts
    close = wrapper.close if "close" in vars(wrapper) else getattr(wrapper.filelike, "close", None)
    if getattr(close, "__self__", None) is file:  # the file's own: no code of the app runs
        return FileResponse(head, file, offset, count, file.close)
    # Another job closes the file, when the client has all of it: in this request's context (contextvars).
    return FileResponse(head, file, offset, count, functools.partial(contextvars.copy_context().run, wrapper.close))
