"""A client's first words, as far as we decide about them before OpenSSL does.

Owns:     telling TLS from anything else; the server name and the protocols
          that a client asks for.
Thread:   any; pure.
Spec:     RFC 8446 sections 4.1.2 and 5.1 (ClientHello), RFC 6066 section 3
          (server name), RFC 7301 section 3 (ALPN).
Not here: everything else that a ClientHello says (OpenSSL reads it).

The ssl module has a callback for the server name, but a client that sends one
which is not ASCII makes it write a traceback to standard error; and it does
not tell what a client offers by ALPN.
"""

from __future__ import annotations

from typing import NamedTuple

HANDSHAKE, CLIENT_HELLO = 22, 1  # RFC 8446 5.1: content type; 4: message type
SERVER_NAME, ALPN = 0, 16  # RFC 6066 3, RFC 7301 6: extensions
RECORD_HEAD_BYTES, MESSAGE_HEAD_BYTES = 5, 4
# A ClientHello up to this size is looked at. Guess: those of today are from 200 octets to 4 KiB.
MAX_HELLO_BYTES = 1 << 14
# RFC 8446 6: a fatal alert in a record of its own; 120 is no_application_protocol.
NO_APPLICATION_PROTOCOL = bytes([21, 3, 3, 0, 2, 2, 120])


class ClientHello(NamedTuple):
    """What a client asks for."""

    server_name: str = ""  # as it came, octets as latin-1; empty: it does not say
    protocols: tuple[bytes, ...] = ()  # none: it does not say


def is_tls(data: bytes) -> bool:
    """Whether these first octets (one is enough) can begin a TLS connection."""
    return data[0] == HANDSHAKE and data[1:2] in (b"", b"\x03")


def is_complete(data: bytes) -> bool:
    """Whether the ClientHello has come whole, or is not one that is worth waiting for."""
    message, is_open = _join_records(data)
    if len(data) > MAX_HELLO_BYTES or not is_open or message[:1] not in (b"", b"\x01"):
        return True
    if len(message) < MESSAGE_HEAD_BYTES:
        return False
    return len(message) >= MESSAGE_HEAD_BYTES + int.from_bytes(message[1:4], "big")


def parse(data: bytes) -> ClientHello:
    """
    Return what a ClientHello asks for.

    What is malformed asks for nothing: it is OpenSSL's to judge.
    """
    try:
        return _parse_message(_Reader(_join_records(data)[0]))
    except IndexError:
        return ClientHello()


def _join_records(data: bytes) -> tuple[bytes, bool]:
    """Return the handshake octets of the first records (RFC 8446 5.1), and whether more may belong to them."""
    pieces: list[bytes] = []
    position = 0
    while position < len(data):
        head = data[position : position + RECORD_HEAD_BYTES]
        length = int.from_bytes(head[3:5], "big")
        is_broken = len(head) == RECORD_HEAD_BYTES and not length  # no handshake record is empty
        if head[0] != HANDSHAKE or is_broken:
            return b"".join(pieces), False
        position += RECORD_HEAD_BYTES
        pieces.append(data[position : position + length])
        position += length
    return b"".join(pieces), True


class _Reader:
    """A place in octets; what runs over their end raises IndexError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, count: int) -> bytes:
        """Return so many octets."""
        end = self._position + count
        if end > len(self._data):
            raise IndexError
        octets = self._data[self._position : end]
        self._position = end
        return octets

    def number(self, octet_count: int) -> int:
        """Return a number of so many octets."""
        return int.from_bytes(self.take(octet_count), "big")

    def vector(self, length_octet_count: int) -> _Reader:
        """Return a reader of what a length of so many octets stands before."""
        return _Reader(self.take(self.number(length_octet_count)))

    def take_rest(self) -> bytes:
        """Return all that is left."""
        return self.take(len(self._data) - self._position)

    @property
    def has_more(self) -> bool:
        """Whether the end is not reached."""
        return self._position < len(self._data)


def _parse_message(message: _Reader) -> ClientHello:
    if message.number(1) != CLIENT_HELLO:
        return ClientHello()
    hello = message.vector(3)
    hello.take(2 + 32)  # version, random
    hello.vector(1)  # session id
    hello.vector(2)  # cipher suites
    hello.vector(1)  # compression methods
    extensions = hello.vector(2)
    server_name, protocols = "", []
    while extensions.has_more:
        kind, extension = extensions.number(2), extensions.vector(2)
        if kind == SERVER_NAME:
            names = extension.vector(2)
            if names.number(1) == 0:  # a host's; there is no other kind
                server_name = names.vector(2).take_rest().decode("latin-1")
        elif kind == ALPN:
            names = extension.vector(2)
            while names.has_more:
                protocols.append(names.vector(1).take_rest())
    return ClientHello(server_name, tuple(protocols))
