"""A response that C has begun (connections/lane/native.py), and Python goes on with.

Owns:     BegunResponse, which takes over C's state of the response; Rest, the rest of the iterable that the app returned.
Thread:   a worker; `adopt` also on the event loop, before any other code has the response.
Spec:     PEP 3333.
Not here: C's part (native/stream.c), the other methods (response.py), sending both (gateway.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .response import Response


class BegunResponse(Response):
    """A response that an app has begun in C."""

    __slots__ = ("returned", "unsent")

    returned: Any  # by the app
    unsent: bytes  # octets given to the socket that it has not taken

    def adopt(self, head: bytes, code: int, length: int, sent_bytes: int, is_full: bool) -> None:
        """
        Take over the arguments of start_response, which C has checked (native/head.c).

        `length`: -1 without Content-Length. `sent_bytes`: octets of the body that are out; -1: not even the head is.
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
        """See Response.encode; unsent octets come first."""
        octets = super().encode(chunk)
        if self.unsent:
            octets, self.unsent = self.unsent + octets, b""
        return octets

    def finish(self) -> bytes:
        """See Response.finish."""
        return b"" if self.is_full else super().finish()


class Rest:
    """The rest of an iterable of which C has begun to send pieces."""

    __slots__ = ("_exc", "_is_closed", "_iterable", "_iterator", "_taken")

    def __init__(
        self, iterable: Iterable[bytes], iterator: Iterator[bytes] | None, taken: tuple[Any, ...],
        exc: BaseException | None, is_closed: bool,
    ) -> None:  # fmt: skip
        """`iterator`: None if it has ended. `taken`: its items that are not sent. `exc`: raised by it, or by close()."""
        self._iterable, self._iterator = iterable, iterator
        self._taken = list(taken)
        self._exc, self._is_closed = exc, is_closed

    def __iter__(self) -> Iterator[bytes]:
        if self._iterator is None and not self._is_closed:
            self._raise()  # from its own __iter__: a StopIteration from there is no end
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
        """Close the iterable, unless C has closed it; then raise what that close() raised."""
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
