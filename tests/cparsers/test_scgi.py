"""scgi_parse_head: readings and refusals, whatever the limits; splits: test_heads.py."""

from __future__ import annotations

import random

import pytest
from harness.front_vars import own_first

from aserve._cparsers import ffi, lib

pytestmark = pytest.mark.long_on_pypy

LEAD = [["CONTENT_LENGTH", "0"], ["SCGI", "1"]]


def encode(pairs: list[list[str]]) -> bytes:
    """Return the head of some pairs."""
    content = "".join(f"{name}\0{value}\0" for name, value in pairs).encode("latin-1")
    return b"%d:%b," % (len(content), content)


# The corpus


def test_an_accepted_request_means_its_json(accepted_request, parse_request):
    limits = accepted_request.limits
    request = parse_request(accepted_request.raw, **limits)
    assert not isinstance(request, str), request
    expected = accepted_request.expected
    assert request.vars == own_first(expected["vars"], "SCGI")[0]
    assert request.content_length == expected["content_length"]
    assert request.consumed == expected["consumed"]


# The netstring


@pytest.mark.parametrize(
    ("before", "octets", "answer", "otherwise"),
    [
        (b"", b"0123456789", "INCOMPLETE", "NOT_SCGI"),  # another protocol is known at once
        (b"2", b"0123456789:", "INCOMPLETE", "BAD_NETSTRING"),
        (b"0", b":", "LENGTH_NOT_FIRST", "BAD_NETSTRING"),  # the length of no head
    ],
)
def test_octets_of_the_size(parse_request, before, octets, answer, otherwise):
    """A netstring begins with digits and a colon, and no other octet of the 256; a zero is followed by the colon alone."""
    for octet in range(256):
        assert parse_request(before + bytes([octet])) == (answer if octet in octets else otherwise)


def test_a_comma_ends_the_vars(parse_request):
    raw = encode(LEAD)[:-1]
    for octet in range(256):
        answer = parse_request(raw + bytes([octet]))
        assert (answer == "BAD_NETSTRING") == (octet != ord(","))


def test_a_head_reaches_its_limit(parse_request):
    raw = encode(LEAD)
    assert raw.startswith(b"24:")
    assert parse_request(raw, max_head_len=24).consumed == len(raw)
    assert parse_request(raw, max_head_len=23) == "PACKET_TOO_LARGE"
    assert parse_request(b"2", max_head_len=23) == "INCOMPLETE"
    assert parse_request(b"24", max_head_len=23) == "PACKET_TOO_LARGE"
    assert parse_request(b"9", max_head_len=8) == "PACKET_TOO_LARGE"


def test_the_largest_limit_bounds_the_digits(parse_request):
    largest = 2**31 - 16
    assert parse_request(b"%d:" % largest, max_head_len=largest, vars_cap=0) == "INCOMPLETE"
    assert parse_request(b"%d" % (largest + 1), max_head_len=largest, vars_cap=0) == "PACKET_TOO_LARGE"
    assert parse_request(b"9" * 10, max_head_len=largest, vars_cap=0) == "PACKET_TOO_LARGE"


# Vars


def test_a_round_trip_keeps_all_pairs(parse_request):
    rng = random.Random(1)

    def run(low: int) -> str:
        return "".join(chr(rng.randrange(1, 256)) for _ in range(rng.choice([low, 2, 9, 300])))

    for _ in range(300):
        pairs = LEAD + [[name, run(0)] for name in {run(1): 0 for _ in range(rng.randrange(20))}]
        assert parse_request(encode(pairs)).vars == pairs


def test_repeated_names_are_all_passed_on(parse_request):
    """Names may be repeated anywhere: all are passed on, for the reader to take the last."""
    rng = random.Random(3)
    for _ in range(500):
        names = [rng.choice("AB") * rng.randrange(1, 12) + rng.choice("XY") for _ in range(rng.randrange(12))]
        pairs = LEAD + [[name, rng.choice(names)] for name in names]
        assert parse_request(encode(pairs)).vars == pairs


@pytest.mark.parametrize(
    ("value", "expected"),
    [("5", 5), ("", 5), ("05", 5), ("6", 6), ("10", 10), ("4", "REPEATED_VAR"), ("5x", "BAD_CONTENT_LENGTH")],
)
def test_a_repeated_length_leaves_one_end(value, expected, parse_request):
    """A second CONTENT_LENGTH may say the same or nothing, and the environ has the first; or more, which counts."""
    answer = parse_request(encode([["CONTENT_LENGTH", "5"], LEAD[1], ["CONTENT_LENGTH", value]]))
    if isinstance(expected, int):
        assert answer.vars == [["CONTENT_LENGTH", str(expected)], LEAD[1]]
        answer = answer.content_length
    assert answer == expected


def test_mutations_are_read_by_the_specification(parse_request, load_corpus):
    rng = random.Random(2)
    seeds = [case.raw for case in load_corpus("scgi/accept").values() if len(case.raw) < 1000]
    for _ in range(5000):
        raw = rng.choice(seeds)
        content = bytearray(raw[raw.index(b":") + 1 :])
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(content))
            content[at : at + rng.randrange(2)] = rng.choice([b"\0", b"", b"1", b"A", bytes([rng.randrange(256)])])
        answer = parse_request(b"%d:%b," % (len(content), content))
        if content:
            assert (answer if isinstance(answer, str) else answer.vars) == read_plainly(bytes(content))


def read_plainly(content: bytes) -> list[list[str]] | str:
    """Read the vars of a head in the simplest way; at most 100."""
    count, lengths, client_lengths, scgis, kept = 0, [], [], [], []
    while content:
        if count == 100:
            return "TOO_MANY_VARS"
        runs = []
        for _ in range(2):
            run, nul, content = content.partition(b"\0")
            if not nul:
                return "VAR_OVERRUN"
            runs.append(run.decode("latin-1"))
            if not runs[0]:
                return "EMPTY_NAME"
        name, value = runs
        count += 1
        if count == 1 and name != "CONTENT_LENGTH":
            return "LENGTH_NOT_FIRST"
        if name == "CONTENT_LENGTH":
            if (value or not lengths) and not (value.isascii() and value.isdigit() and int(value) < 2**63):
                return "BAD_CONTENT_LENGTH"
            if lengths and value and int(value) < lengths[-1]:
                return "REPEATED_VAR"
            if lengths and value and int(value) > lengths[-1]:
                lengths.append(int(value))
                kept[0][1] = value.rjust(len(kept[0][1]), "0")
            if lengths:
                continue
            lengths.append(int(value))
        if name == "HTTP_CONTENT_LENGTH" and value.isascii() and value.isdigit() and int(value) < 2**63:
            client_lengths.append(int(value))
        if name == "SCGI":
            scgis.append(value)
            if value != "1" or scgis.count("1") > 1:
                continue
        if name not in ("HTTP_PROXY", "HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH") and name[:5] != "wsgi.":
            kept.append(runs)
    if {*scgis} - {""} != {"1"}:
        return "NO_SCGI_1"
    return "LENGTH_CONTRADICTED" if max(client_lengths, default=0) > lengths[-1] else own_first(kept, "SCGI")[0]


def test_vars_reach_their_limit(parse_request):
    raw = encode([*LEAD, ["HTTP_PROXY", "a"]])
    assert parse_request(raw, max_vars=3).vars == LEAD
    assert parse_request(raw, max_vars=2) == "TOO_MANY_VARS"


def test_content_length_has_a_largest_number(parse_request):
    for number in (0, 1, 9, 10, 2**31, 2**32, 2**63 - 1):
        assert parse_request(encode([["CONTENT_LENGTH", str(number)], LEAD[1]])).content_length == number
    for number in (2**63, 2**63 + 1, 2**64, 2**64 + 1, 10**19, 10**20, 10**60):
        assert parse_request(encode([["CONTENT_LENGTH", str(number)], LEAD[1]])) == "BAD_CONTENT_LENGTH"


@pytest.mark.parametrize("template", ["@", "1@", "@1"])
def test_content_length_octets(template, parse_request):
    """A length is digits of ASCII and nothing else."""
    for octet in range(1, 256):
        value = template.replace("@", chr(octet))
        answer = parse_request(encode([["CONTENT_LENGTH", value], LEAD[1]]))
        assert (answer == "BAD_CONTENT_LENGTH") == (octet not in b"0123456789")


# The vars block


def test_nothing_behind_the_room():
    raw = encode([*LEAD, ["HTTP_PROXY", "dropped"], ["A", ""], ["B", "c"]])
    for cap in range(40):
        block = ffi.new("char[]", b"\xaa" * 40)
        head = ffi.new("scgi_head *", {"vars": block, "vars_cap": cap, "max_head_len": 100, "max_vars": 9})
        code = lib.scgi_parse_head(raw, len(raw), head)
        assert code in (lib.ASERVE_VARS_FULL, len(raw))
        assert bytes(ffi.buffer(block, 40))[cap:] == b"\xaa" * (40 - cap)
    assert code == len(raw)


def test_room_that_always_suffices(parse_request):
    """max_head_len octets hold the vars of any head, as scgi.h promises."""
    for more in ([[f"{n}", ""] for n in range(998)], [["A", "b" * 5000]], [["A" * 5000, ""]]):
        raw = encode(LEAD + more)
        max_head_len = int(raw[: raw.index(b":")])
        assert parse_request(raw, max_head_len=max_head_len, max_vars=1000).vars == LEAD + more
