"""A response begun in C (connections/lane/native.py), and continued by Python.

Owns:     BegunResponse, which takes over C's state of the response; Rest, the rest of the app's iterable.
Thread:   a worker; `adopt` also on the event loop, before any other code has the response.
Spec:     PEP 3333.
Not here: C's part (native/stream.c), the other methods (response.py), sending both (gateway.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .response import Response
from .returned import close


class BegunResponse(Response):
    __slots__ = ("returned", "unsent")

    returned: Any  # by the app
    unsent: bytes  # octets given to the socket, and not taken

    def adopt(self, head: bytes, code: int, length: int, sent_bytes: int, is_full: bool) -> None:
        """
        Take over the arguments of start_response, checked in C (native/head.c).

        `length`: -1 without Content-Length. `sent_bytes`: octets of the body sent; -1: not even the head is out.
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
    """The rest of an iterable after the first pieces were sent in C."""

    __slots__ = ("_exc", "_is_closed", "_iterable", "_iterator", "_taken")

    def __init__(
        self, iterable: Iterable[bytes], iterator: Iterator[bytes] | None, taken: tuple[Any, ...],
        exc: BaseException | None, is_closed: bool,
    ) -> None:  # fmt: skip
        """`iterator`: None after the end. `taken`: items not yet sent. `exc`: raised by the iterator, or by close()."""
        self._iterable, self._iterator = iterable, iterator
        self._taken = list(taken)
        self._exc, self._is_closed = exc, is_closed

    def __iter__(self) -> Iterator[bytes]:
        if self._iterator is None and not self._is_closed:
            self._raise()  # from the iterator's own __iter__: a StopIteration from there is no end
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
        """Close the iterable, unless closed in C; then raise the exception of that close()."""
        if self._is_closed:
            self._raise()
            return
        close(self._iterable)

    def _raise(self) -> None:
        exc, self._exc = self._exc, None
        try:
            if exc is not None:
                raise exc
        finally:
            del exc  # or the traceback would be a cycle
