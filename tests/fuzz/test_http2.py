"""Whatever a client of HTTP/2 sends: nothing is raised, what is kept is bounded, and a good stream beside it is served unless the connection ends.

As in test_streams.py: a few examples, or FUZZ_SECONDS of others.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest
from harness.fuzzing import SECONDS
from harness.http2 import Client, request
from harness.http2_frames import (
    CONTINUATION,
    DATA,
    HEADERS,
    PING,
    PRIORITY,
    RESET,
    SETTINGS,
    WINDOW,
    frame,
    setting,
)
from harness.interpreter import IS_PYPY
from harness.replies import echo, returning
from hypothesis import strategies as st

MAX_STREAMS = 4
GOOD = 1  # the stream without frames behind the request
GOAWAY = 7
FIELDS = [
    request(), request(b"POST"), request(b"POST", b"/", (b"content-length", b"3")), request(b"PUT", b"/", (b"expect", b"100-continue")),
    request(b"GET", b"/", (b"connection", b"a")), request(b"HEAD", b"/%"), request(b"CONNECT"), [(b"x", b"y")], [],
    request(b"GET", b"/", *[(b"x-%d" % number, b"y" * 60) for number in range(150)]),
    request(b"GET", b"/", (b"priority", b"u=0")), request(b"GET", b"/", (b"cookie", b"a"), (b"cookie", b"b")),
    [(b":method", b"CONNECT"), (b":protocol", b"websocket"), *request()[1:]],
]  # fmt: skip
STREAMS = st.sampled_from([3, 3, 5, 5, 7, 9, 11, 13, 2, 0])
NUMBERS = st.one_of(st.integers(0, 10), st.integers(0, (1 << 32) - 1))
FLAGS = st.one_of(st.sampled_from([0, 1, 4, 5]), st.integers(0, 255))
KINDS = st.one_of(
    st.sampled_from([DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, WINDOW, CONTINUATION]), st.integers(0, 255)
)
numbered = st.builds(struct.pack, st.just("!I"), NUMBERS)
known_settings = st.lists(st.tuples(st.sampled_from([1, 2, 3, 4, 5, 6, 8]), NUMBERS), max_size=4).map(
    lambda pairs: b"".join(setting(*pair) for pair in pairs)
)
whole_frames = st.one_of(
    st.tuples(st.just("section"), STREAMS, st.sampled_from([5, 5, 4, 4, 1, 0, 0x24]), st.integers(0, len(FIELDS) - 1)),
    st.builds(
        frame, st.just(DATA), st.sampled_from([0, 1]), STREAMS, st.one_of(st.binary(max_size=9), st.just(bytes(16384)))
    ),
    st.builds(frame, st.just(RESET), st.just(0), STREAMS, numbered),
    st.builds(frame, st.just(WINDOW), st.just(0), STREAMS, numbered),
    st.builds(frame, st.just(PING), st.sampled_from([0, 1]), st.just(0), st.binary(min_size=8, max_size=8)),
    st.builds(frame, st.just(SETTINGS), st.just(0), st.just(0), known_settings),
    st.builds(frame, st.just(SETTINGS), st.just(1), st.just(0)),
    st.builds(frame, st.just(PRIORITY), st.just(0), STREAMS, st.binary(min_size=5, max_size=5)),
    st.builds(frame, st.just(GOAWAY), st.just(0), st.just(0), st.binary(min_size=8, max_size=12)),
    st.builds(frame, KINDS, FLAGS, STREAMS, st.binary(max_size=30)),
    st.binary(max_size=30),
)
# The frames of a client: a new stream, or frames for a begun stream.
places, small = st.integers(0, 5), st.integers(1, 100_000)
good_settings = st.one_of(
    st.tuples(st.just(1), st.integers(0, 1 << 24)), st.tuples(st.just(4), st.sampled_from([0, 1, 65_535, 1 << 20])),
    st.tuples(st.just(5), st.sampled_from([16_384, 1 << 20])), st.tuples(st.integers(9, 65_535), NUMBERS),
)  # fmt: skip
good_steps = st.one_of(
    st.tuples(st.just("begin"), st.sampled_from(FIELDS), st.booleans()),
    st.tuples(st.just("begin"), st.sampled_from(FIELDS), st.booleans()),
    st.tuples(st.just("data"), places, st.binary(max_size=4), st.booleans()),
    st.tuples(
        st.just("trailers"), places, st.sampled_from([[], [(b"x", b"y")], [(b"connection", b"y")]]), st.booleans()
    ),
    st.tuples(st.just("reset"), places),
    st.tuples(st.just("window"), places, small),
    st.tuples(st.just("set"), st.lists(good_settings, min_size=1, max_size=30)),
)
events = st.sampled_from(["second", "run", "run", "turn", "turn", "drain", "end", "stuck", "unstuck", "many"])
good_events = st.sampled_from(["second", "run", "run", "turn", "turn", "turn"])
histories = st.one_of(
    st.lists(st.one_of(good_steps, good_steps, good_events), min_size=25, max_size=80),
    st.lists(st.one_of(good_steps, good_steps, good_steps, events, whole_frames), min_size=10, max_size=60),
    st.lists(st.one_of(whole_frames, whole_frames, whole_frames, events), max_size=60),
)


class Talk:
    """A session, and a client with frames of any kind beside a good request."""

    def __init__(self, body: str) -> None:
        # A missing live body would keep this thread; this loop has no readers for WebSockets.
        self.client = Client(
            echo if body == "buffer" else returning([b"x" * 9]), max_streams=MAX_STREAMS, body=body, websockets=0
        )
        self.session, self.loop = self.client.session, self.client.harness.loop
        assert self.client.ask(*request(b"HEAD")) == GOOD
        self.session.data_received(self.client.h2.data_to_send())
        self.octets, self.last, self.received = b"", b"", b""
        self.begun = [GOOD]

    def do(self, step: Any, size: int) -> None:
        """Take a step of a history."""
        if isinstance(step, tuple) and step[0] != "section":
            name, *arguments = step
            begun = b"" if len(self.begun) > 1 or name == "begin" else self.begin(request(b"POST"), False)
            step = begun + getattr(self, name)(*arguments)
        if isinstance(step, tuple):
            _, stream, flags, number = step
            step = frame(
                HEADERS,
                flags,
                stream,
                (bytes(5) if flags & 0x20 else b"") + self.client.h2.encoder.encode(FIELDS[number]),
            )
        if isinstance(step, bytes):
            self.octets, self.last = self.octets + step, step
        else:
            getattr(self, step)()
        while len(self.octets) >= size:
            self.session.data_received(self.octets[:size])
            self.octets = self.octets[size:]
        self.check()

    def begin(self, fields: Any, is_whole: bool) -> bytes:
        """Return the frame of a new stream."""
        self.begun.append(self.begun[-1] + 2)
        return frame(HEADERS, 5 if is_whole else 4, self.begun[-1], self.client.h2.encoder.encode(fields))

    def data(self, place: int, octets: bytes, is_last: bool) -> bytes:
        """Return a part of a body."""
        return frame(DATA, is_last, self.one(place), octets)

    def trailers(self, place: int, fields: Any, is_last: bool) -> bytes:
        """Return the trailers behind a body."""
        return frame(HEADERS, 4 + is_last, self.one(place), self.client.h2.encoder.encode(fields))

    def reset(self, place: int) -> bytes:
        return frame(RESET, 0, self.one(place), bytes(4))

    def window(self, place: int, count: int) -> bytes:
        """Return an update of a window, or of the connection's."""
        return frame(WINDOW, 0, self.one(place) if place else 0, struct.pack("!I", count))

    def set(self, pairs: Any) -> bytes:
        return frame(SETTINGS, 0, 0, b"".join(setting(*pair) for pair in pairs))

    def one(self, place: int) -> int:
        """Return one of the last begun streams, but for the good stream."""
        return self.begun[-1 - place % (len(self.begun) - 1)]

    def second(self) -> None:
        """Let time pass."""
        self.client.pass_seconds(1)

    def run(self) -> None:
        self.client.harness.executor.run()

    def turn(self) -> None:
        """Let the event loop turn."""
        self.loop.turn()

    def drain(self) -> None:
        """Let the server end."""
        self.session.drain()

    def end(self) -> None:
        """Let the client send no more."""
        self.session.eof_received()

    def stuck(self) -> None:
        """Let the client read no more."""
        self.client.transport.is_stuck = True
        self.session.pause_writing()

    def unstuck(self) -> None:
        """Let the transport read on."""
        self.client.transport.unstick()
        self.session.resume_writing()

    def many(self) -> None:
        """Repeat the last frames."""
        self.octets += self.last[:100] * 30

    def check(self) -> None:
        """The memory of the connection is bounded."""
        state = self.session._frames.connection
        assert len(self.session._streams) <= MAX_STREAMS >= state.nstreams and state.streams_cap <= 2 * MAX_STREAMS
        tables = state.encoder.table, state.decoder
        assert all(table.bytes <= table.max_bytes <= 4096 for table in tables)
        assert state.frame_cap <= 9 + 16384 and state.block_len <= state.limits.max_section_bytes and not state.out_len

    def finish(self) -> None:
        """The good stream is served, or the connection ends."""
        self.session.data_received(self.octets)
        self.check()
        self.unstuck()
        for _ in range(10_000):
            self.run()
            self.turn()
            self.received += self.client.transport.received()
            if not self.loop.soon and not self.client.harness.executor.jobs:
                break
        else:
            raise AssertionError("it never comes to rest")
        kinds = self.kinds()
        assert self.client.is_closed or (HEADERS, GOOD) in kinds
        assert not self.client.is_closed or (GOAWAY, 0) in kinds or "abort" in self.client.transport.calls
        self.session.connection_lost(None)
        self.run()
        self.turn()
        service = self.client.harness.service
        assert not service.connections and not service.lost and not self.session.has_streams

    def kinds(self) -> set[tuple[int, int]]:
        """Return the kinds of received frames, by stream."""
        found, octets = set(), self.received
        while octets:
            length, kind, stream = int.from_bytes(octets[:3], "big"), octets[3], int.from_bytes(octets[5:9], "big")
            found.add((kind, stream))
            octets = octets[9 + length :]
        return found


@pytest.mark.timeout(SECONDS + 400)  # Hypothesis makes a found case small, for minutes
def test_any_frames_leave_the_connection_sound(hold):
    """Frames come in pieces of any size, with time passing, and apps running, in between."""

    def holds(history: list[Any], size: int, body: str) -> None:
        talk = Talk(body)
        try:
            for step in history:
                talk.do(step, size)
            talk.finish()
        finally:
            talk.client.dispose()

    sizes = st.integers(1, 200)
    count = 75 if IS_PYPY else 300  # of the same code; before the JIT has compiled it, 300 take 16 s of CPU time
    hold(holds, count, history=histories, size=sizes, body=st.sampled_from(["buffer", "buffer", "stream"]))
