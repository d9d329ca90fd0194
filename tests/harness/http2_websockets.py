"""A client of HTTP/2 that asks for a WebSocket (RFC 8441); its words are no frames of RFC 6455, as aserve reads none."""

from __future__ import annotations

import ssl
from typing import Any

from h2.settings import SettingCodes

from .client import Reply, Truncated
from .http2_client import HTTP2Client

ROOM_BYTES = 1 << 24  # the server's room before the test reads
Field = tuple[bytes, bytes]


def asking(path: bytes = b"/", protocol: bytes = b"websocket", *further: Field) -> list[Field]:
    """Return the field section of a request for a WebSocket."""
    return [
        (b":method", b"CONNECT"), (b":protocol", protocol), (b":scheme", b"https"), (b":authority", b"a"), (b":path", path), *further,
    ]  # fmt: skip


class Tunnel:
    """One connection, and its one stream."""

    def __init__(self, server: Any, authority: Any, fields: list[Field], ends: bool = False) -> None:
        context = ssl.create_default_context(cafile=str(authority.certificate))
        self._client = client = HTTP2Client(server.address, None, context)
        self.frames = client.frames
        self.frames.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: ROOM_BYTES})
        self.frames.increment_flow_control_window(ROOM_BYTES)
        client.wait_for_settings()
        self._number = client.ask(fields, is_whole=ends)
        try:
            self.head: Reply | None = client.recv_head()
        except Truncated:
            self.head = None  # reset

    def close(self) -> None:
        self._client.close()

    @property
    def status(self) -> int:
        """The status of the response."""
        assert self.head is not None
        return self.head.status

    @property
    def reset(self) -> int | None:
        """The code of the server's reset, if any."""
        return self._client.streams[self._number].reset_code

    def send(self, octets: bytes) -> None:
        """Send octets, as the server gives room."""
        self._client.send_data(self._number, octets, False)
        self._client.flush()

    def end_sending(self) -> None:
        self.frames.end_stream(self._number)
        self._client.flush()

    def cancel(self) -> None:
        """Reset the stream."""
        self.frames.reset_stream(self._number)
        self._client.flush()

    def recv_exactly(self, count: int) -> bytes:
        """Return so many octets."""
        return self._client.recv_exactly(count)

    def recv_to_end(self) -> bytes:
        """Return all octets up to the end of the stream."""
        return b"".join(self._client.recv_chunks())
