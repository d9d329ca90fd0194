"""One HTTP/2 connection: frames in, streams out.

Owns:     Session: the streams; GOAWAY, and the connection's end.
Thread:   event loop only.
Spec:     RFC 9113.
Not here: frames, windows, floods, field sections (cparsers/h2.h; protocols/http2.py), a stream's transport (stream.py), its request (request.py), the order of writing (turns.py).

A stream has a Connection and a LoopWire of its own, so that threads, deadlines, limits, logs and metrics treat it as a connection of HTTP/1.1.
Long: what asyncio, the streams and the lane call changes the state of one connection.
"""

from __future__ import annotations

import asyncio
import logging
import math
import weakref
from typing import Any, Callable, cast

from ...connections.carrier import Carrier, StreamConnection
from ...connections.connection import Connection
from ...connections.lane.lane_memory import kept_body_bytes
from ...connections.loop.wire_loop import LoopWire
from ...connections.service import Service
from ...core.errors import RequestRefused
from ...protocols import http2
from ...protocols.http1 import Scratch
from ...protocols.http2 import STREAM_WINDOW, Event, FoundEvents, Frames
from ...tls.sessions import OwnSession
from .calls import Calls
from .intake import Intake
from .lingering import Lingering
from .request import StreamRequest
from .stream import StreamTransport
from .turns import Turns

logger = logging.getLogger("aserve")

# More than this is not kept for a client that does not read: acknowledgements, beside what streams have sent.
MAX_UNREAD_BYTES = 1 << 20

_scratches: weakref.WeakKeyDictionary[Service, tuple[Scratch, FoundEvents]] = weakref.WeakKeyDictionary()


def scratch_of(service: Service) -> tuple[Scratch, FoundEvents]:
    """Return the C memory that the sessions of a listener share: they are on one event loop."""
    found = _scratches.get(service)
    if found is None:
        limits = service.limits
        most = http2.section_bytes(limits.max_head_bytes, limits.max_fields)
        found = _scratches[service] = Scratch(limits), FoundEvents(most)
    return found


class Session(Carrier):
    """The protocol of one HTTP/2 connection."""

    def __init__(self, connection: Connection, max_streams: int) -> None:
        self.connection = connection  # the streams' connections are like it
        connection.is_spent = False
        self._service = service = connection.service
        self._scratch, found = scratch_of(service)
        self._streams: dict[int, StreamTransport] = {}
        self._calls = Calls(
            service.executor.submit, service.loop.call_soon, max_streams, kept_body_bytes(service.config)
        )
        self._is_write_paused = self.is_closed = self.is_at_eof = False
        self._goaways, self._asked_seconds, self._quiet_seconds = 0, 0, 0.0  # sent; since the first; without a stream
        self._lingering: Lingering | None = None  # behind the last octets
        takes_websockets = service.config.websockets > 0 and service.config.threads > 1
        self._frames = Frames(found, max_streams, takes_websockets)
        self._intake, self._turns = Intake(self._frames, service.loop), Turns(self._frames, service.loop)
        self.state = self._frames.connection
        self._remains: tuple[list[Event], bytes, bool] | None = None  # of the lane
        self._on_lost: Callable[[], None] = lambda: None

    # --- called by the transport, as by an event loop ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The client speaks HTTP/2: ALPN has chosen it, or it has begun with it."""
        self.transport = cast(asyncio.Transport, transport)
        self._service.connections.add(self)
        if not self.connection.identify(transport):
            self.abort()
            return
        self.flush()
        if self._remains is not None:
            self._go_on(*self._remains)
        elif self._service.is_draining:  # begun since the client connected: `drain` did not reach it
            self._ask_for_no_more()

    def data_received(self, data: bytes) -> None:
        """Frames have come."""
        if not self.is_closed:
            self._intake.receive(self, data)
        else:
            self.drop_octets(data)

    def eof_received(self) -> bool:
        """The client will send no more."""
        self._intake.end(self)
        if self.is_closed:
            self.transport.close()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is gone."""
        self.is_closed = True
        self._service.connections.discard(self)
        for stream in list(self._streams.values()):
            self.leave(stream)
        on_lost, self._on_lost = self._on_lost, lambda: None
        self._calls.elsewhere = lambda: 0
        on_lost()

    def pause_writing(self) -> None:
        """The transport's buffer is over its limit."""
        self._is_write_paused = True

    def resume_writing(self) -> None:
        """The transport has room again."""
        self._is_write_paused = False
        self._turns.go_on(self)

    # --- called by the intake: see Takes ---

    def take(self, events: list[Event]) -> None:
        """Act on frames."""
        for kind, stream_id, flags, number, octets in events:
            if not self.is_closed:
                ACTIONS[kind](self, stream_id, flags, number, octets)
        self.flush()
        if self._is_write_paused and self.transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            self.end("the client does not read", is_abort=True)

    def end_input(self) -> None:
        """Answer whole requests, as far as the windows allow."""
        self.is_at_eof = True
        self._frames.end_input()
        for stream in [each for each in self._streams.values() if not each.request.is_ended]:
            self.leave(stream)
        self._turns.add(self, self._streams.values())
        self._say_goodbye()

    # --- called by the lane ---

    def leave_lane(self, set: Any, number: int, running: Callable[[], int], on_lost: Callable[[], None]) -> None:
        """See Carrier."""
        self._remains, self._on_lost = self._frames.take_over(set, number), on_lost
        self._calls.elsewhere = running

    def _go_on(self, events: list[Event], octets: bytes, is_idle: bool) -> None:
        self._remains = None
        self._quiet_seconds = math.inf if is_idle else 0.0  # it has left as its time is over, or for a drain
        self.take(events)
        if octets:
            self.data_received(octets)
        if self._service.is_draining and not self.is_closed:
            (self.drain if is_idle else self._ask_for_no_more)()  # otherwise a request may be on its way

    def _return_to_lane(self) -> None:
        """Let the lane go on with the connection, if nothing is under way."""
        self.flush()
        take, transport, connections = self._service.take_carrier, self.transport, self._service.connections
        is_busy = self._frames.open_count or not self._intake.is_idle or transport.get_write_buffer_size()
        if take is None or is_busy or self._goaways or transport.is_closing():
            return
        session, sock = map(transport.get_extra_info, ("ssl_object", "socket"))
        if session is not None and type(session) is not OwnSession:
            return
        connections.discard(self)  # first: counted twice, it could have a stream refused
        self.is_closed = take(self.connection, sock.fileno(), session, True, self.state)
        if self.is_closed:
            transport.close()
        else:
            connections.add(self)

    def adopt(self, stream_id: int, wire: LoopWire) -> bool:
        """See Carrier."""
        exchange, connection = wire.connection.exchange, cast(StreamConnection, wire.connection)
        if self.is_closed or exchange is None:
            self._calls.go_on_soon()  # its place is free
            return False
        connection.leave_lane(self._calls)
        self._calls.add(exchange)
        stream = self._new_stream(stream_id, wire, StreamRequest(self._scratch, True))
        stream.has_no_body = exchange.method_and_target.startswith("HEAD ")
        if connection.unsent_bytes is not None:
            stream.go_on(connection.unsent_bytes)  # first: where the app is done, the stream ends as it begins here
        stream.begin()
        if self._frames.room(stream_id) == http2.GONE:
            self.leave(stream)
        self._calls.go_on_soon()
        return True

    def begin(self, stream_id: int, head: bytes, body: bytes) -> None:
        """See Carrier."""
        if not self.is_closed and not head:
            self._calls.go_on_soon()
        elif not self.is_closed:
            flags = http2.IS_HEAD * head.startswith(b"HEAD ") | http2.END_STREAM * (not body)
            events = [(http2.REQUEST, stream_id, flags, 1, head), (http2.DATA, stream_id, http2.END_STREAM, 0, body)]
            self.take(events[: 1 + bool(body)])

    # --- called by the server ---

    @property
    def has_streams(self) -> bool:
        """See Carrier."""
        return bool(self._streams) or self._calls.elsewhere() > 0

    @property
    def idle_seconds(self) -> float:  # type: ignore[override]
        """See Carrier."""
        return 0.0 if self.has_streams or self.is_closed or not self._frames.last_served else self._quiet_seconds

    def on_second(self) -> None:
        """See Carrier."""
        if self._lingering is not None:
            self._lingering.on_second(self._service.is_draining)
        if self.state.is_failure_due:  # no memory for frames, and the client may only wait
            self.data_received(b"")
        if self.is_closed:
            return
        self._quiet_seconds = 0.0 if self.has_streams else self._quiet_seconds + 1.0
        self._frames.pass_second()
        self._calls.go_on_soon()  # a response that the lane has sent to its end frees a place, and nobody tells
        self.flush()
        config = self._service.config
        self._asked_seconds += bool(self._goaways)
        if self._asked_seconds > 1:  # the first is not a whole one
            self._say_goodbye()
        elif self.connection.is_spent:
            self._ask_for_no_more()
        elif self._quiet_seconds > (config.keep_alive_seconds if self._frames.last_served else config.head_seconds):
            self._say_goodbye()  # a request on its way may be sent again: the GOAWAY names the last one that is served

    def drain(self) -> None:
        """See Carrier; RFC 9113 section 6.8: a first GOAWAY asks for no more streams, a second a moment later names the last one."""
        self._calls.begin_all()
        if self.has_streams or self._service.is_replaced:
            self._ask_for_no_more()
        else:
            self._say_goodbye()

    def abort(self) -> None:
        """See Carrier."""
        self.is_closed = True
        self.transport.abort()

    def drop_octets(self, data: bytes) -> None:
        """See Carrier."""
        if self._lingering is not None:
            self._lingering.drop(len(data))

    # Requests

    def _on_request(self, stream_id: int, flags: int, was_in_lane: int, head: bytes) -> None:
        """Begin a stream; or refuse it, unless the lane had a place for it."""
        # The first stream has the place of the connection.
        if not was_in_lane and self.has_streams and self._service.connections.is_full():
            self._frames.reset(stream_id, http2.REFUSED_STREAM)
            return
        request = StreamRequest(self._scratch, bool(flags & http2.END_STREAM))
        connection = StreamConnection(self.connection, self._calls)
        wire = LoopWire(connection, head, is_new=False, can_bypass=False, protocol=request)
        stream = self._new_stream(stream_id, wire, request)
        stream.has_no_body = bool(flags & http2.IS_HEAD)
        stream.begin()

    def _new_stream(self, stream_id: int, wire: LoopWire, request: StreamRequest) -> StreamTransport:
        stream = StreamTransport(stream_id, wire, request, self.transport.get_extra_info, self._on_change)
        stream.urgency = self._frames.urgency(stream_id)
        self._streams[stream_id] = stream
        return stream

    def _on_malformed(self, stream_id: int, flags: int, code: int, octets: bytes) -> None:
        """Forget a malformed request (RFC 9113 section 8.1.1), whose stream is reset; the others go on."""
        why = octets.decode()
        logger.info("%s: stream reset: %s", self.connection.name, why)
        stream = self._streams.get(stream_id)
        if stream is not None:
            self.leave(stream)  # and the log says that its client has left
        elif self._service.ends is not None:
            self._service.ends.write_refused(self.connection, None, RequestRefused(400, why))

    def _on_data(self, stream_id: int, flags: int, counted_bytes: int, octets: bytes) -> None:
        """Pass on octets of a body, and give the client room for as many again."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            stream.unread_bytes += counted_bytes
            stream.receive(octets, bool(flags & http2.END_STREAM))
            self._give_room(stream)

    def _give_room(self, stream: StreamTransport) -> None:
        if stream.is_reading() and not stream.request.is_ended and stream.unread_bytes >= STREAM_WINDOW // 2:
            self._frames.give_room(stream.stream_id, stream.unread_bytes)
            stream.unread_bytes = 0

    def _on_reset(self, stream_id: int, *_: object) -> None:
        """End a stream: its client has left, or sends no more after its response."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            self.leave(stream)
        elif self._goaways > 1:
            self._say_goodbye()

    def _on_room(self, stream_id: int, *_: object) -> None:
        """Send on: there is room for a stream, or for all (RFC 9113 section 6.9.2: settings are for open streams, too)."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._on_change(stream)
        elif not stream_id:
            self._turns.add(self, self._streams.values())

    def _on_priority(self, stream_id: int, flags: int, urgency: int, octets: bytes) -> None:
        """Make an open stream more urgent, or less."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            stream.urgency = urgency

    def _on_failed(self, stream_id: int, flags: int, code: int, octets: bytes) -> None:
        """End the connection by the client's fault; the GOAWAY is made."""
        self.end(octets.decode())

    # Sending

    def _on_change(self, stream: StreamTransport) -> None:
        """Send octets of a stream soon, or let its client send."""
        if self.is_closed or stream.stream_id not in self._streams:
            return
        self._give_room(stream)
        self._turns.add(self, [stream])

    @property
    def may_send(self) -> bool:
        """See Sends."""
        return not self._is_write_paused and not self.is_closed

    def finish(self, stream: StreamTransport) -> None:
        """Forget a stream whose response is sent; the rest of its request is not wanted."""
        self.leave(stream)
        if self.connection.is_spent:
            self._ask_for_no_more()
        elif not self._streams and self._calls.are_for_lane:
            self._return_to_lane()

    def cut(self, stream: StreamTransport) -> None:
        """Reset a stream whose response cannot be finished."""
        self._frames.reset(stream.stream_id, http2.INTERNAL_ERROR)
        self.leave(stream)

    def leave(self, stream: StreamTransport) -> None:
        """Forget a stream; a request that has begun runs on."""
        self._streams.pop(stream.stream_id, None)
        self._turns.discard(stream)
        stream.lose()
        self._calls.drop(stream.wire.connection.exchange)
        if self._goaways > 1:
            self._service.loop.call_soon(self._say_goodbye)

    def flush(self) -> None:
        """Give the frames to the transport."""
        octets = self._frames.take_octets()
        if octets and not self.is_closed:
            self.transport.write(octets)

    # The end

    def _send_goaway(self, last_id: int) -> None:
        """Send a GOAWAY, unless the last octets are sent: behind write_eof(), asyncio raises."""
        self._goaways += 1
        self._frames.go_away(last_id)
        self.flush()

    def _ask_for_no_more(self) -> None:
        """Send the first GOAWAY: streams on their way are still served; `on_second` sends the last one."""
        if not self._goaways:
            self._send_goaway(http2.LAST_STREAM)

    def _say_goodbye(self, *_: object) -> None:
        """Send the last GOAWAY, and close when no stream is left; streams that are open finish."""
        if self.is_closed:
            return
        if self._goaways < 2:
            self._goaways = 1
            self._send_goaway(self._frames.last_served)
        if not self._streams and not self._frames.open_count:
            self._close()

    def end(self, why: str, is_abort: bool = False) -> None:
        """End the connection by the client's fault."""
        logger.info("%s: connection closed: %s", self.connection.name, why)
        self.flush()
        (self.abort if is_abort else self._close)()
        for stream in list(self._streams.values()):
            self.leave(stream)

    def _close(self) -> None:
        """Send what is pending, then close."""
        self.is_closed = True
        self._lingering = Lingering(self.transport, self._service.config, self._intake.is_at_end)


ACTIONS: dict[int, Callable[[Session, int, int, int, bytes], None]] = {
    http2.REQUEST: Session._on_request,
    http2.DATA: Session._on_data,
    http2.RESET: Session._on_reset,
    http2.REFUSED: Session._on_malformed,
    http2.ROOM: Session._on_room,
    http2.PRIORITY: Session._on_priority,
    http2.GOAWAY: Session._say_goodbye,
    http2.FAILED: Session._on_failed,
}
