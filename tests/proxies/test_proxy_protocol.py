"""The PROXY protocol's headers, octet by octet; the clauses are those of HAProxy's proxy-protocol.txt."""

import struct

import pytest

from aserve.proxies.proxy_protocol import (
    SIGNATURE,
    V1_MAX_BYTES,
    V2_MAX_BYTES,
    BadHeader,
    Header,
    crc32c,
    parse_header,
)

pytestmark = pytest.mark.long_on_pypy

REQUEST = b"GET / HTTP/1.1\r\n\r\n"
V4 = bytes([192, 0, 2, 1, 198, 51, 100, 2]) + struct.pack("!HH", 56324, 443)
V6 = bytes.fromhex("20010db8000000000000000000000001 20010db8000000000000000000000002") + struct.pack("!HH", 1, 65535)
MAPPED = bytes(10) + b"\xff\xff\xc0\0\2\1" + bytes(10) + b"\xff\xff\xc6\x33\x64\2" + struct.pack("!HH", 5, 6)
UNIX = b"/run/client".ljust(108, b"\0") + b"/run/server".ljust(108, b"\0")
V4_SAYS = {"source": ("192.0.2.1", 56324), "destination": ("198.51.100.2", 443)}
V6_SAYS = {"source": ("2001:db8::1", 1), "destination": ("2001:db8::2", 65535)}


def v2(version_command, family, block=b""):
    """Return a header of version 2."""
    return SIGNATURE + bytes([version_command, family]) + struct.pack("!H", len(block)) + block


def tlv(kind, value=b""):
    return bytes([kind]) + struct.pack("!H", len(value)) + value


def tls(client):
    return tlv(0x20, struct.pack("!BI", client, 0) + tlv(0x21, b"TLSv1.3") + tlv(0x23, b"TLS_AES_256_GCM_SHA384"))


def with_crc(block):
    """Return a header over TCP and IPv4 whose last TLV is the right checksum."""
    header = v2(0x21, 0x11, block + tlv(3, bytes(4)))
    return header[:-4] + struct.pack("!I", crc32c(header))


GOOD = {
    # 2.1
    "v1 TCP4": (b"PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n", V4_SAYS),
    "v1 TCP6": (b"PROXY TCP6 2001:db8::1 2001:DB8:0:0:0:0:0:2 1 65535\r\n", V6_SAYS),
    "v1 TCP6 longest": (b"PROXY TCP6 " + b" ".join([b":".join([b"ffff"] * 8)] * 2) + b" 65535 65535\r\n", {
        "source": (":".join(["ffff"] * 8), 65535), "destination": (":".join(["ffff"] * 8), 65535)}),
    "v1 TCP6 wraps IPv4": (b"PROXY TCP6 ::ffff:192.0.2.1 ::1 0 0\r\n", {
        "source": ("192.0.2.1", 0), "destination": ("::1", 0)}),
    "v1 UNKNOWN": (b"PROXY UNKNOWN\r\n", {}),
    "v1 UNKNOWN with more": (b"PROXY UNKNOWN ffff::1 whatever \xff 65535\r\n", {}),
    "v1 UNKNOWN longest": (b"PROXY UNKNOWN " + b"x" * (V1_MAX_BYTES - 16) + b"\r\n", {}),
    # 2.2
    "v2 TCP4": (v2(0x21, 0x11, V4), V4_SAYS),
    "v2 UDP4": (v2(0x21, 0x12, V4), V4_SAYS),
    "v2 TCP6": (v2(0x21, 0x21, V6), V6_SAYS),
    "v2 UDP6": (v2(0x21, 0x22, V6), V6_SAYS),
    "v2 TCP6 wraps IPv4": (v2(0x21, 0x21, MAPPED), {"source": ("192.0.2.1", 5), "destination": ("198.51.100.2", 6)}),
    "v2 UNIX": (v2(0x21, 0x31, UNIX), {"is_unix": True}),
    "v2 UNIX datagram": (v2(0x21, 0x32, UNIX), {"is_unix": True}),
    "v2 LOCAL": (v2(0x20, 0x00), {"is_local": True}),
    "v2 LOCAL with addresses": (v2(0x20, 0x11, V4), {"is_local": True}),
    "v2 LOCAL with anything": (v2(0x20, 0x00, b"whatever"), {"is_local": True}),
    "v2 UNSPEC": (v2(0x21, 0x00), {}),
    "v2 UNSPEC with anything": (v2(0x21, 0x00, b"whatever"), {}),
    "v2 family without a transport": (v2(0x21, 0x10, V4), {}),
    "v2 TLVs": (v2(0x21, 0x11, V4 + tlv(1, b"h2") + tlv(2, b"example.com") + tlv(4) + tlv(5, b"id") + tlv(0xEA, b"x")), V4_SAYS),
    "v2 TLS": (v2(0x21, 0x11, V4 + tls(1)), {**V4_SAYS, "is_tls": True}),
    "v2 TLS with a certificate": (v2(0x21, 0x11, V4 + tlv(4) + tls(7) + tlv(4)), {**V4_SAYS, "is_tls": True}),
    "v2 no TLS": (v2(0x21, 0x11, V4 + tls(0)), V4_SAYS),
    "v2 TLS over UNIX": (v2(0x21, 0x31, UNIX + tls(1)), {"is_unix": True, "is_tls": True}),
    "v2 CRC32c": (with_crc(V4), V4_SAYS),
    "v2 CRC32c and more": (with_crc(V4 + tls(1)), {**V4_SAYS, "is_tls": True}),
    "v2 largest": (v2(0x21, 0x11, V4 + tlv(4, bytes(V2_MAX_BYTES - len(V4) - 3))), V4_SAYS),
}  # fmt: skip

BAD = {
    # 2: "Any sequence which does not exactly match the protocol must be discarded"
    "HTTP": (REQUEST, "no PROXY protocol header"),
    "TLS": (b"\x16\x03\x01\x02\x00", "no PROXY protocol header"),
    "an empty line first": (b"\r\n" + REQUEST, "no PROXY protocol header"),
    "small letters": (b"proxy TCP4 192.0.2.1 192.0.2.2 1 2\r\n", "no PROXY protocol header"),
    "no space": (b"PROXYTCP4 192.0.2.1 192.0.2.2 1 2\r\n", "no PROXY protocol header"),
    "a signature with a fault": (SIGNATURE[:-1] + b"\r", "no PROXY protocol header"),
    # 2.1
    "v1 of nothing": (b"PROXY \r\n", "malformed"),
    "v1 another family": (b"PROXY TCP5 192.0.2.1 192.0.2.2 1 2\r\n", "malformed"),
    "v1 UDP": (b"PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n", "malformed"),
    "v1 UNKNOWNS": (b"PROXY UNKNOWNS\r\n", "malformed"),
    "v1 two spaces": (b"PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n", "malformed"),
    "v1 a space behind": (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2 \r\n", "malformed"),
    "v1 a tab": (b"PROXY TCP4\t192.0.2.1 192.0.2.2 1 2\r\n", "malformed"),
    "v1 a port missing": (b"PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n", "malformed"),
    "v1 a leading zero in a port": (b"PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n", "malformed"),
    "v1 a sign": (b"PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n", "malformed"),
    "v1 a port too large": (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n", "bad address or port"),
    "v1 a leading zero in an address": (b"PROXY TCP4 192.0.2.01 192.0.2.2 1 2\r\n", "bad address or port"),
    "v1 three numbers": (b"PROXY TCP4 192.0.2 192.0.2.2 1 2\r\n", "bad address or port"),
    "v1 IPv6 as IPv4": (b"PROXY TCP4 ::1 ::2 1 2\r\n", "bad address or port"),
    "v1 IPv4 as IPv6": (b"PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n", "bad address or port"),
    "v1 two double colons": (b"PROXY TCP6 1::2::3 ::2 1 2\r\n", "bad address or port"),
    "v1 a NUL": (b"PROXY TCP4 192.0.2.1\0 192.0.2.2 1 2\r\n", "malformed"),
    "v1 a bare LF": (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n" + REQUEST, "malformed"),
    "v1 a bare LF, no more": (b"PROXY UNKNOWN\n", "bare CR or LF"),
    "v1 a bare CR": (b"PROXY UNKNOWN\rGET", "bare CR or LF"),
    "v1 a bare CR before the end": (b"PROXY UNKNOWN \r \r\n", "malformed"),
    "v1 too long": (b"PROXY UNKNOWN " + b"x" * (V1_MAX_BYTES - 15) + b"\r\n", "longer than 107"),
    "v1 without an end": (b"PROXY UNKNOWN " + b"x" * 200, "longer than 107"),
    # 2.2
    "v2 version 1": (v2(0x11, 0x11, V4), "version 1"),
    "v2 version 3": (v2(0x31, 0x11, V4), "version 3"),
    "v2 command 2": (v2(0x22, 0x11, V4), "unassigned"),
    "v2 family 4": (v2(0x21, 0x41, V4), "unassigned"),
    "v2 transport 3": (v2(0x21, 0x13, V4), "unassigned"),
    "v2 LOCAL of family 4": (v2(0x20, 0x40), "unassigned"),
    "v2 IPv4 cut off": (v2(0x21, 0x11, V4[:-1]), "11 octets of addresses, and not 12"),
    "v2 IPv6 of IPv4": (v2(0x21, 0x21, V4), "12 octets of addresses, and not 36"),
    "v2 UNIX cut off": (v2(0x21, 0x31, UNIX[:-1]), "215 octets of addresses, and not 216"),
    "v2 too large": (v2(0x21, 0x11, V4 + bytes(V2_MAX_BYTES)), "over the limit"),
    "v2 largest of all": (v2(0x20, 0x00)[:14] + b"\xff\xff", "over the limit"),
    "v2 TLV cut off": (v2(0x21, 0x11, V4 + b"\4\0"), "cut off"),
    "v2 TLV too long": (v2(0x21, 0x11, V4 + b"\4\0\2x"), "longer than the header"),
    "v2 TLS too short": (v2(0x21, 0x11, V4 + tlv(0x20, b"\1\0\0\0")), "too short"),
    "v2 CRC32c of 3 octets": (v2(0x21, 0x11, V4 + tlv(3, bytes(3))), "not of 4"),
    "v2 CRC32c wrong": (with_crc(V4)[:-1] + b"\0", "CRC32c is wrong"),
    "v2 CRC32c of another address": (with_crc(V4).replace(b"\xc0\0\2\1", b"\xc0\0\2\2"), "CRC32c is wrong"),
    "v2 CRC32c twice": (with_crc(with_crc(V4)[16:]), "wrong|second"),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_good_headers_are_read_to_their_end(name):
    """The octets behind a header are not looked at."""
    raw, says = GOOD[name]
    expected = Header(len(raw), **says)
    assert parse_header(raw) == parse_header(raw + REQUEST) == parse_header(raw + raw) == expected


@pytest.mark.parametrize("name", GOOD)
def test_every_prefix_waits(name):
    """A good header is neither accepted nor refused before its last octet."""
    raw, _ = GOOD[name]
    for length in range(len(raw)):
        assert parse_header(raw[:length]) is None, length


@pytest.mark.parametrize("name", BAD)
def test_bad_headers_are_refused_with_the_reason(name):
    raw, reason = BAD[name]
    with pytest.raises(BadHeader, match=reason):
        parse_header(raw)


@pytest.mark.parametrize("name", BAD)
def test_bad_headers_octet_by_octet(name):
    """However the octets come, they are refused, and nothing else is made of them."""
    raw, _ = BAD[name]
    for length in range(len(raw)):
        try:
            assert parse_header(raw[:length]) is None, length
        except BadHeader:
            return
    with pytest.raises(BadHeader):
        parse_header(raw)


def test_a_second_checksum():
    """One is enough, and each would cost a look at the whole header."""
    header = v2(0x21, 0x11, V4 + tlv(3, bytes(4)) + tlv(3, bytes(4)))
    first = 16 + len(V4) + 3
    header = header[:first] + struct.pack("!I", crc32c(header)) + header[first + 4 :]
    with pytest.raises(BadHeader, match="second"):
        parse_header(header)


def test_crc32c_is_of_rfc_3720():
    """RFC 3720 appendix B.4, and the usual check value."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(b"") == 0
