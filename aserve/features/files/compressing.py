"""Responses in fewer octets: --compress.

Owns:     Compressing, a WSGI app in front of yours, which compresses the responses where that pays.
Thread:   a worker (with --threads 0: the event loop).
Spec:     RFC 9110 sections 8.4, 8.8.3.3 and 12.5.3; PEP 3333 "Buffering and Streaming".
Not here: the codings themselves (compressors.py), compressed siblings of files (static.py).

A response in pieces is flushed after each, for the client to read everything yielded by the app. If the first piece is the whole body, by the
Content-Length, the body is compressed as a whole, and the response has a length again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Callable

from ...core.errors import AppError
from ...wsgi import WSGIApp
from ...wsgi.returned import close, iterate
from .codings import ranked
from .compressors import Stream, find_codings
from .content_types import is_compressible
from .reply import Fields, StartResponse
from .settings import FileSettings

# Statuses whose responses have no body.
_KEPT_CODES = frozenset(("204", "205"))
# Fields of compressed content, or made wrong by compression (RFC 9530 and older ones).
_KEPT_FIELDS = frozenset(("content-encoding", "content-digest", "repr-digest", "digest", "content-md5"))


_STREAMS = find_codings()  # imports the libraries, before a file of the app's can hide one


class Compressing:
    """A WSGI app that compresses the responses of another app."""

    def __init__(self, app: WSGIApp, config: FileSettings) -> None:
        self._app = app
        self.min_bytes = config.compress_min_bytes
        self._codings = tuple(_STREAMS)

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answer as the app does, compressed if the client accepts a coding and the content is compressible."""
        answer = _Answer(self, environ, start_response)
        iterable = self._app(environ, answer.start)
        if answer.is_plain:
            return iterable
        if type(iterable) is list and answer.is_started and not answer.is_out:
            return answer.whole_list(iterable)
        return _Compressed(answer, iterable)

    def choose(self, environ: dict[str, Any]) -> str:
        """Return the coding for a request; "": none."""
        found = ranked(environ.get("HTTP_ACCEPT_ENCODING", ""), self._codings)
        return found[0] if found else ""

    def new_stream(self, coding: str) -> Stream:
        """Return a new stream of this coding."""
        return _STREAMS[coding]()


class _Answer:
    """One response, from the app's start_response to the server's."""

    def __init__(self, compressing: Compressing, environ: dict[str, Any], start_response: StartResponse) -> None:
        self._compressing = compressing
        self._environ = environ
        self._start_response = start_response
        self._status = ""
        self._fields: Fields = []
        self._length: int | None = None  # as declared by the app
        self._coding = ""
        self._stream: Stream | None = None
        self._write: Callable[[bytes], Any] | None = None  # the server's
        self.is_plain = False  # the body is sent uncompressed
        self.is_out = False  # the server's start_response has been called

    @property
    def is_started(self) -> bool:
        """Whether the app has called start_response."""
        return self.is_out or bool(self._status)

    # Starting

    def start(self, status: str, fields: Fields, exc_info: Any = None) -> Callable[[bytes], Any]:
        """Take the place of start_response: decide, and call the server's at once if the response is not compressed."""
        if self.is_out:  # the server knows whether this is too late
            return self._start_response(status, fields, exc_info)  # type: ignore[no-any-return]
        if self._status and exc_info is None:
            raise AppError("start_response was called a second time without exc_info")
        try:
            said = {name.lower(): value for name, value in fields}
            self._look(status, fields, said)
        except (TypeError, ValueError, AttributeError):
            self._fields, self.is_plain = fields, True  # the server reports the error in them
        self._status = status
        if self.is_plain:
            return self._call_start(self._fields)
        return self.write

    def _look(self, status: str, fields: Fields, said: dict[str, str]) -> None:
        """Decide whether to compress a response with these fields."""
        self._fields, code = fields, status[:3]
        length = said.get("content-length", "")
        self._length = int(length) if length.isdecimal() else None
        self.is_plain = True
        if code == "304":
            tag = said.get("etag", "")
            if tag[:1] == '"' and f"W/{tag}" in self._environ.get("HTTP_IF_NONE_MATCH", ""):
                # The client has the compressed response, whose tag is weak; RFC 9110 15.4.5: the fields of the 200.
                self._fields = _with_vary(_weakened(fields))
            return
        if not is_compressible(said.get("content-type", "")):
            return
        if code == "206":  # RFC 9110 15.3.7: the Vary of the 200
            self._fields = _with_vary(fields)
            return
        if (
            code in _KEPT_CODES
            or not _KEPT_FIELDS.isdisjoint(said)
            or "no-transform" in said.get("cache-control", "").lower()
            or (self._length is not None and self._length < self._compressing.min_bytes)
        ):
            return
        self._fields = _with_vary(fields)
        self._coding = self._compressing.choose(self._environ)
        self.is_plain = not self._coding

    def _call_start(self, fields: Fields) -> Callable[[bytes], Any]:
        self.is_out = True
        write: Callable[[bytes], Any] = self._start_response(self._status, fields)
        self._write = write
        return write

    def _start_compressed(self, size: int | None) -> None:
        """Start a response whose compressed body has `size` octets; None: not known."""
        kept = [
            (name, value) for name, value in self._fields if name.lower() not in ("content-length", "accept-ranges")
        ]
        kept.append(("Content-Encoding", self._coding))
        if size is not None:
            kept.append(("Content-Length", str(size)))
        self._call_start(_weakened(kept))

    # The body

    def whole_list(self, chunks: list[bytes]) -> list[bytes]:
        """Start a response whose body is complete; return the body to send."""
        try:
            body = b"".join(chunks)
        except TypeError:  # not all are bytes: the server reports the fault
            self._call_start(self._fields)
            return chunks
        if body:
            return [self.start_whole(body)]
        self.start_empty()
        return []

    def start_whole(self, body: bytes) -> bytes:
        """Start a response with this whole body; return the body to send. Later pieces are sent uncompressed."""
        self.is_plain = True
        is_right = self._length is None or self._length == len(body)  # otherwise the server reports the fault
        if is_right and len(body) >= self._compressing.min_bytes:
            stream = self._compressing.new_stream(self._coding)
            octets = stream.compress(body) + stream.finish()
            if len(octets) < len(body):
                self._start_compressed(len(octets))
                return octets
        self._call_start(self._fields)
        return body

    def start_empty(self) -> None:
        """Start a response without a body; one to HEAD has the fields of one to GET."""
        self.is_plain = True
        if self._length and self._environ["REQUEST_METHOD"] == "HEAD":
            self._start_compressed(None)
        else:
            self._call_start(self._fields)

    def write(self, octets: bytes) -> None:
        """Take the place of write(): on the return, the client can read all octets given."""
        octets = self.piece(octets)
        if self._write is not None:  # an empty piece has not started the response
            self._write(octets)

    def piece(self, octets: bytes) -> bytes:
        """Return the octets to send for a piece of the body; the first piece starts the response."""
        if self.is_plain or not octets or not self.is_started:
            return octets
        if type(octets) is not bytes:  # the server says so
            if not self.is_out:
                self._call_start(self._fields)
            return octets
        if self._stream is None:
            if self._length == len(octets):
                return self.start_whole(octets)
            self._stream = self._compressing.new_stream(self._coding)
            self._start_compressed(None)
        return self._stream.compress(octets) + self._stream.flush()

    def finish(self) -> bytes:
        """Return the octets at the end of the body."""
        if self._stream is not None:
            stream, self._stream, self.is_plain = self._stream, None, True
            return stream.finish()
        if self.is_started and not self.is_out:
            self.start_empty()
        return b""


class _Compressed:
    """The app's iterable, with each piece compressed."""

    def __init__(self, answer: _Answer, iterable: Iterable[bytes]) -> None:
        self._answer = answer
        self._iterable = iterable

    def __iter__(self) -> Iterator[bytes]:
        for octets in iterate(self._iterable):
            yield self._answer.piece(octets)
        octets = self._answer.finish()
        if octets:
            yield octets

    def close(self) -> None:
        """Close the app's iterable."""
        close(self._iterable)


def _weakened(fields: Fields) -> Fields:
    """Return the fields with a weak tag: compression changes the octets, not the content (RFC 9110 8.8.3.3)."""
    return [(name, f"W/{value}" if name.lower() == "etag" and value[:1] == '"' else value) for name, value in fields]


def _with_vary(fields: Fields) -> Fields:
    """Return the fields with Accept-Encoding in Vary, for caches (RFC 9110 12.5.5)."""
    for place, (name, value) in enumerate(fields):
        if name.lower() == "vary":
            names = [part.strip().lower() for part in value.split(",")]
            if "*" in names or "accept-encoding" in names:
                return fields
            return [*fields[:place], (name, f"{value}, Accept-Encoding"), *fields[place + 1 :]]
    return [*fields, ("Vary", "Accept-Encoding")]
