"""The vars block: field names become CGI variables, in a buffer never overrun."""

import pytest

from aserve._cparsers import ffi, lib

pytestmark = pytest.mark.long_on_pypy

TCHARS = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def vars_of(parse_head, *lines: str) -> list[list[str]]:
    """Return the pairs of some field lines."""
    fields = "".join(f"{line}\r\n" for line in lines)
    return parse_head(f"GET / HTTP/1.0\r\n{fields}\r\n".encode("latin-1")).vars[5:]


def test_the_order_of_pairs_is_fixed(parse_head):
    head = parse_head(b"GET /a%20b?c=%20 HTTP/1.1\r\nB: 1\r\nHost: x\r\nA: 2\r\n\r\n")
    assert head.vars == [
        ["REQUEST_METHOD", "GET"],
        ["REQUEST_URI", "/a%20b?c=%20"],
        ["PATH_INFO", "/a b"],
        ["QUERY_STRING", "c=%20"],
        ["SERVER_PROTOCOL", "HTTP/1.1"],
        ["HTTP_B", "1"],
        ["HTTP_HOST", "x"],
        ["HTTP_A", "2"],
    ]


@pytest.mark.parametrize("octet", TCHARS)
def test_octets_of_names_become_capitals(octet, parse_head):
    expected = "_" if octet == "-" else octet.upper()
    dropped = octet == "_"
    pairs = vars_of(parse_head, f"X{octet}: v")
    assert pairs == ([] if dropped else [["HTTP_X" + expected, "v"]])


@pytest.mark.parametrize(
    ("line", "pairs"),
    [
        ("content-type: a", [["CONTENT_TYPE", "a"]]),
        ("CONTENT-LENGTH: 3", [["CONTENT_LENGTH", "3"]]),
        ("Content-Types: a", [["HTTP_CONTENT_TYPES", "a"]]),
        ("Content-Typo: a", [["HTTP_CONTENT_TYPO", "a"]]),
        ("Content-Lengto: a", [["HTTP_CONTENT_LENGTO", "a"]]),
        ("Content.Type: a", [["HTTP_CONTENT.TYPE", "a"]]),
        ("Content_Type: a", []),
        ("Content_Length: a", []),
        ("Content-Type_: a", []),
        ("_Content-Type: a", []),
        ("Proxy: a", []),
        ("pROXY: a", []),
        ("Proxy-Authorization: a", [["HTTP_PROXY_AUTHORIZATION", "a"]]),
        ("Proxx: a", [["HTTP_PROXX", "a"]]),
        ("Prox: a", [["HTTP_PROX", "a"]]),
        ("Remote-User: a", [["HTTP_REMOTE_USER", "a"]]),
        ("Https: on", [["HTTP_HTTPS", "on"]]),
    ],
)
def test_no_name_stands_for_a_server_variable(line, pairs, parse_head):
    """No field can stand for a variable of the server, nor for another field."""
    assert vars_of(parse_head, line) == pairs


def test_values_are_raw(parse_head):
    """A value's octets pass unchanged, without the white space around them."""
    value = "".join(map(chr, [*range(0x21, 0x7F), 9, 32, *range(0x80, 0x100)]))
    assert vars_of(parse_head, f"A: \t{value} \t") == [["HTTP_A", value]]


def test_repeated_fields_stay_apart(parse_head):
    """Joining repeated fields is the reader's business."""
    assert vars_of(parse_head, "A: 1", "a: 2") == [["HTTP_A", "1"], ["HTTP_A", "2"]]


def test_nothing_behind_the_room():
    raw = b"GET /%41%42?c HTTP/1.1\r\nHost: x\r\nContent-Type: t\r\nA_B: dropped\r\nA-B: c\r\n\r\n"
    for cap in range(160):
        block = ffi.new("char[]", b"\xaa" * 160)
        head = ffi.new("http1_head *", {"vars": block, "vars_cap": cap})
        head.max_line_len = head.max_head_len = head.max_fields = 1000
        code = lib.http1_parse_head(raw, len(raw), 0, head)
        assert code in (lib.ASERVE_VARS_FULL, len(raw))
        assert bytes(ffi.buffer(block, 160))[cap:] == b"\xaa" * (160 - cap)
    assert code == len(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\nHost:\r\n" + b"a:\r\n" * 1000 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost:\r\n" + b"a:b\r\n" * 1000 + b"\r\n",
        b"G / HTTP/1.0\r\n\r\n",
        b"G /" + b"a" * 4000 + b" HTTP/1.0\r\n\r\n",
        b"G /?" + b"a" * 4000 + b" HTTP/1.0\r\n\r\n",
        b"G http://" + b"a" * 4000 + b" HTTP/1.0\r\n\r\n",
        b"G http://" + b"a" * 4000 + b" HTTP/1.1\r\nHost:\r\n\r\n",
    ],
    ids=["names", "pairs", "shortest", "path", "query", "authority 1.0", "authority 1.1"],
)
def test_room_that_always_suffices(raw, parse_head):
    """2 * max_head_len + 256 octets hold the vars of any head, as http1.h promises."""
    vars_cap = 2 * len(raw) + 256
    head = parse_head(raw, max_head_len=len(raw), max_line_len=len(raw), max_fields=2000, vars_cap=vars_cap)
    assert head.consumed == len(raw)
