"""Our HTTP/1.1 parser beside llhttp (through httptools): where two parsers differ, requests are smuggled.

Requests accepted by both must mean the same; a request accepted by one alone must be in DISAGREEMENTS, with the deciding clause.
docs/parser-differences.md is the table for readers.
"""

from __future__ import annotations

import pathlib
import random
import re
from typing import Any, Callable, NamedTuple

import pytest

from aserve._cparsers import ffi, lib

httptools = pytest.importorskip("httptools", reason="httptools is not here (PyPy has none)")

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "parser-differences.md"
MUTATIONS = 20_000


class Reading(NamedTuple):
    """A parser's view of the first request among some octets."""

    # "refused"; "head" and "body": waits for the rest; "done"
    state: str
    reason: str = ""
    method: bytes = b""
    target: bytes = b""
    fields: tuple[tuple[bytes, bytes], ...] = ()  # under their CGI names
    keep_alive: bool | None = None
    body: bytes = b""

    @property
    def is_accepted(self) -> bool:
        """Tell whether the head was accepted and the present body is good."""
        return self.state in ("body", "done")


class Disagreement(NamedTuple):
    """A point of possible disagreement, and the stricter parser."""

    name: str
    stricter: str  # "neither": both accept, with different readings
    clause: str
    # The stricter parser's reasons, as patterns; or the different part, if neither is stricter.
    reasons: str
    # A further condition on the octets.
    octets: str = ""


DISAGREEMENTS = [
    Disagreement("no Host field, or several", "aserve", "RFC 9112 3.2", "(MISSING|REPEATED)_HOST"),
    Disagreement("a Host that is no host", "aserve", "RFC 9110 7.2", "BAD_HOST"),
    Disagreement("two Content-Type fields that differ", "aserve", "RFC 9110 8.3", "REPEATED_CONTENT_TYPE"),
    Disagreement("a bad escape in the path", "aserve", "RFC 3986 2.1", "BAD_PERCENT"),
    Disagreement(
        "a request without a version",
        "aserve",
        "RFC 9112 3",
        "BAD_REQUEST_LINE|BARE_LF",
        r"^[\r\n]*[^ \r\n]+ +[^ \r\n]* *[\r\n]",
    ),
    Disagreement(
        "several spaces in the request line",
        "aserve",
        "RFC 9112 3",
        "BAD_REQUEST_LINE",
        r"^[\r\n]*[^\r\n]*(  | \r)",
    ),
    Disagreement("a target of no form, or with a fragment", "aserve", "RFC 9112 3.2", "BAD_TARGET"),
    Disagreement(
        "the version of another protocol",
        "aserve",
        "RFC 9112 2.3",
        "BAD_VERSION",
        r"(RTSP|ICE)/\d\.\d\r\n",
    ),
    Disagreement("another major version", "aserve", "RFC 9110 15.6.6", "UNSUPPORTED_VERSION", r"HTTP/[^1]\.\d"),
    Disagreement("CONNECT", "aserve", "RFC 9110 9.3.6", "UNSUPPORTED_METHOD", r"^[\r\n]*CONNECT "),
    Disagreement(
        "a bare CR or LF before the request line",
        "aserve",
        "RFC 9112 2.2",
        "BARE_(CR|LF)",
        r"^(\r\n)*(\n|\r[^\n])",
    ),
    Disagreement(
        "Transfer-Encoding in HTTP/1.0",
        "aserve",
        "RFC 9112 6.1",
        "ENCODING_IN_1_0",
    ),
    Disagreement("a coding before chunked", "aserve", "RFC 9112 6.1", "UNKNOWN_CODING"),
    Disagreement(
        "empty elements, parameters or other than tokens in Transfer-Encoding",
        "aserve",
        "RFC 9112 7",
        "BAD_TRANSFER_ENCODING",
        r"(?i)Transfer-Encoding:.*chunked",
    ),
    Disagreement("an unknown expectation", "aserve", "RFC 9110 10.1.1", "UNKNOWN_EXPECTATION"),
    Disagreement(
        "a length of 2^63 or more",
        "aserve",
        "RFC 9110 8.6",
        "BAD_CONTENT_LENGTH",
        r"(?i)Content-Length:[ \t]*\d{19,}",
    ),
    Disagreement(
        "a chunk size of 2^63 or more, or of more than 16 digits",
        "aserve",
        "RFC 9112 7.1",
        "BAD_CHUNK_SIZE",
        r"\r\n[0-9a-fA-F]{16,}",
    ),
    Disagreement("a method it does not know", "httptools", "RFC 9110 9.1", ".*InvalidMethodError"),
    Disagreement(
        "a minor version above 1",
        "httptools",
        "RFC 9110 2.5",
        ".*Invalid HTTP version",
        r" HTTP/1\.[2-9]\r\n",
    ),
    Disagreement(
        "raw octets above 0x7f in the target",
        "httptools",
        "RFC 9112 3.2",
        ".*Invalid char in url",
        r"^[^ ]* [^ ]*[\x80-\xff]",
    ),
    Disagreement(
        "white space after the coding",
        "httptools",
        "RFC 9112 5",
        ".*Request has invalid `Transfer-Encoding`",
        r"(?i)Transfer-Encoding:[ \t]*chunked[ \t]+\r\n",
    ),
    Disagreement(
        "the inside of a chunk extension",
        "httptools",
        "RFC 9112 7.1.1",
        ".*Invalid character in chunk extensions",
    ),
    Disagreement(
        "framing fields among the trailers",
        "httptools",
        "RFC 9110 6.5.1",
        ".*(Content-Length|Transfer-Encoding)",
        r"(?is)\r\n0+(;[^\r]*)?\r\n(.*\r\n)?(Content-Length|Transfer-Encoding):",
    ),
    Disagreement(
        "the host of an absolute-form target",
        "neither",
        "RFC 9112 3.2.2",
        "fields",
        r"(?i)^[\r\n]*[^ ]* https?://",
    ),
    Disagreement(
        "close beside keep-alive in HTTP/1.0",
        "neither",
        "RFC 9112 9.3",
        "keep_alive",
        r"(?is) HTTP/1\.0\r\n.*Connection:.*keep-alive",
    ),
    Disagreement(
        "Connection among the trailers",
        "neither",
        "RFC 9110 6.5.1",
        "keep_alive",
        r"(?is)\r\n0+(;[^\r]*)?\r\n(.*\r\n)?Connection:",
    ),
    Disagreement("Proxy-Connection", "neither", "RFC 9112 C.2.2", "keep_alive", r"(?i)\r\nProxy-Connection:"),
]


# The two readers


def our_reading(raw: bytes) -> Reading:
    """Read a request with our parser."""
    vars_block = ffi.new("char[]", 1 << 17)
    head = ffi.new("http1_head *", {"vars": vars_block, "vars_cap": 1 << 17})
    head.max_line_len, head.max_head_len, head.max_fields = 8190, 65536, 100
    code = lib.http1_parse_head(raw, len(raw), 0, head)
    if code < 0:
        return Reading("head") if code == lib.ASERVE_INCOMPLETE else refused(code)
    words = bytes(ffi.buffer(vars_block, head.vars_len)).split(b"\0")
    pairs = list(zip(words[::2], words[1::2]))
    rest, state = raw[code:], "done"
    if head.flags & lib.HTTP1_CHUNKED:
        body = ffi.new("http1_chunked *", {"max_extension_len": 256, "max_trailer_len": 8192})
        dst = ffi.new("char[]", len(rest) or 1)
        code = lib.http1_decode_chunked(body, rest, len(rest), dst)
        if code < 0:
            return refused(code)
        state = "done" if body.done else "body"
        rest = bytes(ffi.buffer(dst, body.produced))
    else:
        state = "done" if len(rest) >= head.content_length else "body"
        rest = rest[: head.content_length]
    return Reading(
        state,
        method=pairs[0][1],
        target=pairs[1][1],
        fields=tuple(pairs[5:]),
        keep_alive=bool(head.flags & lib.HTTP1_KEEP_ALIVE),
        body=rest,
    )


def refused(code: int) -> Reading:
    """Return the reading of an error code."""
    names = {getattr(lib, name): name for name in dir(lib) if name.startswith("ASERVE_")}
    names[lib.ASERVE_VARS_FULL] = "ASERVE_VARS_FULL"  # LAST_ERROR is the same number
    return Reading("refused", names[code][len("ASERVE_") :])


class Callbacks:
    """Collects httptools' calls on the first request."""

    def __init__(self) -> None:
        self.state = "head"
        self.url = self.body = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.method = b""
        self.keep_alive: bool | None = None
        self.parser: Any = httptools.HttpRequestParser(self)

    def on_url(self, url: bytes) -> None:
        if self.state == "head":
            self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.state == "head":  # trailer fields are dropped
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self.state == "head":
            self.state = "body"
            self.method = self.parser.get_method()

    def on_body(self, body: bytes) -> None:
        if self.state == "body":
            self.body += body

    def on_message_complete(self) -> None:
        if self.state == "body":
            self.state = "done"
            self.keep_alive = self.parser.should_keep_alive()


def their_reading(raw: bytes) -> Reading:
    """Read a request with httptools."""
    seen = Callbacks()
    try:
        seen.parser.feed_data(raw)
    except httptools.HttpParserUpgrade:
        pass  # the rest is another protocol's
    except httptools.HttpParserError as error:
        if seen.state != "done":  # else the error is the next request's
            return Reading("refused", f"{type(error).__name__}: {error}")
    fields = [(cgi_name(name), value.strip(b" \t")) for name, value in seen.headers]
    return Reading(
        seen.state,
        method=seen.method,
        target=seen.url,
        fields=tuple(pair for pair in fields if pair[0]),
        keep_alive=seen.keep_alive,
        body=seen.body,
    )


def cgi_name(name: bytes) -> bytes:
    """Return a field's CGI name; nothing: the field is dropped (vars.h)."""
    if b"_" in name or name.lower() == b"proxy":
        return b""
    name = name.upper().replace(b"-", b"_")
    return name if name in (b"CONTENT_TYPE", b"CONTENT_LENGTH") else b"HTTP_" + name


# The comparison


def find(stricter: str, reason: str, raw: bytes) -> str:
    """Return the name of the listed disagreement, or "" if there is none."""
    text = raw.decode("latin-1")
    for entry in DISAGREEMENTS:
        is_its_reason = entry.stricter == stricter and re.match(entry.reasons, reason)
        if is_its_reason and re.search(entry.octets, text):
            return entry.name
    return ""


def differences(raw: bytes) -> list[tuple[str, str]]:
    """Return the parsers' disagreements, each with the name of its entry, if any."""
    ours, theirs = our_reading(raw), their_reading(raw)
    if ours.is_accepted and theirs.is_accepted:
        if theirs.keep_alive is None:  # httptools tells the end of the body only
            ours = ours._replace(keep_alive=None)
        pairs = zip(Reading._fields, ours, theirs)
        return [(name, find("neither", name, raw)) for name, our, their in pairs if our != their]
    if ours.state == "refused" and theirs.state != "refused":
        return [(ours.reason, find("aserve", ours.reason, raw))]
    if theirs.state == "refused" and ours.is_accepted:
        return [(theirs.reason, find("httptools", theirs.reason, raw))]
    if ours.state == "head" and theirs.is_accepted:
        return [("we wait, httptools accepts", "")]
    if theirs.state == "head" and ours.is_accepted:
        return [("httptools waits, we accept", "")]
    # Both refuse; or we wait for the end of a head refused by httptools before.
    return []


def with_head(body: bytes) -> bytes:
    """Return a chunked body behind a head."""
    return b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + body


def requests(load_corpus: Callable[[str], dict[str, Any]]) -> list[bytes]:
    heads = [*load_corpus("http1/accept").values(), *load_corpus("http1/reject").values()]
    bodies = [*load_corpus("chunked/accept").values(), *load_corpus("chunked/reject").values()]
    return [case.raw for case in heads] + [with_head(case.raw) for case in bodies]


def check(raw: bytes) -> None:
    """Fail for an unlisted disagreement."""
    for what, entry in differences(raw):
        assert entry, f"{what}: {raw!r}\nours: {our_reading(raw)}\ntheirs: {their_reading(raw)}"


def test_heads_are_read_as_by_llhttp(any_head):
    check(any_head.raw)


def test_bodies_are_read_as_by_llhttp(any_body):
    check(with_head(any_body.raw))


PIECES = [
    *[b"\r\n", b"\r", b"\n", b"\r\n\r\n", b"\0", b" ", b"\t", b":", b",", b";", b"#", b"?", b"%"],
    *[b"/", b"5", b"x", b"\x80", b"chunked", b"close", b"keep-alive", b"0\r\n\r\n", b"HTTP/1.0"],
    *[b"Host: y\r\n", b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n"],
    *[b"Connection: close\r\n", b"HTTP/1.1"],
]


def mutate(raw: bytes, choose: Callable[[int], int]) -> bytes:
    """Return `raw` with one to three small changes."""
    for _ in range(1 + choose(3)):
        at, kind = choose(len(raw) + 1), choose(5)
        piece = PIECES[choose(len(PIECES))]
        if kind == 0:
            raw = raw[:at] + piece + raw[at:]
        elif kind == 1:
            raw = raw[:at] + piece + raw[at + 1 :]
        elif kind == 2:
            raw = raw[:at] + raw[at + 1 + choose(3) :]
        elif kind == 3:
            raw = raw[:at] + bytes([choose(256)]) + raw[at + 1 :]
        else:
            lines = raw.split(b"\r\n")
            lines.insert(choose(len(lines) + 1), lines[choose(len(lines))])
            raw = b"\r\n".join(lines)
    return raw


@pytest.mark.parametrize("seed", range(10))
def test_mutations_are_read_as_by_llhttp(seed, load_corpus):
    inputs = [raw for raw in requests(load_corpus) if len(raw) < 2000]
    generator = random.Random(seed)

    def choose(count: int) -> int:
        # Of Random's methods, only random() promises the same numbers in every version.
        return int(generator.random() * count)

    for _ in range(MUTATIONS // 10):
        check(mutate(inputs[choose(len(inputs))], choose))


def test_every_disagreement_is_seen(load_corpus):
    """Each listed disagreement has an input in the corpus."""
    seen = {entry for raw in requests(load_corpus) for _, entry in differences(raw)}
    assert [entry.name for entry in DISAGREEMENTS if entry.name not in seen] == []


@pytest.mark.checkout
def test_page_has_the_table():
    """docs/parser-differences.md has a row for each disagreement, and no further row."""
    rows = re.findall(r"^\| (?!---)(.+?) \| (.+?) \| (RFC .+?) \|", PAGE.read_text(), re.M)
    assert rows == [(entry.name, entry.stricter, entry.clause) for entry in DISAGREEMENTS]
