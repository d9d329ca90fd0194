"""The library h2, where it differs from what a session needs.

Owns:     `new_frames`: its limits and switches; resets and room for streams that are closed by now; GOAWAY.
Thread:   event loop only.
Spec:     RFC 9113 sections 6.5.2, 6.8, 6.9 and 10.5.1.
Not here: what is sent when (session.py, turns.py).
"""

from __future__ import annotations

import contextlib

from h2.config import H2Configuration
from h2.connection import ConnectionState, H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame

from ...protocols.base import Limits

# A client may send so much of one body before the server has looked at it. Guess: 20 MB/s at 12 ms.
STREAM_WINDOW = 1 << 18
FIELD_OVERHEAD = 32  # RFC 9113 10.5.1: what a field counts besides its octets


def new_frames(limits: Limits, max_streams: int) -> H2Connection:
    """Return the state of a connection; fields.py checks field sections: h2 would end the connection where a reset of the stream is enough."""
    config = H2Configuration(
        client_side=False, header_encoding=None, validate_inbound_headers=False, normalize_inbound_headers=False,
        validate_outbound_headers=False,
    )  # fmt: skip
    made = H2Connection(config)
    # Up to this the parser of HTTP/1.1 refuses a head, with 431; a larger one ends the connection.
    section_bytes = 2 * limits.max_head_bytes + FIELD_OVERHEAD * limits.max_fields
    made.decoder.max_header_list_size = section_bytes
    made.local_settings = Settings(
        client=False,
        initial_values={
            SettingCodes.MAX_CONCURRENT_STREAMS: max_streams,
            SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
            SettingCodes.MAX_HEADER_LIST_SIZE: section_bytes,
        },
    )
    return made


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


def ignore_goaway(frames: H2Connection) -> None:
    """Go on after the client's GOAWAY: h2 takes the connection for closed, RFC 9113 6.8 does not."""
    frames.state_machine.state = ConnectionState.SERVER_OPEN
