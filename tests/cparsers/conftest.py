"""The corpus as test parameters, and the C parsers as functions of Python values.

A test that asks for `accepted_head` or `any_head` runs once for each such file below tests/corpus/http1; likewise for `_body` and chunked,
`accepted_packet` and uwsgi, `accepted_request` and scgi. `accepted`, `rejected` and `any_case` are of the three kinds of heads: (the parser with the
case's limits, the octets, the expected result).
"""

from __future__ import annotations

import functools
import json
import pathlib
import resource
from typing import Any, NamedTuple

import pytest
from harness.lanes import Lane

from aserve._cparsers import ffi, lib

CORPUS = pathlib.Path(__file__).parent.parent / "corpus"
FOLDERS = {
    "accepted_head": ["http1/accept"],
    "any_head": ["http1/accept", "http1/reject"],
    "accepted_body": ["chunked/accept"],
    "rejected_body": ["chunked/reject"],
    "any_body": ["chunked/accept", "chunked/reject"],
    "accepted_packet": ["uwsgi/accept"],
    "accepted_request": ["scgi/accept"],
}
ERRORS = {
    getattr(lib, name): name[len("ASERVE_") :]
    for name in dir(lib)
    if name.startswith("ASERVE_") and name != "ASERVE_LAST_ERROR"
}
FLAGS = [
    "KEEP_ALIVE",
    "VERSION_1_1",
    "HEAD",
    "LENGTH",
    "CHUNKED",
    "EXPECT_CONTINUE",
    "FORWARDED",
    "WEBSOCKET",
    "DROPPED",
]


class Case(NamedTuple):
    """A file of the corpus, and the JSON beside the file."""

    raw: bytes
    expected: dict[str, Any]

    @property
    def limits(self) -> dict[str, int]:
        """The case's own limits, in place of the usual limits."""
        return self.expected.get("limits", {})


class Head(NamedTuple):
    """An accepted head."""

    consumed: int
    flags: list[str]
    content_length: int
    vars: list[list[str]]


class Body(NamedTuple):
    """A chunked decoder's result."""

    consumed: int
    is_done: bool
    content: bytes


class Packet(NamedTuple):
    """An accepted uwsgi packet; a packet of RPC has items."""

    consumed: int
    modifier1: int
    modifier2: int
    content_length: int
    vars: list[list[str]]
    items: list[str]


class Request(NamedTuple):
    """An accepted head of SCGI."""

    consumed: int
    content_length: int
    vars: list[list[str]]


def load(folder: str) -> dict[str, Case]:
    """Return the cases of a folder of the corpus by name."""
    return {
        path.stem: Case(path.read_bytes(), json.loads(path.with_suffix(".json").read_text()))
        for path in sorted((CORPUS / folder).glob("*.raw"))
    }


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test its files."""
    for fixture, folders in FOLDERS.items():
        if fixture in metafunc.fixturenames:
            cases = {name: case for folder in folders for name, case in load(folder).items()}
            metafunc.parametrize(fixture, cases.values(), ids=cases.keys())
    parsers = {"http1": parse, "uwsgi": parse_uwsgi, "scgi": parse_scgi}
    for fixture, ends in {"accepted": ["accept"], "rejected": ["reject"], "any_case": ["accept", "reject"]}.items():
        if fixture in metafunc.fixturenames:
            cases = {
                f"{kind}-{end}-{name}": (functools.partial(parsers[kind], **case.limits), *case)
                for kind in parsers for end in ends for name, case in load(f"{kind}/{end}").items()
            }  # fmt: skip
            metafunc.parametrize(fixture, cases.values(), ids=cases.keys())


def read_pairs(vars_block: Any, head: Any) -> list[list[str]]:
    if head.nvars == 0:
        assert head.vars_len == 0
        return []
    words = bytes(ffi.buffer(vars_block, head.vars_len)).decode("latin-1").split("\0")
    assert len(words) == 2 * head.nvars
    return [words[i : i + 2] for i in range(0, len(words), 2)]


def parse(
    raw: bytes,
    ends: list[int] | None = None,
    max_line_len: int = 8190,
    max_head_len: int = 65536,
    max_fields: int = 100,
    vars_cap: int = 1 << 17,
) -> Head | str:
    """Parse a head, received up to each of `ends` in turn; return the head, or the error's name."""
    vars_block = ffi.new("char[]", vars_cap)
    head = ffi.new("http1_head *")
    head.vars = vars_block
    head.vars_cap = vars_cap
    head.max_line_len = max_line_len
    head.max_head_len = max_head_len
    head.max_fields = max_fields
    scanned = 0
    for end in [len(raw)] if ends is None else ends:
        code = lib.http1_parse_head(raw, end, scanned, head)
        if code != lib.ASERVE_INCOMPLETE:
            break
        scanned = end
    if code < 0:
        return ERRORS[code]
    return Head(
        consumed=code,
        flags=[name for name in FLAGS if head.flags & getattr(lib, f"HTTP1_{name}")],
        content_length=head.content_length,
        vars=read_pairs(vars_block, head),
    )


def decode(pieces: list[bytes], max_extension_len: int = 256, max_trailer_len: int = 8192) -> Body | str:
    """Decode a chunked body received in `pieces`; return the result or the error's name."""
    body = ffi.new("http1_chunked *")
    body.max_extension_len = max_extension_len
    body.max_trailer_len = max_trailer_len
    consumed, content = 0, []
    for piece in pieces:
        dst = ffi.new("char[]", len(piece) or 1)
        code = lib.http1_decode_chunked(body, piece, len(piece), dst)
        if code < 0:
            return ERRORS[code]
        assert code == len(piece) or body.done
        assert body.produced <= code
        consumed += code
        content.append(bytes(ffi.buffer(dst, body.produced)))
    return Body(consumed, bool(body.done), b"".join(content))


def parse_uwsgi(
    raw: bytes,
    ends: list[int] | None = None,
    max_packet_len: int = 65535,
    max_vars: int = 100,
    vars_cap: int | None = None,
    max_items: int = 255,
) -> Packet | str:
    """Parse a packet, RPC's items too, received up to each of `ends` in turn."""
    vars_cap = max_packet_len if vars_cap is None else vars_cap
    vars_block = ffi.new("char[]", vars_cap)
    packet = ffi.new("uwsgi_packet *")
    packet.vars = vars_block
    packet.vars_cap = vars_cap
    packet.max_packet_len = max_packet_len
    packet.max_vars = max_vars
    for end in [len(raw)] if ends is None else ends:
        code = lib.uwsgi_parse_packet(raw, end, packet)
        if code != lib.ASERVE_INCOMPLETE:
            break
    if code < 0:
        return ERRORS[code]
    items = []
    if packet.modifier1 == lib.UWSGI_RPC and packet.modifier2 != 2:
        data = raw[4:code]
        spans = ffi.new("aserve_span[]", max_items)
        count = lib.uwsgi_parse_array(data, len(data), spans, max_items)
        if count < 0:
            return ERRORS[count]
        items = [data[span.off : span.off + span.len].decode("latin-1") for span in spans[0:count]]
    pairs = read_pairs(vars_block, packet)
    return Packet(code, packet.modifier1, packet.modifier2, packet.content_length, pairs, items)


def parse_scgi(
    raw: bytes,
    ends: list[int] | None = None,
    max_head_len: int = 65536,
    max_vars: int = 100,
    vars_cap: int | None = None,
) -> Request | str:
    """Parse a head of SCGI, received up to each of `ends` in turn."""
    vars_cap = max_head_len if vars_cap is None else vars_cap
    vars_block = ffi.new("char[]", vars_cap)
    head = ffi.new("scgi_head *")
    head.vars = vars_block
    head.vars_cap = vars_cap
    head.max_head_len = max_head_len
    head.max_vars = max_vars
    for end in [len(raw)] if ends is None else ends:
        code = lib.scgi_parse_head(raw, end, head)
        if code != lib.ASERVE_INCOMPLETE:
            break
    if code < 0:
        return ERRORS[code]
    return Request(code, head.content_length, read_pairs(vars_block, head))


@pytest.fixture
def parse_head():
    return parse


@pytest.fixture
def decode_chunked():
    return decode


@pytest.fixture
def parse_packet():
    return parse_uwsgi


@pytest.fixture
def parse_request():
    return parse_scgi


@pytest.fixture
def load_corpus():
    return load


# Lanes


@pytest.fixture
def new_lane():
    """Make lanes: new_lane("http", "uwsgi unix", arrivals_cap=4)."""
    lanes = []

    def make(*binds: str, **settings: int) -> Lane:
        lanes.append(Lane(*(binds or ("http",)), **settings))
        return lanes[-1]

    yield make
    for lane in lanes:
        lane.close()


@pytest.fixture
def lane(new_lane):
    """A lane with one HTTP listener on TCP."""
    return new_lane()


@pytest.fixture
def run_out():
    """Let no more descriptors be had; return the function for giving the descriptors back."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    def restore() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    def begin() -> Any:
        # Not the lowest free number: more code of this process may close a lower descriptor. poll(2) needs a limit of 1.
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        return restore

    yield begin
    restore()
