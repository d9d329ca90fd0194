"""HPACK in C (cparsers/hpack.h), without the frames around it."""

import struct
from collections.abc import Iterable

from aserve._cparsers import ffi, lib

Field = tuple[bytes, bytes]

_FIELD = struct.Struct("=4IB3x")  # hpack_field
_new = ffi.new_allocator(should_clear_after_alloc=False)


class FieldSectionError(Exception):
    """A client's field block that cannot be decoded; its connection has to end."""


class FieldSectionTooLarge(FieldSectionError):
    """A field section over the limit."""


class Decoder:
    """The decoder of one connection."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes  # RFC 9113 6.5.2: 32 for a field, and its octets
        self._table = ffi.new("hpack_table *")
        lib.hpack_begin(self._table)

    def decode(self, block: bytes) -> list[Field]:
        """
        Decode the whole field block of a section.

        Raises:
            FieldSectionTooLarge: the section is over the limit.
            FieldSectionError: the block is malformed.
        """
        text = _new("char[]", self._max_bytes)
        fields = _new("hpack_field[]", self._max_bytes // lib.HPACK_OVERHEAD)
        count = lib.hpack_decode(self._table, block, len(block), fields, text, self._max_bytes)
        if count < 0:
            raise FieldSectionTooLarge if count == lib.HPACK_TOO_LARGE else FieldSectionError
        spans = [*_FIELD.iter_unpack(ffi.buffer(fields, count * _FIELD.size))]
        octets = ffi.buffer(text, spans[-1][2] + spans[-1][3])[:] if spans else b""
        return [
            (octets[name : name + name_len], octets[value : value + value_len])
            for name, name_len, value, value_len, _ in spans
        ]


class Encoder:
    """The encoder of one connection."""

    def __init__(self) -> None:
        self._encoder = ffi.new("hpack_encoder *")
        lib.hpack_encoder_begin(self._encoder)

    def resize(self, max_bytes: int) -> None:
        """Obey the client's SETTINGS_HEADER_TABLE_SIZE."""
        lib.hpack_encoder_resize(self._encoder, max_bytes)

    def encode(self, fields: Iterable[Field]) -> bytes:
        """Encode a section; names are in lower case."""
        text: list[bytes] = []
        spans, at = bytearray(), 0
        for name, value in fields:
            text += name, value
            spans += _FIELD.pack(at, len(name), at + len(name), len(value), 0)
            at += len(name) + len(value)
        count = len(spans) // _FIELD.size
        to = _new("char[]", at + count * lib.HPACK_FIELD_ROOM + lib.HPACK_UPDATES_ROOM)
        array = _new("hpack_field[]", count)
        ffi.buffer(array)[:] = bytes(spans)
        size = lib.hpack_encode(self._encoder, b"".join(text), array, count, to)
        return bytes(ffi.buffer(to, size))
