"""Frames of HTTP/2, in C: octets of a connection become events, and calls become octets.

Owns:     Frames, the state of a connection; FoundEvents, the memory of what one call finds; the names of events.
Thread:   one at a time, each.
Spec:     RFC 9113, 7541, 8441, 9218.
Not here: the rules themselves (cparsers/h2.h), what is done for an event (features/http2/session.py).
"""

from __future__ import annotations

import struct
from typing import Any

from .._cparsers import ffi, lib

# kind, stream, flags, number, octets; what they mean stands in h2.h
Event = tuple[int, int, int, int, bytes]

REQUEST: int = lib.H2_REQUEST
DATA: int = lib.H2_DATA
RESET: int = lib.H2_RESET
REFUSED: int = lib.H2_REFUSED
ROOM: int = lib.H2_ROOM
PRIORITY: int = lib.H2_PRIORITY
GOAWAY: int = lib.H2_GOAWAY
FAILED: int = lib.H2_FAILED
END_STREAM: int = lib.H2_END_STREAM
IS_HEAD: int = lib.H2_IS_HEAD
IS_UPGRADE: int = lib.H2_IS_UPGRADE
GONE: int = lib.H2_GONE
MALFORMED: int = lib.H2_MALFORMED
NO_ERROR: int = lib.H2_NO_ERROR
INTERNAL_ERROR: int = lib.H2_INTERNAL_ERROR
REFUSED_STREAM: int = lib.H2_REFUSED_STREAM
STREAM_WINDOW: int = lib.H2_STREAM_WINDOW
LAST_STREAM: int = lib.H2_LAST_STREAM
DEFAULT_URGENCY: int = lib.H2_URGENCY
FRAME_BYTES: int = lib.H2_FRAME_BYTES
FRAMES: int = lib.H2_FRAMES  # of one call
FIELD_OVERHEAD: int = lib.HPACK_OVERHEAD  # RFC 9113 6.5.2: what a field counts beside its octets

# Octets of the text of one call: as much as a transport reads at once.
_TEXT_BYTES = 1 << 18
_EVENT = struct.Struct("=6I")  # h2_event
_unpack_results = struct.Struct("=3I").unpack_from  # of h2_found


def section_bytes(max_head_bytes: int, max_fields: int) -> int:
    """Return the size of the largest field section: up to this the parser of HTTP/1.1 refuses a head, with 431; a larger one ends the connection."""
    return 2 * max_head_bytes + FIELD_OVERHEAD * max_fields


class FoundEvents:
    """The C memory that all connections of one event loop share: a call fills it, and Frames empties it at once."""

    def __init__(self, max_section_bytes: int) -> None:
        """`max_section_bytes`: of a field section, where each field counts FIELD_OVERHEAD beside its octets."""
        self.max_section_bytes = max_section_bytes
        text_cap = _TEXT_BYTES + max_section_bytes
        self.found = found = ffi.new("h2_found *")
        self._text, self._section = ffi.new("char[]", text_cap), ffi.new("char[]", max_section_bytes)
        self._fields = ffi.new("hpack_field[]", max_section_bytes // FIELD_OVERHEAD)
        found.max_frames = FRAMES
        found.text, found.text_cap, found.section, found.fields = self._text, text_cap, self._section, self._fields
        self._results, self._events = ffi.buffer(found), ffi.buffer(found.events)
        self._octets = ffi.buffer(self._text, text_cap)

    def take(self) -> tuple[list[Event], int]:
        """Return what the last call has found, and the number of frames."""
        count, frames, text_len = _unpack_results(self._results)
        text = self._octets[:text_len]
        return [
            (kind, stream_id, flags, number, text[at : at + size])
            for kind, stream_id, flags, number, at, size in _EVENT.iter_unpack(self._events[: count * _EVENT.size])
        ], frames


class Frames:
    """One connection."""

    __slots__ = ("_found", "connection")

    def __init__(self, found: FoundEvents, max_streams: int, takes_websockets: bool) -> None:
        self._found = found
        self.connection: Any = ffi.gc(ffi.new("h2_connection *"), lib.h2_end)
        limits = ffi.new("h2_limits *", (max_streams, found.max_section_bytes, takes_websockets))
        lib.h2_begin(self.connection, limits)

    def take_over(self, set: Any, number: int) -> tuple[list[Event], bytes, bool]:
        """
        Go on with a connection of the lane, with this number there.

        Return what has come and has not been acted upon, octets behind it, and whether the connection has been idle for a second.
        """
        lib.h2_end(self.connection)
        lib.lane_take_carrier(set, number, self.connection)
        remains, has_more = ffi.new("lane_remains *"), 1
        events: list[Event] = []
        while has_more:
            has_more = lib.lane_next_remains(set, number, remains)
            text = bytes(ffi.buffer(remains.text, remains.text_len)) if remains.count else b""
            events += (
                (each.kind, each.stream, each.flags, each.number, text[each.text.off : each.text.off + each.text.len])
                for each in remains.events[0 : remains.count]
            )
        left = bytes(ffi.buffer(remains.left, remains.left_len)) if remains.left_len else b""
        return events, left, bool(remains.is_idle)

    def receive(self, data: bytes, at: int) -> tuple[int, bool, list[Event]]:
        """Receive a portion of the octets from `at` on; return where to go on, whether it is a full one, and what has come."""
        end = lib.h2_receive(self.connection, data, at, len(data), self._found.found)
        events, frames = self._found.take()
        return end, frames == FRAMES, events

    def urgency(self, stream_id: int) -> int:
        """Return the urgency of a stream; of one that is gone the default."""
        return lib.h2_urgency(self.connection, stream_id)

    def room(self, stream_id: int) -> int:
        """Return how many octets of a body may be sent now; GONE: there is no such stream."""
        return lib.h2_room(self.connection, stream_id)

    def send(self, stream_id: int, head: bytes, octets: bytes, flags: int = 0) -> int:
        """Send a head, if it is not empty, and octets of the body; return a number below 0 if the stream is GONE, or the head MALFORMED."""
        return lib.h2_send(self.connection, stream_id, head, len(head), octets, len(octets), flags)

    def give_room(self, stream_id: int, count: int) -> None:
        """Let the client send more of a body, unless it has just reset the stream."""
        lib.h2_give_room(self.connection, stream_id, count)

    def reset(self, stream_id: int, code: int) -> None:
        """Reset a stream, unless its client has just done so."""
        lib.h2_reset(self.connection, stream_id, code)

    def go_away(self, last_id: int) -> None:
        """Ask for no more streams (LAST_STREAM), or drop those above the last one that is served."""
        lib.h2_goaway(self.connection, last_id, NO_ERROR)

    def end_input(self) -> None:
        """Close the streams that are not whole: the client sends no more."""
        lib.h2_end_input(self.connection)

    def pass_second(self) -> None:
        """Let a second pass."""
        lib.h2_pass_second(self.connection)

    @property
    def open_count(self) -> int:
        """The streams that are open for one side at least."""
        count: int = self.connection.nstreams
        return count

    @property
    def last_served(self) -> int:
        """The last stream that has become a request."""
        number: int = self.connection.last_served
        return number

    def take_octets(self) -> bytes:
        """Take the octets that are to be sent."""
        connection = self.connection
        count = connection.out_len
        if not count:
            return b""
        octets: bytes = ffi.buffer(connection.out, count)[:]
        lib.h2_sent(connection)
        return octets
