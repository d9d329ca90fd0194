"""known_parse_head: the answer of http1_parse_head, or none; the kept sections."""

import pytest
from harness.lanes import GET, Lane

from aserve._cparsers import ffi, lib

FIELDS = b"Host: a\r\nX-Name: one\r\nCookie: a=b\r\n\r\n"
HEAD = b"GET /a%20b?c HTTP/1.1\r\n" + FIELDS


class Parsed:
    """A call of a parser: the result, and the findings."""

    def __init__(self, raw, known=None, **limits):
        self.vars = ffi.new("char[]", limits.get("vars_cap", 1 << 17))
        self.head = ffi.new("http1_head *")
        self.head.vars, self.head.vars_cap = self.vars, len(self.vars)
        for name, value in {"max_line_len": 8190, "max_head_len": 65536, "max_fields": 100, **limits}.items():
            setattr(self.head, name, value)
        octets = ffi.new("char[]", raw)  # the exact size, but for a last NUL
        if known is None:
            self.code = lib.http1_parse_head(octets, len(raw), 0, self.head)
        else:
            self.code = lib.known_parse_head(known, octets, len(raw), self.head)

    @property
    def found(self):
        """Return everything visible to a caller."""
        head = self.head
        block = ffi.buffer(self.vars, head.vars_len + 1)[:]
        return self.code, head.flags, head.content_length, head.nvars, head.fields_off, block


def keep(raw, **limits):
    """Return the section of a parsed head; None: no section was kept, and all stayed the same."""
    known, parsed = ffi.new("known_section *"), Parsed(raw, **limits)
    assert parsed.code > 0
    if lib.known_keep(known, raw, parsed.code, parsed.head):
        return known
    assert known.raw_len == 0
    return None


def test_the_corpus_means_the_same_again(accepted_head):
    """Each good head with a kept section means the same the second time, whatever follows."""
    raw, limits = accepted_head.raw, accepted_head.limits
    known = keep(raw, **limits)
    if known is not None:
        for octets in (raw, raw + b"GET / HTTP/1.1\r\n"):
            assert Parsed(octets, known, **limits).found == Parsed(octets, **limits).found


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1",
        b"HEAD /a?b=c HTTP/1.1",
        b"POST /%41 HTTP/1.9",
        b"OPTIONS * HTTP/1.1",
        b"DELETE /" + b"x" * 3000 + b" HTTP/1.1",
    ],
)
@pytest.mark.parametrize("fields", [FIELDS, b"Content-Length: 3\r\nX-Forwarded-For: b\r\n" + FIELDS])
def test_another_requests_line_is_its_own(line, fields):
    known = keep(b"GET / HTTP/1.1\r\n" + fields)
    raw = line + b"\r\n" + fields
    assert Parsed(raw, known).found == Parsed(raw).found


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.0",
        b"GET http://other/ HTTP/1.1",
        b"GET /%00 HTTP/1.1",
        b"GET /\tHTTP/1.1",
        b"GET  / HTTP/1.1",
        b"CONNECT a:1 HTTP/1.1",
        b"",
        b"\r\nGET / HTTP/1.1",
        b"GET / HTTP/1.1\rX",
    ],
)
def test_another_kind_of_request(line):
    """A bad head, or a head with a meaning beyond the section, is left to http1_parse_head."""
    assert Parsed(line + b"\r\n" + FIELDS, keep(HEAD)).code == 0


def test_another_section_is_not_known():
    """A section with one different octet, or not there as a whole, is another."""
    known = keep(HEAD)
    begin = HEAD.index(b"\n") + 1
    for at in range(begin, len(HEAD)):
        assert Parsed(HEAD[:at] + bytes([HEAD[at] ^ 1]) + HEAD[at + 1 :], known).code == 0
        assert Parsed(HEAD[:at], known).code == 0
    assert Parsed(HEAD.replace(b"\r\n", b"\n", 1), known).code == 0
    assert Parsed(HEAD, ffi.new("known_section *")).code == 0


def test_limits_are_left_to_the_parser():
    """A crossed limit is http1_parse_head's to tell; at the limit the head passes."""
    known, found = keep(HEAD), Parsed(HEAD)
    line_len = HEAD.index(b"\r")
    for limits in (
        {"max_line_len": line_len},
        {"max_head_len": len(HEAD)},
        {"vars_cap": found.head.vars_len + 1},
    ):
        assert Parsed(HEAD, known, **limits).found == found.found
        below = {name: value - 1 for name, value in limits.items()}
        assert Parsed(HEAD, known, **below).code == 0
    assert Parsed(HEAD, known, vars_cap=20).code == 0


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (b"GET / HTTP/1.1", b"Authorization: Basic x\r\n"),
        (b"GET / HTTP/1.1", b"Proxy-Authorization: Basic x\r\n"),
        (b"POST / HTTP/1.1", b"Transfer-Encoding: chunked\r\n"),
        (b"POST / HTTP/1.1", b"Content-Length: 1\r\nExpect: 100-continue\r\n"),
        (b"GET / HTTP/1.1", b"Connection: close\r\n"),
        (b"GET / HTTP/1.1", b"Connection: upgrade\r\nUpgrade: websocket\r\n"),
        (b"DELETE / HTTP/1.1", b"Connection: upgrade\r\nUpgrade: websocket\r\n"),
        (b"GET / HTTP/1.0", b"Connection: keep-alive\r\n"),
        (b"HEAD / HTTP/1.1", b""),
        (b"GET http://other/ HTTP/1.1", b""),  # the pairs and the section differ in Host
        (b"\r\nGET / HTTP/1.1", b""),
        (b"GET / HTTP/1.1", b"X: " + b"x" * lib.KNOWN_RAW_MAX + b"\r\n"),
        (b"GET / HTTP/1.1", b"X:\r\n" * 400),
    ],
    ids=["authorization", "proxy", "chunked", "expect", "close", "upgrade", "upgrade-other", "1.0", "head", "absolute-form",
         "empty-line", "long", "many"],
)  # fmt: skip
def test_what_is_not_kept(line, fields):
    """Credentials, sections with a meaning by the request line, and too long sections."""
    assert keep(line + b"\r\n" + fields + FIELDS, max_fields=500) is None


def test_the_hash_is_of_the_section_alone():
    heads = [b"GET /%d HTTP/1.1\r\n" % number + FIELDS for number in range(3)]
    hashes = {lib.known_hash(raw, len(raw)) for raw in heads}
    assert len(hashes) == 1 and 0 not in hashes
    others = [HEAD[:-2] + b"X: %d\r\n\r\n" % number for number in range(100)]
    assert len({lib.known_hash(raw, len(raw)) for raw in others}) > 90
    assert lib.known_hash(b"GET", 3) == 1


@pytest.mark.skipif(not lib.lane_available(), reason="a lane needs Linux")
def test_in_a_lane(lane: Lane):
    """A section is kept the second time on a connection, and not parsed from then on."""
    client = lane.connect()
    for number in range(3):
        client.sendall(GET)
        arrival = lane.poll_one()
        assert arrival.vars["HTTP_HOST"] == ("b" if number == 2 else "a")
        section = lane.set.known[lane.set.conns[arrival.fd].section % lib.LANE_KNOWN]
        assert bool(section.raw_len) == (number > 0)
        lane.reply(arrival.fd)
        section.vars = ffi.buffer(section.vars)[:].replace(b"HTTP_HOST\0a\0", b"HTTP_HOST\0b\0")
    client.sendall(GET.replace(b": a", b": c"))
    assert lane.poll_one().vars["HTTP_HOST"] == "c"


@pytest.mark.parametrize("field", [b"X: x", b"X:" + b"\r\nX:" * 200 + b"x"], ids=["raw", "pairs"])
def test_sections_about_as_long_as_their_place(field):
    """The longest section with room is kept, and is whole; a section longer by an octet is not kept."""
    kept = []
    for more in range(3000):
        raw = b"GET / HTTP/1.1\r\nHost: a\r\n" + field + b"x" * more + b"\r\n\r\n"
        known = keep(raw, max_fields=500)
        if known is not None:
            kept.append(more)
            assert Parsed(raw, known, max_fields=500).found == Parsed(raw, max_fields=500).found
            longest = known
    assert kept == list(range(len(kept))) and 0 < len(kept) < 3000
    assert longest.raw_len == lib.KNOWN_RAW_MAX or longest.vars_len == lib.KNOWN_VARS_MAX


@pytest.mark.skipif(not lib.lane_available(), reason="a lane needs Linux")
def test_more_sections_than_places(lane: Lane):
    """Each request has the fields of that request alone, whatever sections are kept."""
    client = lane.connect()
    for number in range(2 * 3 * lib.LANE_KNOWN):
        host = f"h{number // 2}.shop.example"
        client.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        arrival = lane.poll_one()
        assert arrival.vars["HTTP_HOST"] == host
        assert lane.reply(arrival.fd) == 2 and client.recv(9) == b"ok"
    assert sum(bool(section.raw_len) for section in lane.owned["known"]) > lib.LANE_KNOWN // 2
