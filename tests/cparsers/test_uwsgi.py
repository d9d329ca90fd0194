"""uwsgi_parse_packet and uwsgi_parse_array: readings and refusals; splits: test_heads.py."""

from __future__ import annotations

import random
import struct

import pytest
from harness.front_vars import own_first

from aserve._cparsers import ffi, lib

pytestmark = pytest.mark.long_on_pypy

SERVED = {lib.UWSGI_WSGI, lib.UWSGI_WSGI_MOUNT, lib.UWSGI_PING, lib.UWSGI_RPC}
CAPITALS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
PAIRS = [["REQUEST_METHOD", "POST"], ["QUERY_STRING", ""], ["CONTENT_LENGTH", "5"]]


def encode_run(text: str) -> bytes:
    """Return a 16-bit length and the octets."""
    return struct.pack("<H", len(text)) + text.encode("latin-1")


def encode(pairs: list[list[str]], modifier1: int = 0, modifier2: int = 0) -> bytes:
    """Return the packet of some pairs."""
    data = b"".join(encode_run(name) + encode_run(value) for name, value in pairs)
    return struct.pack("<BHB", modifier1, len(data), modifier2) + data


# The corpus


def test_an_accepted_packet_means_its_json(accepted_packet, parse_packet):
    packet = parse_packet(accepted_packet.raw, **accepted_packet.limits)
    assert not isinstance(packet, str), packet
    expected = accepted_packet.expected
    assert packet.vars == own_first(expected["vars"])[0]
    assert packet.items == expected.get("items", [])
    assert packet.content_length == expected["content_length"]
    assert (packet.modifier1, packet.modifier2) == (expected["modifier1"], expected["modifier2"])
    assert packet.consumed == expected["consumed"]


# Splits


def test_other_protocols_do_not_wait(load_corpus, parse_packet):
    """TLS is known by two octets, HTTP by four."""
    for case in load_corpus("uwsgi/reject").values():
        if case.expected["error"] == "NOT_UWSGI":
            known = 2 if case.raw[0] == 0x16 else 4
            assert parse_packet(case.raw[: known - 1]) == "INCOMPLETE"
            assert parse_packet(case.raw[:known]) == "NOT_UWSGI"


def test_size_does_not_wait(parse_packet):
    """A packet over the limit is refused at the header's last octet."""
    for modifier1 in SERVED:
        header = struct.pack("<BHB", modifier1, 101, 0)
        assert parse_packet(header[:3], max_packet_len=100) == "INCOMPLETE"
        assert parse_packet(header, max_packet_len=100) == "PACKET_TOO_LARGE"
        assert parse_packet(header, max_packet_len=101) == "INCOMPLETE"


# The header


@pytest.mark.parametrize("modifier1", range(256))
def test_an_unserved_modifier1_reads_only_the_header(modifier1, parse_packet):
    """Served packets are read whole; of the rest, only the header, for a refusal at once."""
    raw = encode(PAIRS, modifier1, 9)
    packet = parse_packet(raw)
    if modifier1 == lib.UWSGI_RPC:
        assert (packet.consumed, packet.vars) == (len(raw), [])
        assert packet.items == [text for pair in PAIRS for text in pair if text]
    elif modifier1 in SERVED:
        is_request = modifier1 != lib.UWSGI_PING
        assert (packet.consumed, packet.vars) == (len(raw), own_first(PAIRS)[0] if is_request else [])
        assert packet.content_length == (5 if is_request else 0)
    else:
        assert (packet.consumed, packet.vars, packet.content_length) == (4, [], 0)
        assert parse_packet(raw[:4]) == packet
    assert (packet.modifier1, packet.modifier2) == (modifier1, 9)


@pytest.mark.parametrize("place", range(4))
def test_http_is_known_by_four_octets(place, parse_packet):
    """HTTP is three capitals and a fourth or a space; another octet at any place is not HTTP."""
    taken = set()
    for octet in range(256):
        raw = bytearray(b"POST")
        raw[place] = octet
        if parse_packet(bytes(raw)) == "NOT_UWSGI":
            taken.add(octet)
    assert taken == set(CAPITALS + (b" " if place == 3 else b""))


def test_served_is_never_another_protocol(parse_packet):
    """No served packet can be taken for HTTP or TLS, whatever its size and modifier2."""
    for modifier1 in SERVED:
        for second in [*CAPITALS, 3]:
            for rest in (b"ET ", b"ETT", b"\1\2\0"):
                raw = bytes([modifier1, second]) + rest[:2]
                assert parse_packet(raw) in ("INCOMPLETE", "PACKET_TOO_LARGE")


def test_results_are_made_anew():
    """An earlier packet's values in the struct do not reach the next one."""
    block = ffi.new("char[]", 1000)
    packet = ffi.new("uwsgi_packet *", {"vars": block, "vars_cap": 1000, "max_packet_len": 1000, "max_vars": 9})
    first, ping = encode(PAIRS), b"\x64\0\0\0"
    assert lib.uwsgi_parse_packet(first, len(first), packet) == len(first)
    assert (packet.nvars, packet.content_length) == (3, 5)
    for raw in (ping, encode([["A", "b"]]), encode([]), b"\x05\0\0\0"):
        assert lib.uwsgi_parse_packet(raw, len(raw), packet) == len(raw)
        assert packet.content_length == 0
        assert packet.nvars == (len(raw) > 4)


# Vars


def test_a_round_trip_keeps_all_pairs(parse_packet):
    rng = random.Random(1)
    for _ in range(300):
        pairs = [
            ["".join(chr(rng.randrange(1, 256)) for _ in range(rng.choice([low, 1, 9, 300]))) for low in (1, 0)]
            for _ in range(rng.randrange(20))
        ]
        packet = parse_packet(encode(pairs))
        assert packet.vars == own_first(pairs)[0]


def test_mutations_are_read_by_the_specification(parse_packet, load_corpus):
    rng = random.Random(2)
    seeds = [case.raw for case in load_corpus("uwsgi/accept").values() if len(case.raw) < 1000]
    for _ in range(5000):
        raw = bytearray(rng.choice(seeds)[4:])
        for _ in range(rng.randrange(1, 4)):
            if raw:
                raw[rng.randrange(len(raw))] = rng.choice([0, 1, 2, 0xFF, rng.randrange(256)])
        data = bytes(raw[: rng.randrange(len(raw) + 1)] if rng.random() < 0.3 else raw)
        answer = parse_packet(struct.pack("<BHB", 0, len(data), 0) + data)
        assert (answer if isinstance(answer, str) else answer.vars) == read_plainly(data)


def read_plainly(data: bytes) -> list[list[str]] | str:
    """Read the vars of a packet in the simplest way; at most 100."""
    pairs, kept = 0, []
    while data:
        pairs += 1
        if pairs > 100:
            return "TOO_MANY_VARS"
        runs = []
        for _ in range(2):
            length = int.from_bytes(data[:2], "little")
            if len(data) < 2 or len(data) < 2 + length:
                return "VAR_OVERRUN"
            runs.append(data[2 : 2 + length].decode("latin-1"))
            data = data[2 + length :]
            if not runs[0]:
                return "EMPTY_NAME"
        if any("\0" in run for run in runs):
            return "NUL_IN_VAR"
        digits = runs[1][: len(runs[1]) - len(runs[1].lstrip("0123456789"))]
        if runs[0] == "CONTENT_LENGTH" and int(digits or "0") >= 2**63:
            return "BAD_CONTENT_LENGTH"
        if runs[0] not in ("HTTP_PROXY", "HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH") and runs[0][:5] != "wsgi.":
            kept.append(runs)
    return own_first(kept)[0]


def test_vars_reach_their_limit(parse_packet):
    raw = encode([["HTTP_PROXY", "a"], ["A", "b"], ["A", "c"]])
    assert parse_packet(raw, max_vars=3).vars == [["A", "b"], ["A", "c"]]
    assert parse_packet(raw, max_vars=2) == "TOO_MANY_VARS"


def test_content_length_has_a_largest_number(parse_packet):
    for number in (0, 1, 9, 10, 2**31, 2**32, 2**63 - 1):
        assert parse_packet(encode([["CONTENT_LENGTH", str(number)]])).content_length == number
    for number in (2**63, 2**63 + 1, 2**64, 2**64 + 1, 10**19, 10**20, 10**60):
        assert parse_packet(encode([["CONTENT_LENGTH", str(number)]])) == "BAD_CONTENT_LENGTH"


def test_content_length_octets(parse_packet):
    """Digits are ASCII's; every further octet ends the number."""
    for octet in range(1, 256):
        packet = parse_packet(encode([["CONTENT_LENGTH", f"1{chr(octet)}2"]]))
        assert packet.content_length == (int(f"1{chr(octet)}2") if octet in b"0123456789" else 1)


# The vars block


def test_nothing_behind_the_room():
    raw = encode([["A", ""], ["HTTP_PROXY", "dropped"], ["REQUEST_METHOD", "GET"], ["B", "c"]])
    for cap in range(40):
        block = ffi.new("char[]", b"\xaa" * 40)
        packet = ffi.new("uwsgi_packet *", {"vars": block, "vars_cap": cap, "max_packet_len": 100, "max_vars": 9})
        code = lib.uwsgi_parse_packet(raw, len(raw), packet)
        assert code in (lib.ASERVE_VARS_FULL, len(raw))
        assert bytes(ffi.buffer(block, 40))[cap:] == b"\xaa" * (40 - cap)
    assert code == len(raw)


def test_room_that_always_suffices(parse_packet):
    """max_packet_len octets hold the vars of any packet, as uwsgi.h promises."""
    for pairs in ([["A", ""]] * 1000, [["A", "b" * 5000]], [["A" * 5000, ""]]):
        raw = encode(pairs)
        packet = parse_packet(raw, max_packet_len=len(raw) - 4, max_vars=1000)
        assert packet.vars == pairs


# Arrays


def parse_array(data: bytes, cap: int) -> list[tuple[int, int]] | int:
    """Return the spans of an array, or the error; check that later ones are untouched."""
    spans = ffi.new("aserve_span[]", [{"off": 99, "len": 99}] * (cap + 1))
    count = lib.uwsgi_parse_array(data, len(data), spans, cap)
    assert count <= cap
    assert all((span.off, span.len) == (99, 99) for span in spans[max(count, 0) if count >= 0 else cap : cap + 1])
    return [(span.off, span.len) for span in spans[0:count]] if count >= 0 else count


def test_an_array_gives_spans():
    assert parse_array(b"", 0) == []
    assert parse_array(b"\0\0\0\0", 0) == []
    assert parse_array(b"\1\0a\0\0\2\0bc", 2) == [(2, 1), (7, 2)]
    assert parse_array(b"\0\1" + b"a" * 256, 1) == [(2, 256)]


def test_an_array_reaches_its_limit():
    data = b"\1\0a" * 3 + b"\0\0"
    assert len(parse_array(data, 3)) == 3
    assert parse_array(data, 2) == lib.ASERVE_TOO_MANY_VARS
    assert parse_array(data, 0) == lib.ASERVE_TOO_MANY_VARS


@pytest.mark.parametrize("data", [b"\1", b"\1\0", b"\2\0a", b"\1\0a\0", b"\1\0a\xff\xff", b"\0\0\1"])
def test_an_array_never_overruns_the_data(data):
    assert parse_array(data, 9) == lib.ASERVE_VAR_OVERRUN


def test_array_first_fault():
    """The first fault in the order of the wire is reported."""
    assert parse_array(b"\1\0a\1\0b\xff", 1) == lib.ASERVE_TOO_MANY_VARS
    assert parse_array(b"\1\0a\2\0b", 1) == lib.ASERVE_VAR_OVERRUN
