"""A client of HTTP/2 that asks for a WebSocket (RFC 8441); what it says there is no frame of RFC 6455, as aserve reads none."""

from __future__ import annotations

import socket
import ssl
from typing import Any

import h2.connection
import h2.events
from h2.config import H2Configuration

from .http2 import receive

SECONDS = 30
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
        context.set_alpn_protocols(["h2"])
        self._socket = context.wrap_socket(
            socket.create_connection(server.address, SECONDS), server_hostname="localhost"
        )
        self.frames = h2.connection.H2Connection(H2Configuration(header_encoding=None, validate_outbound_headers=False))
        self.head: dict[bytes, bytes] = {}
        self.reset: int | None = None
        self._is_ended = False
        self._received = self._octets = b""  # of the stream; of a frame that is not whole
        self.frames.initiate_connection()
        self._wait(lambda: self.frames.remote_settings.max_header_list_size is not None)  # the server's have come
        self.frames.send_headers(1, fields, end_stream=ends)
        self._wait(lambda: self.head or self.reset is not None)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    @property
    def status(self) -> int:
        """The status of the response."""
        return int(self.head[b":status"])

    def send(self, octets: bytes) -> None:
        """Send octets, as the server gives room."""
        while octets:
            self._wait(lambda: self.frames.local_flow_control_window(1))
            count = min(self.frames.local_flow_control_window(1), self.frames.max_outbound_frame_size)
            self.frames.send_data(1, octets[:count])
            octets = octets[count:]
        self._socket.sendall(self.frames.data_to_send())

    def end_sending(self) -> None:
        """Send no more."""
        self.frames.end_stream(1)
        self._socket.sendall(self.frames.data_to_send())

    def cancel(self) -> None:
        """Reset the stream."""
        self.frames.reset_stream(1)
        self._socket.sendall(self.frames.data_to_send())

    def recv_exactly(self, count: int) -> bytes:
        """Return so many octets."""
        self._wait(lambda: len(self._received) >= count)
        octets, self._received = self._received[:count], self._received[count:]
        return octets

    def recv_to_end(self) -> bytes:
        """Return what comes up to the end of the stream."""
        self._wait(lambda: self._is_ended or self.reset is not None)
        return self._received

    def _wait(self, condition: Any) -> None:
        while not condition():
            self._socket.sendall(self.frames.data_to_send())
            octets = self._socket.recv(1 << 16)
            assert octets, "the server has closed"
            self._octets = receive(self.frames, self._octets + octets, self._on_event)
        self._socket.sendall(self.frames.data_to_send())

    def _on_event(self, event: Any) -> None:
        if isinstance(event, h2.events.ResponseReceived):
            self.head = dict(event.headers)
        elif isinstance(event, h2.events.DataReceived):
            self._received += event.data
            if event.flow_controlled_length:
                self.frames.acknowledge_received_data(event.flow_controlled_length, 1)
        elif isinstance(event, h2.events.StreamEnded):
            self._is_ended = True
        elif isinstance(event, h2.events.StreamReset):
            self.reset = event.error_code
