"""The ClientHello: reading it before OpenSSL does.

Owns:     telling TLS from anything else; the server name and the protocols wanted by a client.
Thread:   any; pure.
Spec:     RFC 8446 sections 4.1.2 and 5.1 (ClientHello), RFC 6066 section 3
          (server name), RFC 7301 section 3 (ALPN).
Not here: everything else in a ClientHello (OpenSSL's work).

The ssl module has a callback for the server name, but after a name outside ASCII writes a traceback to standard error; and the callback does not
get the protocols offered by ALPN.
"""

from __future__ import annotations

from ..core.named_tuple import NamedTuple

HANDSHAKE, CLIENT_HELLO = 22, 1  # RFC 8446 5.1: content type; 4: message type
SERVER_NAME, ALPN = 0, 16  # RFC 6066 3, RFC 7301 6: extensions
RECORD_HEAD_BYTES, MESSAGE_HEAD_BYTES = 5, 4
# A larger ClientHello is given to OpenSSL unread. Guess: today they have 200 octets to 4 KiB.
MAX_HELLO_BYTES = 1 << 14
# RFC 8446 6: a fatal alert in a record of its own; 120 is no_application_protocol.
NO_APPLICATION_PROTOCOL = bytes([21, 3, 3, 0, 2, 2, 120])


class ClientHello(NamedTuple):
    """The server name and protocols wanted by a client."""

    server_name: str = ""  # as received, octets as latin-1; empty: the extension is missing
    protocols: tuple[bytes, ...] = ()  # empty: the extension is missing


def is_tls(data: bytes | bytearray) -> bool:
    """Whether these first octets (one is enough) can begin a TLS connection."""
    return data[0] == HANDSHAKE and data[1:2] in (b"", b"\x03")


class FirstOctets:
    """Collects a client's first octets, in pieces however small: each octet is looked at once."""

    __slots__ = ("_is_open", "_left", "_message", "_position", "data")

    def __init__(self) -> None:
        self.data = bytearray()
        self._message = bytearray()  # the handshake octets of the records (RFC 8446 5.1)
        self._position = 0  # the end of the part taken from `data`
        self._left = 0  # of the record there
        self._is_open = True  # more may belong to the message

    def feed(self, data: bytes | bytearray) -> bool:
        """Add octets; return whether the ClientHello is whole, or there is no need to wait for more."""
        self.data += data
        while self._is_open and self._position < len(self.data):
            if self._left:
                piece = self.data[self._position : self._position + self._left]
                self._message += piece
                self._position += len(piece)
                self._left -= len(piece)
            elif not self._read_record_head():
                break
        message = self._message
        if len(self.data) > MAX_HELLO_BYTES or not self._is_open or bytes(message[:1]) not in (b"", b"\x01"):
            return True
        if len(message) < MESSAGE_HEAD_BYTES:
            return False
        return len(message) >= MESSAGE_HEAD_BYTES + int.from_bytes(message[1:4], "big")

    def parse(self) -> ClientHello:
        """Return what the ClientHello asks for; a malformed one asks for nothing, and OpenSSL judges it."""
        try:
            return _parse_message(_Reader(bytes(self._message)))
        except IndexError:
            return ClientHello()

    def _read_record_head(self) -> bool:
        head = self.data[self._position : self._position + RECORD_HEAD_BYTES]
        is_whole = len(head) == RECORD_HEAD_BYTES
        self._left = int.from_bytes(head[3:5], "big") if is_whole else 0
        self._is_open = head[0] == HANDSHAKE and (not is_whole or self._left > 0)  # no handshake record is empty
        if is_whole:
            self._position += RECORD_HEAD_BYTES
        return is_whole


class _Reader:
    """Reads octets one after another; raises IndexError past the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def read(self, count: int) -> bytes:
        """Return the next `count` octets."""
        end = self._position + count
        if end > len(self._data):
            raise IndexError
        octets = self._data[self._position : end]
        self._position = end
        return octets

    def read_number(self, octet_count: int) -> int:
        """Return the next number of so many octets."""
        return int.from_bytes(self.read(octet_count), "big")

    def read_vector(self, length_octet_count: int) -> _Reader:
        """Return a reader of the next vector, whose length has this many octets (RFC 8446 3.4)."""
        return _Reader(self.read(self.read_number(length_octet_count)))

    def read_rest(self) -> bytes:
        return self.read(len(self._data) - self._position)

    @property
    def has_more(self) -> bool:
        """Whether octets are left."""
        return self._position < len(self._data)


def _parse_message(message: _Reader) -> ClientHello:
    if message.read_number(1) != CLIENT_HELLO:
        return ClientHello()
    hello = message.read_vector(3)
    hello.read(2 + 32)  # version, random
    hello.read_vector(1)  # session id
    hello.read_vector(2)  # cipher suites
    hello.read_vector(1)  # compression methods
    extensions = hello.read_vector(2)
    server_name, protocols = "", []
    while extensions.has_more:
        kind, extension = extensions.read_number(2), extensions.read_vector(2)
        if kind == SERVER_NAME:
            names = extension.read_vector(2)
            if names.read_number(1) == 0:  # a host name; there is no other kind
                server_name = names.read_vector(2).read_rest().decode("latin-1")
        elif kind == ALPN:
            names = extension.read_vector(2)
            while names.has_more:
                protocols.append(names.read_vector(1).read_rest())
    return ClientHello(server_name, tuple(protocols))
