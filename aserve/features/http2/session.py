"""One HTTP/2 connection: frames in, streams out.

Owns:     Session: the streams and their windows; floods; GOAWAY, and the connection's end.
Thread:   event loop only.
Spec:     RFC 9113.
Not here: frames and their compression (the library h2; frames.py), a stream's transport (stream.py), its request (request.py), the order of writing (turns.py).

A stream has a Connection and a LoopWire of its own, so that threads, deadlines, limits, logs and metrics treat it as a connection of HTTP/1.1.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Callable, cast

import h2.events
from h2.errors import ErrorCodes

from ...connections.carrier import Carrier, StreamConnection
from ...connections.connection import Connection
from ...connections.loop.wire_loop import LoopWire
from ...core.errors import RequestRefused
from ...protocols.http1 import Scratch
from . import frames
from .allowance import Allowance
from .calls import Calls
from .fields import UNLIKE_LENGTH, Field, Malformed, content_length, encode_head, is_trailer_section
from .frames import CONNECTION_WINDOW, LAST_STREAM, STREAM_WINDOW
from .intake import Intake
from .leftovers import Leftovers
from .lingering import Lingering
from .request import StreamRequest
from .stream import StreamTransport
from .turns import Turns, updated_urgency, urgency_of

logger = logging.getLogger("aserve")

# More than this is not kept for a client that does not read: acknowledgements, beside what streams have sent.
MAX_UNREAD_BYTES = 1 << 20


class Session(Carrier):
    """The protocol of one HTTP/2 connection."""

    def __init__(self, connection: Connection, max_streams: int) -> None:
        self._connection = connection  # the streams' connections are like it
        connection.is_spent = False
        self._service = service = connection.service
        self._max_streams, self._scratch = max_streams, Scratch(service.limits)
        self._streams: dict[int, StreamTransport] = {}
        self._leftovers, self._allowance = Leftovers(), Allowance()
        self._calls = Calls(service.executor.submit, service.loop.call_soon, max_streams)
        self._is_write_paused = self.is_closed = self.is_at_eof = False
        self._last_id = 0  # of the streams that were begun
        self._unread_bytes = 0  # of all streams, not yet given back to the window of the connection
        self._goaways, self._asked_seconds, self._quiet_seconds = 0, 0, 0.0  # sent; since the first; without a stream
        self._lingering: Lingering | None = None  # behind the last octets
        self._takes_websockets = service.config.websockets > 0 and service.config.threads > 1
        self._h2 = frames.new_frames(service.limits, max_streams, self._takes_websockets)
        self._intake, self._turns = Intake(self._h2, service.loop), Turns(self._h2, service.loop)

    # --- called by the transport, as by an event loop ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The client speaks HTTP/2: ALPN has chosen it, or it has begun with it."""
        self.transport = cast(asyncio.Transport, transport)
        self._service.connections.add(self)
        if not self._connection.identify(transport):
            self.abort()
            return
        frames.begin(self._h2)
        self.flush()
        if self._service.is_draining:  # begun since the client connected: `drain` did not reach it
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

    def pause_writing(self) -> None:
        """The transport's buffer is over its limit."""
        self._is_write_paused = True

    def resume_writing(self) -> None:
        """The transport has room again."""
        self._is_write_paused = False
        self._turns.go_on(self)

    # --- called by the intake: see Takes ---

    def take(self, events: list[Any]) -> None:
        """Act on frames."""
        for event in events:
            act = ACTIONS.get(type(event))
            if act is not None and not self.is_closed:
                act(self, event)
        self.flush()
        if self._is_write_paused and self.transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            self.end("the client does not read", is_abort=True)

    def end_input(self) -> None:
        """Answer whole requests, as far as the windows allow."""
        self.is_at_eof = True
        for stream in [each for each in self._streams.values() if not each.request.is_ended]:
            self.leave(stream)
        self._turns.add(self, self._streams.values())
        self._leftovers.end_sending()
        self._say_goodbye()

    # --- called by the server ---

    @property
    def has_streams(self) -> bool:
        """See Carrier."""
        return bool(self._streams)

    @property
    def idle_seconds(self) -> float:  # type: ignore[override]
        """See Carrier."""
        return 0.0 if self._streams or self.is_closed or not self._last_id else self._quiet_seconds

    def on_second(self) -> None:
        """See Carrier."""
        if self._lingering is not None:
            self._lingering.on_second(self._service.is_draining)
        if self.is_closed:
            return
        self._allowance.on_second()
        self._quiet_seconds = 0.0 if self._streams else self._quiet_seconds + 1.0
        for stream_id in self._leftovers.on_second():
            frames.reset(self._h2, stream_id, ErrorCodes.NO_ERROR)
        self.flush()
        config = self._service.config
        self._asked_seconds += bool(self._goaways)
        if self._asked_seconds > 1:  # the first is not a whole one
            self._say_goodbye()
        elif self._connection.is_spent:
            self._ask_for_no_more()
        elif self._quiet_seconds > (config.keep_alive_seconds if self._last_id else config.head_seconds):
            self._say_goodbye()  # a request on its way may be sent again: the GOAWAY names the last one that is served

    def drain(self) -> None:
        """See Carrier; RFC 9113 section 6.8: a first GOAWAY asks for no more streams, a second a moment later names the last one."""
        self._calls.begin_all()
        if self._streams or self._service.is_replaced:
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

    def _on_request(self, event: Any) -> None:
        """Begin a stream, or refuse it."""
        stream_id, fields = event.stream_id, event.headers
        if self._goaways > 1:
            return  # the last GOAWAY has said that it is not served
        if len(self._streams) + self._leftovers.count >= self._max_streams or self._service.connections.is_full():
            frames.reset(self._h2, stream_id, ErrorCodes.REFUSED_STREAM)
            self._count_frame(event)
            return
        is_ended = event.stream_ended is not None
        try:
            head = encode_head(fields, self._takes_websockets)
            if is_ended and content_length(fields):
                raise Malformed(UNLIKE_LENGTH)
        except Malformed as exc:
            self._reset_malformed(stream_id, str(exc))
            return
        self._last_id = max(self._last_id, stream_id)
        self._begin(stream_id, fields, head, is_ended)

    def _reset_malformed(self, stream_id: int, why: str) -> None:
        """Reset the stream of a malformed request (RFC 9113 section 8.1.1); the others go on."""
        logger.info("%s: stream reset: %s", self._connection.name, why)
        frames.reset(self._h2, stream_id, ErrorCodes.PROTOCOL_ERROR)
        stream = self._streams.get(stream_id)
        if stream is not None:
            self.leave(stream)  # and the log says that its client has left
        elif self._service.ends is not None:
            self._service.ends.write_refused(self._connection, None, RequestRefused(400, why))
        self._count_frame()

    def _begin(self, stream_id: int, fields: list[Field], head: bytes, is_ended: bool) -> None:
        request = StreamRequest(self._scratch, is_ended)
        connection = StreamConnection(self._connection, self._calls)
        wire = LoopWire(connection, head, is_new=False, can_bypass=False, protocol=request)
        stream = StreamTransport(stream_id, wire, request, self.transport.get_extra_info, self._on_change)
        stream.has_no_body, stream.urgency = (b":method", b"HEAD") in fields, urgency_of(fields)
        stream.promised = content_length(fields)
        self._streams[stream_id] = stream
        stream.begin()

    def _on_data(self, event: Any) -> None:
        """Pass on octets of a body, and give the client room for as many again."""
        self._unread_bytes += event.flow_controlled_length
        if self._unread_bytes >= CONNECTION_WINDOW // 2:
            self._h2.increment_flow_control_window(self._unread_bytes)
            self._unread_bytes = 0
        is_last = event.stream_ended is not None
        if not event.data and not is_last:
            self._count_frame(event)
        stream = self._streams.get(event.stream_id)
        if stream is not None:
            stream.unread_bytes += event.flow_controlled_length
            self._receive(stream, event.data, is_last)
        elif is_last:
            self._forget_unwanted(event.stream_id)

    def _receive(self, stream: StreamTransport, data: bytes, is_last: bool) -> None:
        if stream.promises(len(data), is_last):
            stream.receive(data, is_last)
            self._give_room(stream)
        else:
            self._reset_malformed(stream.stream_id, UNLIKE_LENGTH)

    def _give_room(self, stream: StreamTransport) -> None:
        if stream.is_reading() and not stream.request.is_ended and stream.unread_bytes >= STREAM_WINDOW // 2:
            frames.give_room(self._h2, stream.unread_bytes, stream.stream_id)
            stream.unread_bytes = 0

    def _on_trailers(self, event: Any) -> None:
        """End a request: its trailers are dropped."""
        stream = self._streams.get(event.stream_id)
        if stream is None:
            self._forget_unwanted(event.stream_id)
        elif event.stream_ended is None or not is_trailer_section(event.headers):
            self._reset_malformed(stream.stream_id, "trailers that are none")
        else:
            self._receive(stream, b"", is_last=True)

    def _on_reset(self, event: Any) -> None:
        """End a stream: its client has left."""
        self._count_frame(event)
        self._forget_unwanted(event.stream_id)
        stream = self._streams.get(event.stream_id)
        if stream is not None:
            self.leave(stream)

    def _forget_unwanted(self, stream_id: int) -> None:
        """Forget a stream whose client sends no more, after its response."""
        if self._leftovers.forget_sending(stream_id) and self._goaways > 1:
            self._say_goodbye()

    def _on_settings(self, event: Any) -> None:
        """Send on: RFC 9113 section 6.9.2, a larger window is one for open streams, too."""
        self._count_frame(event)
        self._turns.add(self, self._streams.values())

    def _on_window(self, event: Any) -> None:
        """Send on: there is room for a stream, or for all. Updates that no DATA frame has asked for are counted as a flood."""
        if self._allowance.is_extra_update(self._turns.sent_count):
            self._count_frame(event)
        stream = self._streams.get(event.stream_id)
        if stream is not None:
            self._on_change(stream)
        elif not event.stream_id:
            self._turns.add(self, self._streams.values())

    def _on_unknown(self, event: Any) -> None:
        """Count a frame that h2 does not know; obey one that makes an open stream more urgent, or less."""
        self._count_frame(event)
        try:
            update = updated_urgency(event.frame)
        except ValueError as exc:
            self.end(f"the client broke HTTP/2: {exc}", ErrorCodes.PROTOCOL_ERROR)
            return
        if update is not None and update[0] in self._streams:
            self._streams[update[0]].urgency = update[1]

    def _count_frame(self, event: Any = None) -> None:
        """Count a frame that brings no request further."""
        if not self._allowance.spend():
            self.end("the client floods it with frames", ErrorCodes.ENHANCE_YOUR_CALM)

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
        """End a stream whose response is sent; the rest of its request is not wanted."""
        if not stream.request.is_ended:
            self._leftovers.add_sending(stream.stream_id)
        self.leave(stream)
        if self._connection.is_spent:
            self._ask_for_no_more()

    def cut(self, stream: StreamTransport) -> None:
        """Reset a stream whose response cannot be finished."""
        frames.reset(self._h2, stream.stream_id, ErrorCodes.INTERNAL_ERROR)
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
        octets = self._h2.data_to_send()
        if octets and not self.is_closed:
            self.transport.write(octets)

    # The end

    def _send_goaway(self, last_id: int, code: ErrorCodes = ErrorCodes.NO_ERROR) -> None:
        """Send a GOAWAY, unless the last octets are sent: behind write_eof(), asyncio raises."""
        self._goaways += 1
        self.flush()
        if not self.is_closed:
            self.transport.write(frames.encode_goaway(last_id, code))

    def _ask_for_no_more(self) -> None:
        """Send the first GOAWAY: streams on their way are still served; `on_second` sends the last one."""
        if not self._goaways:
            self._send_goaway(LAST_STREAM)

    def _say_goodbye(self, event: Any = None) -> None:
        """Send the last GOAWAY, and close when no stream is left; streams that are open finish. `event`: the client's GOAWAY."""
        if self.is_closed:
            return
        if self._goaways < 2:
            self._goaways = 1
            self._send_goaway(self._last_id)
        if not self._streams and not self._leftovers.count:
            self._close()

    def end(self, why: str, code: ErrorCodes | None = None, is_abort: bool = False) -> None:
        """End the connection by the client's fault. `code` None: h2 has its GOAWAY ready."""
        logger.info("%s: connection closed: %s", self._connection.name, why)
        if code is not None:
            self._send_goaway(self._last_id, code)
        self.flush()
        (self.abort if is_abort else self._close)()
        for stream in list(self._streams.values()):
            self.leave(stream)

    def _close(self) -> None:
        """Send what is pending, then close."""
        self.is_closed = True
        self._lingering = Lingering(self.transport, self._service.config, self._intake.is_at_end)


ACTIONS: dict[type, Callable[[Session, Any], None]] = {
    h2.events.RequestReceived: Session._on_request,
    h2.events.DataReceived: Session._on_data,
    h2.events.TrailersReceived: Session._on_trailers,
    h2.events.StreamReset: Session._on_reset,
    h2.events.WindowUpdated: Session._on_window,
    h2.events.RemoteSettingsChanged: Session._on_settings,
    h2.events.PingReceived: Session._count_frame,
    h2.events.PingAckReceived: Session._count_frame,
    h2.events.SettingsAcknowledged: Session._count_frame,
    frames.Dropped: Session._count_frame,
    frames.LateUpdate: Session._on_window,
    h2.events.PriorityUpdated: Session._count_frame,
    h2.events.UnknownFrameReceived: Session._on_unknown,
    h2.events.ConnectionTerminated: Session._say_goodbye,
}
