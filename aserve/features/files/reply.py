"""Answers a request with a file.

Owns:     the response: whole, in parts, not modified, or refused by a condition.
Thread:   a worker (with --threads 0: the event loop).
Spec:     RFC 9110 sections 13 to 15; PEP 3333 "Optional Platform-Specific File Handling".
Not here: finding the file (opening.py, static.py), sending it (wsgi/gateway.py, connections/loop/sending.py).

Written as a WSGI app: a large file is returned in wsgi.file_wrapper, and the server sends the file while the worker is free. A small file is read
here, since a response of octets can be sent on the fast path.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from typing import Any, Callable

from .conditions import NOT_MODIFIED, PASSED, Validators, evaluate, may_be_partial
from .ranges import Multipart, Part, content_range, multipart, parse_range

Fields = list[tuple[str, str]]
StartResponse = Callable[..., Any]

# Up to this size a file is read, and sent in one write. Guess: most of a page's files are smaller, and a copy of 64 KiB costs less than a hand-off
# to the event loop.
SMALL_BYTES = 1 << 16
PIECE_BYTES = 1 << 16  # how much of a part is read at once
PLAIN_TEXT = ("Content-Type", "text/plain; charset=utf-8")


def send_file(
    environ: dict[str, Any], start_response: StartResponse, fd: int, size: int, validators: Validators, fields: Fields
) -> Iterable[bytes]:
    """
    Answer a GET or HEAD with a file; take over the file's descriptor.

    `fields`: of the response, beside those made here: ETag, Last-Modified, Accept-Ranges, Content-Length and Content-Range.
    """
    file = io.FileIO(fd, "rb")
    try:
        body = _answer(environ, start_response, file, size, validators, fields)
    except BaseException:
        file.close()
        raise
    if type(body) is list:
        file.close()
    return body


def _answer(
    environ: dict[str, Any],
    start_response: StartResponse,
    file: io.FileIO,
    size: int,
    validators: Validators,
    fields: Fields,
) -> Iterable[bytes]:
    etag, last_modified = validators.etag, validators.last_modified
    tags = [("ETag", etag)] if etag else []
    code = evaluate(environ, validators)
    if code == NOT_MODIFIED:
        # RFC 9110 15.4.5: the client already has the fields about the content.
        kept = [(name, value) for name, value in fields if not name.lower().startswith("content-")]
        start_response("304 Not Modified", [*kept, *tags])
        return []
    if code != PASSED:
        return refuse(start_response, "412 Precondition Failed", "the file is not what the request expects")
    if last_modified:
        tags.append(("Last-Modified", last_modified))
    fields = [*fields, *tags, ("Accept-Ranges", "bytes")]
    is_head = environ["REQUEST_METHOD"] == "HEAD"
    asked = environ.get("HTTP_RANGE")
    # RFC 9110 14.2: Range is for GET only.
    parts = parse_range(asked, size) if asked and not is_head and may_be_partial(environ, validators) else None
    if parts is None:
        start_response("200 OK", [*fields, ("Content-Length", str(size))])
        return [] if is_head else _octets(environ, file, Part(0, size))
    if not parts:
        text = f"the file has {size} octets"
        return refuse(start_response, "416 Range Not Satisfiable", text, [("Content-Range", f"bytes */{size}")])
    if len(parts) == 1:
        only = parts[0]
        more = [("Content-Range", content_range(only, size)), ("Content-Length", str(only.size))]
        start_response("206 Partial Content", [*fields, *more])
        return _octets(environ, file, only)
    kind = next((value for name, value in fields if name.lower() == "content-type"), "")
    frame = multipart(parts, size, kind)
    fields = [(name, value) for name, value in fields if name.lower() != "content-type"]
    more = [("Content-Type", frame.content_type), ("Content-Length", str(frame.length))]
    start_response("206 Partial Content", [*fields, *more])
    body = PartsBody(file, parts, frame)
    return [b"".join(body)] if frame.length <= SMALL_BYTES else body


def send_whole(
    environ: dict[str, Any], start_response: StartResponse, fd: int, size: int, status: str, fields: Fields
) -> Iterable[bytes]:
    """Answer with a whole file, and ignore the request's conditions and ranges; take over the descriptor."""
    file = io.FileIO(fd, "rb")
    try:
        start_response(status, [*fields, ("Content-Length", str(size))])
    except BaseException:
        file.close()
        raise
    body: Iterable[bytes] = environ["wsgi.file_wrapper"](file)
    return body


def refuse(start_response: StartResponse, status: str, why: str, fields: Fields | None = None) -> list[bytes]:
    """Answer with an error and a reason."""
    start_response(status, [PLAIN_TEXT, *(fields or [])])
    return [f"{status[:3]}: {why}\n".encode()]


def _octets(environ: dict[str, Any], file: io.FileIO, part: Part) -> Iterable[bytes]:
    """Return octets of a file, or an iterable for the server."""
    if part.size <= SMALL_BYTES:
        return [os.pread(file.fileno(), part.size, part.offset)]
    file.seek(part.offset)
    body: Iterable[bytes] = environ["wsgi.file_wrapper"](file)
    return body


class PartsBody:
    """A body of several parts of a file; if the file has become shorter, so has the body, and the client sees a truncated response."""

    def __init__(self, file: io.FileIO, parts: list[Part], frame: Multipart) -> None:
        self._file = file
        self._parts = parts
        self._frame = frame

    def __iter__(self) -> Iterator[bytes]:
        for head, (offset, count) in zip(self._frame.heads, self._parts):
            yield head
            while count:
                octets = os.pread(self._file.fileno(), min(count, PIECE_BYTES), offset)
                if not octets:
                    return
                yield octets
                offset, count = offset + len(octets), count - len(octets)
        yield self._frame.tail

    def close(self) -> None:
        """Close the file."""
        self._file.close()
