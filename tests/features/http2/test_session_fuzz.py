"""Whatever a client sends: a session raises nothing, keeps no stream too many, and others are not touched."""

from __future__ import annotations

from harness.http2 import Client, request
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from hypothesis import given, settings
from hypothesis import strategies as st

STREAMS = st.sampled_from([0, 1, 2, 3, 5, 7, 9])
NUMBERS = st.one_of(st.integers(0, 10), st.integers(0, (1 << 31) - 1))
FLAGS = st.sets(st.sampled_from(["END_STREAM", "END_HEADERS", "PADDED", "PRIORITY", "ACK"]))
FIELDS = [
    request(), request(b"POST"), request(b"POST", b"/", (b"content-length", b"3")), request(b"GET", b"/", (b"connection", b"a")),
    [(b"x", b"y")], request(b"HEAD", b"/%"),
]  # fmt: skip


def set_flags(frame, flags):
    for flag in flags & {each.name for each in frame.defined_flags}:
        frame.flags.add(flag)
    return frame.serialize()


def encode(client, fields):
    return client.h2.encoder.encode(fields)


FRAMES = st.one_of(
    st.tuples(st.just("headers"), STREAMS, st.sampled_from(FIELDS), FLAGS),
    st.tuples(st.just("headers"), st.sampled_from([1, 3, 5, 7, 9]), st.sampled_from(FIELDS), st.just({"END_HEADERS", "END_STREAM"})),
    st.tuples(st.just("continuation"), STREAMS, st.binary(max_size=20), FLAGS),
    st.tuples(st.just("data"), STREAMS, st.binary(max_size=20), FLAGS),
    st.tuples(st.just("reset"), STREAMS, NUMBERS, st.just(set())),
    st.tuples(st.just("window"), STREAMS, NUMBERS.filter(bool), st.just(set())),
    st.tuples(st.just("ping"), st.just(0), st.binary(min_size=8, max_size=8), FLAGS),
    st.tuples(st.just("settings"), st.just(0), st.dictionaries(st.integers(0, 8), NUMBERS), FLAGS),
    st.tuples(st.just("goaway"), st.just(0), NUMBERS, st.just(set())),
    st.tuples(st.just("priority"), STREAMS, NUMBERS, st.just(set())),
    st.tuples(st.just("octets"), st.just(0), st.binary(max_size=30), st.just(set())),
    st.tuples(st.just("second"), st.just(0), st.just(0), st.just(set())),
    st.tuples(st.just("run"), st.just(0), st.just(0), st.just(set())),
    st.tuples(st.just("drain"), st.just(0), st.just(0), st.just(set())),
    st.tuples(st.just("end"), st.just(0), st.just(0), st.just(set())),
)  # fmt: skip


def frame_of(client, kind, stream, value, flags):
    """Return the octets of one frame."""
    make = {
        "headers": lambda: HeadersFrame(stream, encode(client, value)),
        "continuation": lambda: ContinuationFrame(stream, value),
        "data": lambda: DataFrame(stream, value),
        "reset": lambda: RstStreamFrame(stream, value),
        "window": lambda: WindowUpdateFrame(stream, value),
        "ping": lambda: PingFrame(0, value),
        "settings": lambda: SettingsFrame(0, {} if "ACK" in flags else value),
        "goaway": lambda: GoAwayFrame(0, value),
        "priority": lambda: PriorityFrame(stream, depends_on=value, stream_weight=1),
    }[kind]
    try:
        return set_flags(make(), flags)
    except Exception:  # hyperframe makes no frame of it
        return b""


@settings(max_examples=300, deadline=None)
@given(st.lists(FRAMES, max_size=25), st.integers(1, 200))
def test_any_frames(steps, size):
    """In pieces of any size, with time passing and requests running between them."""
    client = Client(max_streams=3)
    session, waiting = client.session, b""
    try:
        for kind, *arguments in steps:
            if kind == "second":
                client.pass_seconds(1)
            elif kind == "run":
                client.harness.executor.run()
                client.harness.loop.turn()
            elif kind == "drain":
                session.drain()
            elif kind == "end":
                session.eof_received()
            else:
                waiting += arguments[1] if kind == "octets" else frame_of(client, kind, *arguments)
                while len(waiting) >= size:
                    session.data_received(waiting[:size])
                    waiting = waiting[size:]
            assert len(session._streams) <= 3
        session.connection_lost(None)
        client.harness.executor.run()
        client.harness.loop.turn()
        assert not client.harness.service.connections and not client.harness.service.lost and not session.has_streams
    finally:
        client.dispose()
