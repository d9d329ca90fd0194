"""The functions of the module `uwsgi` about the request that the caller serves.

Owns:     REQUEST, by their names; `remembering`, the app layer by which they find the request.
Thread:   the one that runs the app.
Spec:     uWSGI 2.0.30, "The uWSGI API - Python".
Not here: WebSockets (websocket.py), limits of time (harakiri.py).

The layer keeps nothing: the functions look for its call among the callers of the app. So they work while the app's call runs, and not in an
iterable that it has returned, as then the call is over.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Callable

from ...core.exchange import Exchange
from ...wsgi import WSGIApp
from ...wsgi.gateway import Before, FileWrapper
from ...wsgi.wrapping import named_as
from .texts import Text, octets_of

PIECE_BYTES = 65536
# Keys in the environ.
LOG_VARIABLES = "uwsgi.logvars"  # and with a dot and its name a variable that the access log finds as %(logvar.NAME)
FILE = "uwsgi.sendfile"

_code: Any = None  # of the layer
_here = threading.local()


class LoggedVariables(Before):
    """Lets the access log have what `set_logvar` is told."""

    __slots__ = ()

    def before(self, exchange: Exchange) -> None:
        """See Before; the exchange is the one of this thread from here on."""
        _here.exchange = exchange


def remembering(app: WSGIApp) -> WSGIApp:
    """Return an app that calls `app`, and by which `environ_here` finds its request."""

    def remembered(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        found = app(environ, start_response)
        return found if FILE not in environ else _with_file(environ.pop(FILE), found)

    global _code
    _code = remembered.__code__
    return named_as(remembered, app)


def _with_file(file: Iterable[bytes], found: Iterable[bytes]) -> Iterable[bytes]:
    """Return the response of an app that has called `sendfile`: the file, and behind it what the app returned, if that is anything."""
    if found is file or not found or found == [b""]:
        close = getattr(found, "close", None)
        if found is not file and close is not None:
            close()
        return file
    return _both(file, found)


def _both(*parts: Iterable[bytes]) -> Iterator[bytes]:
    try:
        for part in parts:
            yield from part
    finally:
        for part in parts:
            close = getattr(part, "close", None)
            if close is not None:
                close()


def environ_here(frame: Any = None) -> dict[str, Any] | None:
    """Return the environ of the request that this thread, or the one of a frame, serves; None: it serves none."""
    frame = frame if frame is not None else sys._getframe(1)
    while frame is not None:
        if frame.f_code is _code:
            return frame.f_locals["environ"]  # type: ignore[no-any-return]
        frame = frame.f_back
    return None


def environ_for(name: str) -> dict[str, Any]:
    """
    Return the environ of the request that this thread serves.

    Raises:
        RuntimeError: it serves none.
    """
    environ = environ_here()
    if environ is None:
        raise RuntimeError(
            f"uwsgi.{name}: there is no request here: call it before the app returns, and import uwsgi where the app is imported"
        )
    return environ


def sendfile(file: str | int | BinaryIO, chunk: int = 0, start: int = 0, size: int = 0) -> Iterable[bytes]:
    """
    Let the response be a file, by its path, descriptor or object; `size`: octets from `start` on, 0: all of them.

    The app returns the result, or nothing, as in uWSGI: `uwsgi.sendfile(path); return []`.

    Raises:
        OSError: it cannot be opened.
    """
    opened: Any = file
    if isinstance(file, int):
        opened = os.fdopen(os.dup(file), "rb")
    elif not hasattr(file, "read"):
        opened = open(file, "rb")
    if start:
        opened.seek(start)
    sent: Iterable[bytes] = FileWrapper(opened, chunk or PIECE_BYTES) if not size else _pieces(opened, size)
    environ = environ_here()
    if environ is not None:
        environ[FILE] = sent
    return sent


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    with file:
        while size > 0:
            piece = file.read(min(size, PIECE_BYTES))
            if not piece:
                return
            size -= len(piece)
            yield piece


def offload(file: str, size: int = 0) -> Iterable[bytes]:
    """Do the same as `sendfile`: files are sent without a thread in any case."""
    return sendfile(file, size=size)


def chunked_read(timeout: int = 0) -> bytes:
    """
    Return the next octets of the request's body; b"": all of it is read.

    Raises:
        RuntimeError: there is no request here.
        OSError: the client has left.
    """
    body = environ_for("chunked_read")["wsgi.input"]
    # A live body has no read1, and its read waits for all that is asked for: a line comes as soon as it is whole.
    return (getattr(body, "read1", None) or body.readline)(PIECE_BYTES)  # type: ignore[no-any-return]


def chunked_read_nb() -> bytes | None:
    """
    Do the same as `chunked_read`: a buffered body is there as a whole. None: all of it is read.

    Raises:
        RuntimeError: there is no request here.
        OSError: the client has left.
    """
    return chunked_read() or None


def cl() -> int:
    """
    Return the length of the request's body.

    Raises:
        RuntimeError: there is no request here.
    """
    return int(environ_for("cl").get("CONTENT_LENGTH") or 0)


def add_var(name: Text, value: Text) -> bool:
    """
    Add a variable to the request's environ.

    Raises:
        RuntimeError: there is no request here.
    """
    environ_for("add_var")[_text(name)] = _text(value)
    return True


def set_logvar(name: Text, value: Text) -> None:
    """
    Keep a value with the request, for `get_logvar`; outside of a request do nothing.

    The access log shows it if its format has this name.
    """
    environ = environ_here()
    if environ is None:
        return
    environ.setdefault(LOG_VARIABLES, {})[octets_of(name)] = octets_of(value)
    exchange = getattr(_here, "exchange", None)
    if exchange is not None:
        pair = (f"{LOG_VARIABLES}.{octets_of(name).decode('latin-1')}", octets_of(value).decode("latin-1"))
        exchange.vars = "\0".join([exchange.vars, *(text.replace("\0", "") for text in pair)])


def get_logvar(name: Text) -> bytes | None:
    """Return a value of `set_logvar`; None: the request has none of this name."""
    environ = environ_here()
    return None if environ is None else environ.get(LOG_VARIABLES, {}).get(octets_of(name))


def log_this_request() -> None:
    """Do nothing: the access log has every request."""


def _text(value: Text) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")


REQUEST: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        sendfile, offload, chunked_read, chunked_read_nb, cl, add_var, set_logvar, get_logvar, log_this_request,
    )
}  # fmt: skip
