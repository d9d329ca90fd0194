"""Chunked bodies: decoded in C with the same limits for both parsers of heads.

Owns:     Chunks, and the memory for decoding.
Thread:   event loop only.
Spec:     RFC 9112 section 7.1.
Not here: the grammar (cparsers/chunked.c), keeping the content (core/body.py).
"""

from __future__ import annotations

from typing import Any

from .._cparsers import ffi, lib
from .base import Limits, body_too_large, refusal

# Guess: far more than any honest chunk extension or trailer section; hardly any client uses either.
MAX_EXTENSION_BYTES = 256
MAX_TRAILER_BYTES = 8192
# Octets of a chunked body decoded by one call; the size of the memory.
_DECODE_BYTES = 65536

# By offset, not by pointer: PyPy makes a copy for ffi.from_buffer(bytes), freed by a collector without knowledge of the copy's size. Measured
# 2026-11-21: 400 octets a request, without end.
_decode_at = lib.http1_decode_chunked_at


class Chunks:
    """Decodes the chunked bodies of all connections of one event loop, in common memory."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._decoded = ffi.new("char[]", _DECODE_BYTES)
        self._view = ffi.buffer(self._decoded, _DECODE_BYTES)

    def begin(self) -> Any:
        """Return the state of a body's decoder; `done` says whether the body has ended."""
        return ffi.new("http1_chunked *", (MAX_EXTENSION_BYTES, MAX_TRAILER_BYTES))

    def decode(self, state: Any, data: bytes, position: int, body: Any) -> int:
        """
        Decode octets from `position` on into the body; return the number consumed.

        Raises:
            RequestRefused: the octets are malformed, or the body is over the limit.
        """
        consumed: int = _decode_at(state, data, position, min(len(data) - position, _DECODE_BYTES), self._decoded)
        if consumed < 0:
            raise refusal(consumed)
        produced = state.produced
        if produced:
            if body.length + produced > self._limits.max_body_bytes:
                raise body_too_large(self._limits)
            body.feed(self._view[:produced])
        return consumed
