"""RPC packets: the octets of calls, and of replies.

Owns:     encoding calls and replies, decoding replies.
Thread:   any; pure.
Spec:     uwsgi-docs Protocol.rst, modifier1 173; where silent, uWSGI 2.0.30's behaviour.
Not here: parsing calls (protocols/uwsgi.py).
"""

from __future__ import annotations

import struct
from collections.abc import Generator

from .errors import MalformedReply, PacketTooLarge, ResultTooLarge, TooManyArguments

RPC = 173  # modifier1
# modifier2 of a request: the form of the reply; for other values, raw octets.
FRAMED, HTTP = 0, 2
LONG_RESULT = 5  # modifier2 of a reply: vars with CONTENT_LENGTH, then the result
MAX_NAME_BYTES = 255
MAX_ARGUMENTS = 254
MAX_SIZE = 65535  # of a packet, and of everything with a u16 length
_HEAD = struct.Struct("<BHB")  # modifier1, datasize, modifier2


def encode_call(name: str | bytes, arguments: tuple[str | bytes, ...]) -> bytes:
    """
    Return the packet that calls a function.

    Raises:
        PacketTooLarge: the packet would have more than 65,535 octets, or the name more than 255.
        TooManyArguments: there are more than 254.
        TypeError: the name or an argument is neither bytes nor text.
    """
    items = [to_octets(item) for item in (name, *arguments)]
    if len(arguments) > MAX_ARGUMENTS:
        raise TooManyArguments(
            f"{show_name(name)} was given {len(arguments)} arguments; a packet takes {MAX_ARGUMENTS}"
        )
    if not 0 < len(items[0]) <= MAX_NAME_BYTES:
        raise PacketTooLarge(f"a function's name has 1 to {MAX_NAME_BYTES} octets, not {len(items[0])}")
    size = sum(map(len, items)) + 2 * len(items)
    if size > MAX_SIZE:
        raise PacketTooLarge(f"the call of {show_name(name)} has {size} octets; a packet takes {MAX_SIZE}")
    return _HEAD.pack(RPC, size, FRAMED) + _encode_items(items)


def to_octets(item: str | bytes) -> bytes:
    """
    Return the octets of an item; text is UTF-8.

    Raises:
        TypeError: the item is neither bytes nor text.
    """
    if isinstance(item, str):
        return item.encode()
    if not isinstance(item, (bytes, bytearray, memoryview)):
        raise TypeError(f"RPC takes bytes or text, not {type(item).__name__}: {item!r:.60}")
    return bytes(item)


def _encode_items(items: list[bytes]) -> bytes:
    return b"".join([part for item in items for part in (len(item).to_bytes(2, "little"), item)])


def show_name(name: str | bytes) -> str:
    """Return a function's name for a message."""
    return repr(name if isinstance(name, str) else name.decode("latin-1"))[:80]


def decode_reply(max_result_bytes: int) -> Generator[int, bytes, bytes]:
    """
    Decode a reply: yield the number of octets to send in next, until it is complete; return the result.

    Raises:
        MalformedReply: this is not a reply.
        ResultTooLarge: the result has more than `max_result_bytes`.
    """
    head = yield _HEAD.size
    modifier1, length, modifier2 = _HEAD.unpack(head)
    if modifier1 != RPC or modifier2 not in (FRAMED, LONG_RESULT):
        raise MalformedReply(f"{head!r} begins no RPC reply{' but an HTTP response' if head == b'HTTP' else ''}")
    if modifier2 == LONG_RESULT:
        length = _decode_length((yield length) if length else b"")
    if length > max_result_bytes:
        raise ResultTooLarge(f"the result has {length} octets, more than the {max_result_bytes} allowed")
    return (yield length) if length else b""


def _decode_length(data: bytes) -> int:
    """Return the CONTENT_LENGTH in a long reply's vars."""
    items, position = [], 0
    while position < len(data):
        end = position + 2 + int.from_bytes(data[position : position + 2], "little")
        items.append(data[position + 2 : end])
        position = end
    if position != len(data) or len(items) % 2:
        raise MalformedReply(f"the vars of the reply overrun it: {data!r:.80}")
    value = dict(zip(items[::2], items[1::2])).get(b"CONTENT_LENGTH", b"")
    if not value.isdigit() or len(value) > 18:
        raise MalformedReply(f"the vars of the reply have no CONTENT_LENGTH: {data!r:.80}")
    return int(value)


def encode_reply(result: bytes) -> bytes:
    """Return a result as a packet, in the long form if the length does not fit into a header."""
    if len(result) <= MAX_SIZE:
        return _HEAD.pack(RPC, len(result), FRAMED) + result
    length = _encode_items([b"CONTENT_LENGTH", b"%d" % len(result)])
    return b"".join((_HEAD.pack(RPC, len(length), LONG_RESULT), length, result))
