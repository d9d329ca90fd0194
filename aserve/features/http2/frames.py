"""The library h2, where it differs from what a session needs.

Owns:     `new_frames`: its limits and switches; faults of a stream for which h2 would end the connection; frames that h2 drops; resets and room
          for streams that are closed by now; GOAWAY.
Thread:   event loop only.
Spec:     RFC 9113 sections 5.1.2, 5.4.2, 6.5.2, 6.8, 6.9, 8.1.1 and 10.5.1.
Not here: what is sent when (session.py, turns.py).
"""

from __future__ import annotations

import contextlib
from typing import Any, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import DenialOfServiceError, ProtocolError
from h2.settings import SettingCodes, Settings
from hpack.exceptions import HPACKDecodingError, OversizedHeaderListError
from hyperframe.frame import GoAwayFrame, WindowUpdateFrame

from ...protocols.base import Limits
from ...protocols.hpack import Decoder, Encoder, Field, FieldSectionError, FieldSectionTooLarge

# A client may send so much of one body before the server has looked at it. Guess: 20 MB/s at 12 ms.
STREAM_WINDOW = 1 << 18
CONNECTION_WINDOW = 1 << 20
DEFAULT_WINDOW = (1 << 16) - 1  # RFC 9113 6.9.2
LAST_STREAM = (1 << 31) - 1  # RFC 9113 6.8: in the first of two GOAWAYs
NO_RFC7540_PRIORITIES = 9  # RFC 9218 2.1: dependencies and weights mean nothing here; h2 has no name for it
FIELD_OVERHEAD = 32  # RFC 9113 10.5.1: what a field counts besides its octets
KEPT_STREAMS = 200  # closed ones among them. Guess: 1 KiB each.
# Of one SETTINGS frame; browsers send six. As nghttp2 has it. 2,000 take half a millisecond (measured 2026-11-27, CPython 3.11).
FRAME_SETTINGS = 32
SETTING_BYTES = 6  # RFC 9113 6.5.1


class OurSettings(Settings):
    """Ours: for a stream too many h2 would end the connection (RFC 9113 5.1.2), and the session resets that stream."""

    max_concurrent_streams = property(lambda self: 1 << 31)  # for h2; the client gets the one of `new_frames`


class _Decoder(Decoder):
    """The decoder, as h2 calls the one of its library."""

    def decode(self, block: bytes, raw: bool = True) -> list[Field]:
        try:
            return super().decode(block)
        except FieldSectionTooLarge as fault:
            raise OversizedHeaderListError from fault
        except FieldSectionError as fault:
            raise HPACKDecodingError from fault


class _Encoder(Encoder):
    """The encoder, as h2 calls the one of its library."""

    header_table_size = property(fset=Encoder.resize)


_KNOWN_SETTINGS = frozenset(SettingCodes)


class Dropped:
    """An event: h2 has dropped a frame, or answered it by itself."""


class LateUpdate:
    """An event: an update of the window of a stream that is closed."""

    stream_id = -1


class Frames(H2Connection):
    """h2, for which faults of a stream are no end of the connection; the session finds them."""

    def _open_streams(self, remainder: int) -> int:
        """Forget closed streams now and then: h2 looks at each stream for each new one, and the number says nothing here (OurSettings)."""
        return super()._open_streams(remainder) if len(self.streams) > KEPT_STREAMS else 0

    def _begin_new_stream(self, *args: Any) -> Any:
        made: Any = super()._begin_new_stream(*args)
        # The session compares lengths.
        made._initialize_content_length = made._track_content_length = lambda *_: None
        return made

    def _receive_headers_frame(self, frame: Any) -> Any:
        """Receive a field section; trailers that do not end the stream have no `stream_ended`."""
        is_unended = frame.stream_id in self.streams and "END_STREAM" not in frame.flags
        if is_unended:
            frame.flags.add("END_STREAM")
        received: tuple[list[Any], list[Any]] = super()._receive_headers_frame(frame)
        if is_unended:
            received[1][0].stream_ended = None
        return received

    def _receive_settings_frame(self, frame: Any) -> Any:
        """
        Receive settings: h2 would keep each unknown one, of 65,536 (RFC 9113 6.5.2: they are ignored).

        Raises:
            DenialOfServiceError: there are more than FRAME_SETTINGS.
        """
        count = frame.body_len // SETTING_BYTES  # and not those in `settings`, where each number stands once
        if count > FRAME_SETTINGS:
            raise DenialOfServiceError(f"a frame of {count} settings")
        frame.settings = {code: value for code, value in frame.settings.items() if code in _KNOWN_SETTINGS}
        return super()._receive_settings_frame(frame)

    def _receive_goaway_frame(self, frame: Any) -> Any:
        """Receive the client's GOAWAY: h2 takes the connection for closed, and drops what waits to be sent; RFC 9113 6.8 does not."""
        state, octets = self.state_machine.state, self.data_to_send()
        received = super()._receive_goaway_frame(frame)
        self.state_machine.state = state
        self._data_to_send += octets
        return received

    def _receive_frame(self, frame: Any) -> list[Any]:
        events: list[Any] = super()._receive_frame(frame)
        return events or [LateUpdate() if isinstance(frame, WindowUpdateFrame) else Dropped()]


def new_frames(limits: Limits, max_streams: int, takes_websockets: bool) -> H2Connection:
    """Return the state of a connection; fields.py checks field sections: h2 would end the connection where a reset of the stream is enough."""
    config = H2Configuration(
        client_side=False, header_encoding=None, validate_inbound_headers=False, normalize_inbound_headers=False,
        validate_outbound_headers=False,
    )  # fmt: skip
    made = Frames(config)
    # Up to this the parser of HTTP/1.1 refuses a head, with 431; a larger one ends the connection.
    section_bytes = 2 * limits.max_head_bytes + FIELD_OVERHEAD * limits.max_fields
    made.decoder, made.encoder = cast(Any, _Decoder(section_bytes)), cast(Any, _Encoder())
    made.local_settings = OurSettings(
        client=False,
        initial_values={
            SettingCodes.MAX_CONCURRENT_STREAMS: max_streams,
            SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
            SettingCodes.MAX_HEADER_LIST_SIZE: section_bytes,
            SettingCodes.ENABLE_CONNECT_PROTOCOL: int(takes_websockets),
            cast(SettingCodes, NO_RFC7540_PRIORITIES): 1,
        },
    )
    return made


def begin(frames: H2Connection) -> None:
    """Send our settings, and the room of the connection."""
    frames.initiate_connection()
    frames.increment_flow_control_window(CONNECTION_WINDOW - DEFAULT_WINDOW)


def reset(frames: H2Connection, stream_id: int, code: ErrorCodes) -> None:
    """Reset a stream, unless its client has just done so: h2 knows that before the session does."""
    with contextlib.suppress(ProtocolError):
        frames.reset_stream(stream_id, code)


def give_room(frames: H2Connection, count: int, stream_id: int) -> None:
    """Let the client send more of a body, unless it has just reset the stream."""
    with contextlib.suppress(ProtocolError):
        frames.increment_flow_control_window(count, stream_id)


def encode_goaway(last_id: int, code: ErrorCodes) -> bytes:
    """Return a GOAWAY to be sent past h2, which would send nothing after it."""
    return bytes(GoAwayFrame(0, last_stream_id=last_id, error_code=code).serialize())
