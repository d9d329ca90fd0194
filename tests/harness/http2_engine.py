"""A client of Frames, octet by octet: sent octets become events, and received ones are read as frames."""

from typing import Any, NamedTuple

from aserve.protocols.http2 import Event, FoundEvents, Frames

from .hpack import Decoder, Encoder, Field
from .http2_frames import DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, frame


class Sent(NamedTuple):
    """A frame of the server's."""

    kind: int
    flags: int
    stream_id: int
    payload: bytes


class Peer:
    """A client past its preface; the server's settings are taken."""

    def __init__(self, max_streams: int = 100, takes_websockets: bool = False, section_bytes: int = 8192) -> None:
        self.frames = Frames(FoundEvents(section_bytes), max_streams, takes_websockets)
        self.encoder, self._decoder = Encoder(), Decoder(1 << 20)
        self.greeting = self.sent()
        assert self.send(PREFACE + frame(SETTINGS, 0, 0))[0][0]
        self.sent()

    def send(self, *octets: bytes) -> list[Event]:
        """Send octets; return all their events."""
        data, at, found = b"".join(octets), 0, []
        while at < len(data):
            at, _, events = self.frames.receive(data, at)
            found += events
        return found

    def ask(self, fields: Any, stream_id: int = 1, ends: bool = True) -> list[Event]:
        """Send a request."""
        return self.send(self.headers(fields, stream_id, ends))

    def headers(self, fields: Any, stream_id: int = 1, ends: bool = True) -> bytes:
        """Return the frame of a field section."""
        return frame(HEADERS, END_HEADERS | (END_STREAM if ends else 0), stream_id, self.encoder.encode(fields))

    def data(self, octets: bytes, stream_id: int = 1, ends: bool = False) -> list[Event]:
        """Send octets of a body."""
        return self.send(frame(DATA, END_STREAM if ends else 0, stream_id, octets))

    def sent(self) -> list[Sent]:
        """Take the server's frames."""
        octets, found = self.frames.take_octets(), []
        while octets:
            end = 9 + int.from_bytes(octets[:3], "big")
            found.append(Sent(octets[3], octets[4], int.from_bytes(octets[5:9], "big"), octets[9:end]))
            octets = octets[end:]
        return found

    def decode(self, block: bytes) -> list[Field]:
        """Return the fields of a section of the server's."""
        return self._decoder.decode(block)
