"""The PROXY protocol, versions 1 and 2: a balancer's header before the first octet of a connection.

Owns:     the grammar of a header: octets in, a Header out. Pure.
Thread:   any.
Spec:     proxy-protocol.txt of HAProxy, sections 2.1 and 2.2.
Not here: the peers with a header, the duty to send one, the effect (connections/accepting/greeting.py).
"""

from __future__ import annotations

import struct

from ..core.named_tuple import NamedTuple
from ..core.patterns import lazy_pattern
from .peers import pack, unpack

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"  # 2.2
V1_START = b"PROXY "
V1_MAX_BYTES = 107  # 2.1: the longest line, CRLF counted
# The most octets after the first 16 of version 2: addresses, 216 at most, and TLVs. As much as in nginx.
V2_MAX_BYTES = 4096

LOCAL, PROXY = 0, 1
UNSPEC, INET, INET6, UNIX = range(4)
STREAM, DGRAM = 1, 2
_ADDRESSES = {INET: struct.Struct("!4s4sHH"), INET6: struct.Struct("!16s16sHH"), UNIX: struct.Struct("!108s108s")}
TYPE_CRC32C = 0x03
TYPE_SSL = 0x20
CLIENT_SSL = 0x01  # 2.2.6: the client connected over TLS
_SSL_MIN_BYTES = 5  # flags, verify

_V1_LINE = lazy_pattern(rb"PROXY TCP([46]) ([0-9A-Fa-f:.]+) ([0-9A-Fa-f:.]+) (0|[1-9][0-9]{0,4}) (0|[1-9][0-9]{0,4})")
_V1_UNKNOWN = lazy_pattern(rb"PROXY UNKNOWN(?: [^\r\n]*)?")


class BadHeader(Exception):
    """The octets are not a header of the PROXY protocol; the text says why."""


class Header(NamedTuple):
    """The content of a header."""

    size: int  # octets of the header
    is_local: bool = False  # the balancer's own connection, as for a health check: no client is named
    source: tuple[str, int] | None = None  # the client's address and port; None: not said, or no IP address
    destination: tuple[str, int] | None = None  # the client's address of this side
    is_unix: bool = False  # the client connected to the balancer's unix socket
    is_tls: bool = False  # the client connected over TLS, ended at the balancer


def parse_header(data: bytes) -> Header | None:
    """
    Parse the header at the beginning of a connection; None: more octets are needed.

    At most V1_MAX_BYTES, or 16 + V2_MAX_BYTES, are ever needed. Octets after the
    header are not read.

    Raises:
        BadHeader: the octets are no header.
    """
    if data.startswith(SIGNATURE):
        return _parse_v2(data)
    if data.startswith(V1_START):
        return _parse_v1(data)
    if SIGNATURE.startswith(data) or V1_START.startswith(data):
        return None
    raise BadHeader(f"it began with {data[:12]!r} and no PROXY protocol header")


# 2.1 Version 1


def _parse_v1(data: bytes) -> Header | None:
    end = data.find(b"\r\n", 0, V1_MAX_BYTES)
    if end < 0:
        if len(data) >= V1_MAX_BYTES:
            raise BadHeader(f"the PROXY line is longer than {V1_MAX_BYTES} octets")
        if b"\n" in data or b"\r" in data[:-1]:
            raise BadHeader("a bare CR or LF in the PROXY line")
        return None
    line, size = data[:end], end + 2
    if _V1_UNKNOWN.fullmatch(line):
        return Header(size)
    match = _V1_LINE.fullmatch(line)
    if match is None:
        raise BadHeader(f"the PROXY line is malformed: {line!r}")
    ports = int(match[4]), int(match[5])
    addresses = [_checked(match[index].decode("ascii"), match[1] == b"6") for index in (2, 3)]
    if None in addresses or max(ports) > 65535:
        raise BadHeader(f"the PROXY line has a bad address or port: {line!r}")
    source, destination = addresses
    assert source is not None and destination is not None
    return Header(size, source=(source, ports[0]), destination=(destination, ports[1]))


def _checked(address: str, is_v6: bool) -> str | None:
    """Return the usual text of an address, of the family named in the line."""
    packed = pack(address)
    return None if packed is None or (":" in address) != is_v6 else unpack(packed)


# 2.2 Version 2


def _parse_v2(data: bytes) -> Header | None:
    if len(data) < 16:
        return None
    version_command, family_transport = data[12], data[13]
    size = 16 + int.from_bytes(data[14:16], "big")
    command, family, transport = version_command & 15, family_transport >> 4, family_transport & 15
    if version_command >> 4 != 2:
        raise BadHeader(f"version {version_command >> 4} in a header of version 2")
    if command > PROXY or family > UNIX or transport > DGRAM:
        raise BadHeader(f"unassigned octets {data[12:14].hex()} in a header of version 2")
    if size > 16 + V2_MAX_BYTES:
        raise BadHeader(f"the header is over the limit of {16 + V2_MAX_BYTES} octets")
    if len(data) < size:
        return None
    if command == LOCAL:
        return Header(size, is_local=True)  # 2.2: the rest is to be ignored
    header = Header(size)
    offset = 16
    if family != UNSPEC:
        layout = _ADDRESSES[family]
        offset += layout.size
        if offset > size:
            raise BadHeader(f"{size - 16} octets of addresses, and not {layout.size}")
        header = _announce(header, family, transport, layout.unpack_from(data, 16))
        # Without a family the start of the TLVs is unknown: skip the TLVs.
        header = header._replace(is_tls=_read_tlvs(data[:size], offset))
    return header


def _announce(header: Header, family: int, transport: int, addresses: tuple[bytes, ...]) -> Header:
    if family == UNIX:
        return header._replace(is_unix=True)
    if not transport:
        return header  # "The receiver should ignore address information."
    # Lenient: UDP is accepted; the client came by another transport (HTTP/3).
    source, destination, source_port, destination_port = addresses
    return header._replace(
        source=(_text(source), int(source_port)), destination=(_text(destination), int(destination_port))
    )


def _text(packed: bytes) -> str:
    return unpack(pack(unpack(packed)) or packed)  # IPv4 mapped to IPv6 is shown as IPv4


def _read_tlvs(header: bytes, offset: int) -> bool:
    """Check all type-length-value triples; return whether the client came over TLS."""
    is_tls = has_crc = False
    while offset < len(header):
        if offset + 3 > len(header):
            raise BadHeader("a TLV is cut off")
        kind, length = header[offset], int.from_bytes(header[offset + 1 : offset + 3], "big")
        offset += 3
        value = header[offset : offset + length]
        if len(value) < length:
            raise BadHeader(f"TLV {kind:#04x} of {length} octets is longer than the header")
        if kind == TYPE_CRC32C:
            if has_crc:  # each costs a pass over the whole header
                raise BadHeader("a second CRC32c")
            has_crc = True
            _check_crc32c(header, offset, value)
        elif kind == TYPE_SSL:
            if length < _SSL_MIN_BYTES:
                raise BadHeader("the TLV about TLS is too short")
            is_tls = bool(value[0] & CLIENT_SSL)
        offset += length
    return is_tls


def _check_crc32c(header: bytes, offset: int, value: bytes) -> None:
    if len(value) != 4:
        raise BadHeader("the CRC32c is not of 4 octets")
    if crc32c(header[:offset] + bytes(4) + header[offset + 4 :]) != int.from_bytes(value, "big"):
        raise BadHeader("the CRC32c is wrong")


def _crc_of(octet: int) -> int:
    for _ in range(8):
        octet = octet >> 1 ^ (0x82F63B78 if octet & 1 else 0)  # Castagnoli's polynomial, bits reversed
    return octet


_CRC_TABLE = [_crc_of(octet) for octet in range(256)]


def crc32c(data: bytes) -> int:
    """Return the CRC32c of some octets (RFC 4960 appendix B)."""
    crc = 0xFFFFFFFF
    for octet in data:
        crc = crc >> 8 ^ _CRC_TABLE[(crc ^ octet) & 0xFF]
    return crc ^ 0xFFFFFFFF
