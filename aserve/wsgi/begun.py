"""A response that C has begun (connections/native.py), from the moment it is Python's.

Owns:     BegunResponse, what C has made and sent of it; Rest, what is left of the iterable that the app has returned.
Thread:   a worker; `adopt` also on the event loop, before anybody else knows of the response.
Spec:     PEP 3333.
Not here: what C does (native/stream.c), the rest of a response (response.py), what is done with both (gateway.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .response import Response


class BegunResponse(Response):
    """A response that an app has begun in C."""

    __slots__ = ("returned", "unsent")

    returned: Any  # by the app
    unsent: bytes  # what the socket has not taken of what is out

    def adopt(self, head: bytes, code: int, length: int, sent_bytes: int, is_full: bool) -> None:
        """
        Go on with what start_response was given, which C has checked (native/head.c).

        `length`: -1 if it was not given. `sent_bytes`: of the body, those that are out; -1: the head is not out, either.
        `is_full`: all of the response is out.
        """
        self._head, self.code, self._length = head, code, length
        self._has_no_body = self._exchange.is_head
        self._tail = self._common_fields.octets
        if sent_bytes < 0:
            return
        self.head_is_out, self.is_full, self.sent_bytes = True, is_full, sent_bytes
        if length < 0 and not self._has_no_body:
            self._is_chunked = self._exchange.form.may_chunk

    def encode(self, chunk: bytes) -> bytes:
        """See Response.encode; what was not sent comes before it."""
        octets = super().encode(chunk)
        if self.unsent:
            octets, self.unsent = self.unsent + octets, b""
        return octets

    def finish(self) -> bytes:
        """See Response.finish."""
        return b"" if self.is_full else super().finish()


class Rest:
    """What is left of an iterable of which C has begun to send pieces."""

    __slots__ = ("_exc", "_is_closed", "_iterable", "_iterator", "_taken")

    def __init__(
        self, iterable: Iterable[bytes], iterator: Iterator[bytes] | None, taken: tuple[Any, ...],
        exc: BaseException | None, is_closed: bool,
    ) -> None:  # fmt: skip
        """`iterator`: None: it has ended. `taken`: of it, and not sent. `exc`: what it, or the close, has raised."""
        self._iterable, self._iterator = iterable, iterator
        self._taken = list(taken)
        self._exc, self._is_closed = exc, is_closed

    def __iter__(self) -> Iterator[bytes]:
        if self._iterator is None and not self._is_closed:
            self._raise()  # its own __iter__ did: a StopIteration from there is no end
        return self

    def __next__(self) -> bytes:
        if self._taken:
            return self._taken.pop()  # type: ignore[no-any-return]
        if not self._is_closed:
            self._raise()
        if self._iterator is None:
            raise StopIteration
        return next(self._iterator)

    def close(self) -> None:
        """Close the iterable, unless C has; then raise what came of that."""
        if self._is_closed:
            self._raise()
            return
        close = getattr(self._iterable, "close", None)
        if close is not None:
            close()

    def _raise(self) -> None:
        exc, self._exc = self._exc, None
        try:
            if exc is not None:
                raise exc
        finally:
            del exc  # or its traceback would be a cycle
