"""The octets of RPC calls; replies are in test_registry.py and test_client.py."""

import struct

from aserve import rpc


def test_encode_call_has_name_and_arguments():
    """Text is sent as UTF-8, octets unchanged."""
    assert rpc.encode_call("hello", ("a", b"b")) == b"\xad\x0d\x00\x00\x05\x00hello\x01\x00a\x01\x00b"
    packet = b"\xad\x0c\x00\x00\x01\x00f\x02\x00\xc3\xa9\x01\x00b\x00\x00"
    assert rpc.encode_call(b"f", ("é", memoryview(b"b"), bytearray())) == packet


def test_encode_the_largest():
    """A packet holds 65,535 octets, and 254 arguments."""
    assert len(rpc.encode_call("f", (b"x" * 65530,))) == 4 + 65535
    assert rpc.encode_call("f", (b"",) * 254)[:4] == b"\xad" + struct.pack("<H", 3 + 254 * 2) + b"\0"
