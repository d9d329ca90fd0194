"""Streams send in turn, and urgent ones first.

Their octets, and pauses, are in test_session.py.
"""

from types import SimpleNamespace

import pytest
from h2.errors import ErrorCodes
from harness.http2 import request
from harness.http2_frames import PRIORITY_UPDATE, frame
from harness.replies import returning

from aserve.features.http2.stream import StreamTransport
from aserve.features.http2.turns import FAIR_FRAMES, FLUSH_BYTES, MOST_FRAMES, Turns
from aserve.protocols.http2 import FRAME_BYTES


@pytest.fixture
def order(monkeypatch):
    """The list of sending streams, in order, for each frame of a body."""
    found, take_octets = [], StreamTransport.take

    def take(stream, count):
        octets = take_octets(stream, count)
        found.extend([stream.stream_id] * -(-len(octets) // FRAME_BYTES))
        return octets

    monkeypatch.setattr(StreamTransport, "take", take)
    return found


def test_urgent_streams_come_first(connect, order):
    client = connect(returning([b"x" * 200_000]))
    late = client.ask(*request(b"GET", b"/", (b"priority", b"u=7")))
    first, second = (client.ask() for _ in range(2))
    client.pump()
    frames = [stream for stream in order if stream != late]
    assert {first, second} == set(frames[: FLUSH_BYTES // FRAME_BYTES])  # both are in what is sent first
    assert order.index(late) > max(order.index(each) for each in (first, second))
    assert client.ended == {late, first, second}


def test_no_stream_starves(connect, order, monkeypatch):
    """Beside an urgent stream with always more to send, one frame of 16 goes to the stream with the longest wait."""
    # So the urgent stream never waits for its wire.
    monkeypatch.setattr("aserve.features.http2.stream.HIGH_BYTES", 1 << 21)
    client = connect(returning([b"x" * (1 << 20)]))
    first, second, urgent = (client.ask(*request(b"GET", b"/", (b"priority", b"u=%d" % u))) for u in (7, 7, 0))
    client.gives_room = False
    for stream in (first, second, urgent):
        client.h2.increment_flow_control_window(1 << 20, stream)
    client.h2.increment_flow_control_window(1 << 22)
    client.pump()
    fair = [at for at in range(3 * FAIR_FRAMES + 2) if order[at] != urgent][-3:]
    assert [order[at] for at in fair] == [first, second, first]
    assert [after - before for before, after in zip(fair, fair[1:])] == [FAIR_FRAMES] * 2
    assert client.ended == {first, second, urgent}


def update(stream_id, value, on=0):
    """Return a PRIORITY_UPDATE for a stream, sent on the stream `on`."""
    return frame(PRIORITY_UPDATE, 0, on, stream_id.to_bytes(4, "big") + value)


def test_an_update_changes_the_urgency(connect, order):
    """A client may change its mind about an open stream; a gone stream has no urgency."""
    client = connect(returning([b"x" * 40_000]))
    first, second = (client.ask() for _ in range(2))
    client.pump(runs=False)
    client.session.data_received(update(second, b"u=1") + update(99, b"u=0") + update(first, b""))
    client.pump()
    assert order.index(first) > max(index for index, each in enumerate(order) if each == second)
    assert client.ended == {first, second} and not client.goaways


@pytest.mark.parametrize("octets", [update(0, b"u=1"), update(1, b"u=1", on=1), frame(PRIORITY_UPDATE, 0, 0)])
def test_an_update_that_is_none(connect, octets):
    """RFC 9218 7.1: a wrong update ends the connection."""
    client = connect()
    client.session.data_received(octets)
    client.pump()
    assert client.goaways == [(0, ErrorCodes.PROTOCOL_ERROR)]


class Sizes(Turns):
    """Turns whose streams send as many octets as they say."""

    def _send(self, session, stream, most_bytes):
        return stream.size


def test_frames_of_one_step_go_out_together():
    """One step is asked for, however many streams are added; a flush follows FLUSH_BYTES, and the end; a discarded stream sends nothing."""
    steps, flushes = [], []
    turns = Sizes(None, SimpleNamespace(call_soon=lambda call, session: steps.append((call, session))))
    session = SimpleNamespace(may_send=True, flush=lambda: flushes.append(len(turns._waiting)))
    sizes = [FLUSH_BYTES - 1, 1, FLUSH_BYTES - 1, 1]
    streams = [SimpleNamespace(stream_id=n, size=size, is_sendable=True, urgency=3) for n, size in enumerate(sizes)]
    for stream in streams:
        turns.add(session, [stream])
    turns.discard(streams[3])
    ((call, of),) = steps
    call(of)
    assert of is session and flushes == [1, 0]


class Counted(Turns):
    """Turns whose streams have no end."""

    def _send(self, session, stream, most_bytes):
        self._sent_count += 1
        self._waiting[stream.stream_id] = stream
        return 1


def test_one_step_sends_a_bounded_number_of_frames():
    """Other connections have their turn between two steps."""
    steps = []
    turns = Counted(None, SimpleNamespace(call_soon=lambda call, session: steps.append((call, session))))
    session = SimpleNamespace(may_send=True, flush=lambda: None)
    turns.add(session, [SimpleNamespace(stream_id=1, is_sendable=True, urgency=3, state=None)])
    for number in (1, 2):
        call, _ = steps.pop()
        call(session)
        assert (turns._sent_count, len(steps)) == (number * MOST_FRAMES, 1)
