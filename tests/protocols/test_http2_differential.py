"""Frames in C beside the library h2: the same octets give the same events, or an answer whose reason stands here.

Histories are random: what clients send, with answers between, and changed octets in some frames.
"""

from __future__ import annotations

import random
import struct
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
from harness.hpack import Encoder
from harness.http2 import request
from harness.http2_frames import CONTINUATION, DATA, HEADERS, PING, PREFACE, RESET, SETTINGS, WINDOW, frame, setting

from aserve.protocols import http2

HISTORIES, STEPS = 300, 60
HEAD = b"HTTP/1.1 200 OK\r\nX-A: 1"
FIELDS = [
    request(), request(b"POST"), request(b"PUT", b"/a?b", (b"cookie", b"a"), (b"cookie", b"b")), request(b"HEAD"),
    request(b"POST", b"/", (b"content-length", b"4")), request(b"GET", b"/", *[(b"x-%d" % at, b"y" * at) for at in range(50)]),
]  # fmt: skip
MALFORMED = [request(b"GET", b"/", (b"connection", b"x")), request(b"GET", b"/", (b"X", b"y")), request()[1:], []]


class Oracle:
    """The library, as a server; its settings are acknowledged."""

    def __init__(self) -> None:
        self.frames = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding=None))
        initial = {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: http2.STREAM_WINDOW}
        self.frames.local_settings = h2.settings.Settings(client=False, initial_values=initial)
        self.frames.initiate_connection()
        self.frames.increment_flow_control_window((1 << 20) - 65535)

    def receive(self, octets: bytes) -> set[Any] | None:
        """Return the events; None: the connection has failed."""
        try:
            events = self.frames.receive_data(octets)
        except h2.exceptions.ProtocolError:
            return None
        return {found for found in map(self._of, events) if found is not None}

    @staticmethod
    def _of(event: Any) -> Any:
        is_end = getattr(event, "stream_ended", None) is not None
        if isinstance(event, h2.events.RequestReceived):
            return "request", event.stream_id, is_end
        if isinstance(event, h2.events.DataReceived):
            return "data", event.stream_id, event.data, is_end
        if isinstance(event, h2.events.TrailersReceived):
            return "data", event.stream_id, b"", True
        if isinstance(event, h2.events.StreamReset):
            return "reset", event.stream_id
        return "goaway" if isinstance(event, h2.events.ConnectionTerminated) else None


class Ours:
    """The engine; refusals and failures are kept apart."""

    def __init__(self) -> None:
        self.frames = http2.Frames(http2.FoundEvents(1 << 16), 1000, False)
        self.why: bytes | None = None

    def receive(self, octets: bytes) -> set[Any] | None:
        """Return the events; None: the connection has failed."""
        found: set[Any] = set()
        self.why = None
        for kind, stream_id, flags, _, text in self.frames.receive(octets, 0)[2]:
            is_end = bool(flags & http2.END_STREAM)
            if kind == http2.FAILED:
                self.why = text
                return None
            if kind == http2.REQUEST:
                found.add(("request", stream_id, is_end))
            elif kind == http2.DATA:
                found.add(("data", stream_id, text, is_end))
            elif kind == http2.RESET:
                found.add(("reset", stream_id))
            elif kind == http2.REFUSED:
                self.why = text
            elif kind == http2.GOAWAY:
                found.add("goaway")
        return found


# Where the library's answer differs: the library goes further than RFC 9113 asks, or not as far.
STRICTER = {
    b"the client broke HTTP/2: a preface without settings": "3.4: SETTINGS come first",
    b"the client broke HTTP/2: a GOAWAY of a stream": "6.8: on stream 0 alone",
    b"the client broke HTTP/2: a PRIORITY_UPDATE on a stream, or for none": "RFC 9218 7.1; h2 does not know the frame",
    b"the client broke HTTP/2: a frame for a stream that is closed": "5.1: h2 resets the stream again if it has reset it",
    b"the client broke HTTP/2: a stream with a number that is too low": "5.1.1; for h2 it is closed",
    b"the client broke HTTP/2: a reset of a stream that has not begun": "6.4; h2 takes streams of even numbers for closed ones",
    b"the client broke HTTP/2: a window of a stream that has not begun": "6.9; likewise",
    b"the client broke HTTP/2: a bad setting": "6.5.2: of each number the last one counts for h2",
    b"the client broke HTTP/2: a window that is too large": "6.9.2; for h2 that is a fault of streams",
}


class History:
    """One history of both."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.ours, self.oracle, self.encoder = Ours(), Oracle(), Encoder()
        self.last_id = -1
        self.block: list[bytes] = []
        self.answered: set[int] = set()
        greeting = PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, 1, 0)
        assert self.ours.receive(greeting) == self.oracle.receive(greeting) == set()

    def step(self) -> bool:
        """Take a step on both sides; return whether both go on."""
        if self.chance.random() < 0.25:
            self.answer()
            return True
        octets = self.mutated(self.client_frame())
        ours, theirs = self.ours.receive(octets), self.oracle.receive(octets)
        if self.ours.why is not None and theirs != ours:
            assert theirs is None or ours is not None or self.ours.why in STRICTER, (self.ours.why, octets, theirs)
            return False
        if theirs is None:
            # 8.1.1, 6.9: faults of a stream, where h2 ends the connection; a late frame, where a reset is enough (5.1).
            resets = [octets for octets in frames_of(self.ours.frames.take_octets()) if octets[3] == RESET]
            assert ours is None or resets or self.is_lenient(octets), (octets, ours)
            return False
        assert self.wanted(ours) == self.wanted(theirs), (octets, ours, theirs)
        self.ours.frames.take_octets()
        self.compare_windows()
        return True

    def wanted(self, events: Any) -> set[Any]:
        """Leave out events of answered streams: ours tells only the ends of such streams."""
        return {event for event in events if event[1] not in self.answered}

    def is_lenient(self, octets: bytes) -> bool:
        """
        Whether a frame is no fault, though h2 takes it for one.

        It is for a closed stream (RFC 9113 5.1), of an extension (5.5), or the rest of a request that is answered, which nobody reads.
        """
        is_answered = int.from_bytes(octets[5:9], "big") & http2.LAST_STREAM in self.answered
        return octets[3] in (2, RESET, WINDOW) or octets[3] > CONTINUATION or is_answered

    def client_frame(self) -> bytes:
        """Return a frame as a client sends a frame."""
        kind = self.chance.choice([HEADERS] * 4 + [DATA] * 4 + [RESET, SETTINGS, PING, WINDOW, WINDOW])
        if self.block:
            return self.block.pop(0)
        if kind == HEADERS:
            return self.section()
        stream_id, number = self.some_stream(), struct.pack("!I", self.chance.choice([1, 100, 1 << 16]))
        if kind == DATA:
            payload, is_padded = bytes(self.chance.choice([0, 1, 4, 4, 200])), self.chance.random() < 0.2
            flags = self.chance.choice([0, 0, 1]) + 8 * is_padded
            return frame(DATA, flags, stream_id, b"\3" * is_padded + payload + bytes(3 * is_padded))
        if kind == SETTINGS:
            return frame(
                SETTINGS,
                0,
                0,
                setting(
                    *self.chance.choice([(1, 0), (1, 4096), (4, 0), (4, 100), (4, 1 << 20), (5, 1 << 15), (77, 7)])
                ),
            )
        if kind == PING:
            return frame(PING, self.chance.choice([0, 1]), 0, bytes(8))
        return frame(kind, 0, stream_id if kind == RESET or self.chance.random() < 0.7 else 0, number)

    def section(self) -> bytes:
        """Begin a stream, or end a stream by trailers, in a single frame or more."""
        is_new = self.last_id < 0 or self.chance.random() < 0.7
        if is_new:
            self.last_id += 2
        stream_id = self.last_id if is_new else self.some_stream()
        is_odd = self.chance.random() < 0.02
        fields = self.chance.choice(MALFORMED if is_odd else FIELDS) if is_new else [(b"x-sum", b"1")]
        block = self.encoder.encode(fields)
        is_end = self.chance.random() < 0.5 or not is_new
        if self.chance.random() < 0.8:
            return frame(HEADERS, 4 + is_end, stream_id, block)
        at = self.chance.randrange(len(block) + 1)
        self.block = [frame(CONTINUATION, 0, stream_id, block[at:]), frame(CONTINUATION, 4, stream_id)]
        return frame(HEADERS, int(is_end), stream_id, block[:at])

    def some_stream(self) -> int:
        """Return an open stream, or, now and then, any stream."""
        state = self.ours.frames.connection
        if state.nstreams and self.chance.random() < 0.97:
            return int(state.streams[self.chance.randrange(state.nstreams)].id)
        return max(self.last_id - 2 * self.chance.randrange(4), 1)

    def mutated(self, octets: bytes) -> bytes:
        """Return the frame, now and then with an octet changed behind its length."""
        if self.chance.random() < 0.97:
            return octets
        at = self.chance.randrange(3, len(octets))
        return octets[:at] + bytes([octets[at] ^ 1 << self.chance.randrange(8)]) + octets[at + 1 :]

    def answer(self) -> None:
        """Answer or reset a stream, on both sides."""
        stream_id, frames = self.some_stream(), self.oracle.frames
        room = self.ours.frames.room(stream_id)
        if room < 1 or self.block:
            return
        if self.chance.random() < 0.2:
            frames.reset_stream(stream_id, 2)
            self.ours.frames.reset(stream_id, 2)
        elif frames.streams[stream_id].state_machine.headers_sent:
            octets, is_end = bytes(min(room, self.chance.choice([1, 500, 40_000]))), self.chance.random() < 0.5
            size = frames.max_outbound_frame_size
            for at in range(0, len(octets), size):
                frames.send_data(stream_id, octets[at : at + size], end_stream=is_end and at + size >= len(octets))
            assert self.ours.frames.send(stream_id, b"", octets, is_end) == len(octets)
            self.answered |= {stream_id} if is_end else set()
        else:
            is_end = self.chance.random() < 0.3
            frames.send_headers(stream_id, [(b":status", b"200"), (b"x-a", b"1")], end_stream=is_end)
            assert self.ours.frames.send(stream_id, HEAD, b"", is_end) == 0
            self.answered |= {stream_id} if is_end else set()
        self.compare_windows()

    def compare_windows(self) -> None:
        """Both may send as much."""
        frames = self.oracle.frames
        for stream_id in range(1, self.last_id + 1, 2):
            room = self.ours.frames.room(stream_id)
            if room >= 0:
                assert room == max(frames.local_flow_control_window(stream_id), 0), stream_id


def frames_of(octets: bytes) -> list[bytes]:
    found = []
    while octets:
        end = 9 + int.from_bytes(octets[:3], "big")
        found.append(octets[:end])
        octets = octets[end:]
    return found


def test_the_library_h2_agrees():
    """Requests, bodies, resets, windows and ends are the same, frame by frame, until either side ends the connection for a reason."""
    steps = 0
    for seed in range(HISTORIES):
        history = History(seed)
        for _ in range(STEPS):
            steps += 1
            if not history.step():
                break
    assert steps > HISTORIES * STEPS // 8  # most steps are no faults
