"""The app's part of a head, made in C: equal to the twin's, or not plain."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest
from harness.examples import EXAMPLES
from hypothesis import example, given
from hypothesis import strategies as st

from aserve.core.errors import AppError
from aserve.wsgi import head as twin

PREFIX = "HTTP/1.1 "
CAP = 4096  # of native/module.c
TEXT = ("Content-Type", "text/plain")


class Text(str):
    """May override anything."""

    __slots__ = ()


class Pair(tuple):
    """May have an __iter__."""

    __slots__ = ()


class Pairs(list):
    """May have an __iter__."""


def make(native: Any, headers: Any, status: Any = "200 OK", cap: int = CAP) -> Any:
    return native.make_head(PREFIX, status, headers, cap)


def of_twin(headers: Any, status: Any = "200 OK", prefix: str = PREFIX) -> Any:
    """Return the twin's result, in the form of the module: octets, code, Content-Length; None where the twin raises, or sees more to do."""
    try:
        octets, code, has_no_body, length, has_date, has_server = twin.build_app_head(prefix, status, headers)
    except AppError:
        return None
    return None if code < 200 or has_no_body or has_date or has_server else (octets, code, length)


def is_exact(status: Any, headers: Any) -> bool:
    """Whether all is of the types named by PEP 3333, and of no derived class."""
    return (
        type(status) is str
        and type(headers) is list
        and all(type(field) is tuple and [type(text) for text in field] == [str, str] for field in headers)
    )


# Plain arguments

PLAIN = {
    "hello": ("200 OK", [TEXT, ("Content-Length", "13")]),
    "no fields": ("200 OK", []),
    "flask": (
        "200 OK",
        [
            ("Content-Type", "text/html; charset=utf-8"),
            ("Content-Length", "5"),
            ("Vary", "Cookie"),
            ("Set-Cookie", "session=eyJhIjoxfQ.Z0Q.x-Y_z; HttpOnly; Path=/; SameSite=Lax"),
        ],
    ),
    "django": (
        "302 Found",
        [
            ("Content-Type", "text/html; charset=utf-8"),
            ("Location", "/accounts/login/?next=/%C3%A9"),
            ("X-Frame-Options", "DENY"),
            ("Content-Length", "0"),
            ("Vary", "Accept-Language, Cookie"),
            ("Content-Language", "en-us"),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "same-origin"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Set-Cookie", "csrftoken=abc; expires=Thu, 25 Nov 2027 00:00:00 GMT; Max-Age=31449600; Path=/"),
            ("Set-Cookie", "messages=x; Path=/"),
        ],
    ),
    "cached": (
        "200 OK",
        [("ETag", 'W/"5f-1"'), ("Last-Modified", "x"), ("Expires", "0"), ("Cache-Control", "no-cache")],
    ),
    "latin-1": (
        "200 \xe9t\xe9",
        [("Content-Disposition", 'attachment; filename="r\xe9sum\xe9.pdf"'), ("X", "\x80\x9f\xa0\xff")],
    ),
    "tabs": ("404 Not\tFound", [("A", "\t"), ("B", "a\tb and more than a word"), ("C", " leading and trailing ")]),
    "empty": ("200 ", [("A", ""), ("Content-Encoding", "")]),
    "names": ("999 x", [("!#$%&'*+-.^_`|~09azAZ", "1"), ("X-Request-ID-2", "1"), ("P3P", "x"), ("x", "y")]),
    "long length": ("200 OK", [("CONTENT-length", "9" * 18)]),
    "zeros": ("200 OK", [("content-LENGTH", "0007")]),
    "almost": ("200 OK", [(f"X{name}", "1") for name in twin._SPECIAL_FIELDS]),
    "almost, too": ("200 OK", [(f"{name[:-1]}_", "1") for name in twin._SPECIAL_FIELDS]),
    "not unique": ("203 Z", [(name, "1") for name, kind in twin._SPECIAL_FIELDS.items() if kind == twin.UNIQUE]),
    "any code": ("299 x", []),
    "full": ("200 OK", [("A", "1" * (CAP - len("HTTP/1.1 200 OK\r\nA: \r\n")))]),
}


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("prefix", [PREFIX, "Status: ", ""])
def test_what_is_plain(native, name, prefix):
    """Plain arguments become the same octets."""
    status, headers = PLAIN[name]
    if name == "full" and prefix != PREFIX:
        return
    made = native.make_head(prefix, status, headers)
    assert made is not None
    assert made == of_twin(headers, status, prefix)


# Arguments not plain

NO_STATUS = [
    None, 200, b"200 OK", ["200 OK"], "", "2", "200", "200OK", "2000 OK", "20 OK", " 200 OK", "200\tOK", "/00 OK", "2/0 OK", "20/ OK",
    ":00 OK", "2:0 OK", "20: OK", "000 OK", "099 OK", "100 Continue", "101 Switching Protocols", "199 x", "204 No Content", "205 Reset Content",
    "304 Not Modified", "200 a\r\nX: y", "200 OK\n", "200 O\0K and more than a word", "200 \x7f", "200 \u20ac", "200 \udc80",
    "\u0662\u0660\u0660 OK", "\xb2\xb2\xb2 OK", Text("200 OK"),
]  # fmt: skip
NO_HEADERS = [
    None,
    0,
    "AB",
    {"A": "b"},
    (TEXT,),
    Pairs([TEXT]),
    [*"AB"],
    [None],
    [[*TEXT]],
    [Pair(TEXT)],
    [()],
    [("A",)],
    [("A", "b", "c")],
]
NO_NAME = [
    "", " ", "A B", "A:", ":", "A\r\nB", "A\n", "\0", "\xe9", "r\xe9sum\xe9-and-a-word", "A\x7f", "(comment)", "@", "X[0]", "a/b", "\u20ac",
    "\udc80", "content\rlength", "transfer-encoding ", b"A", 5, None, Text("A"),
]  # fmt: skip
NO_VALUE = [
    "\0", "\n", "\r", "b\r\nC: d", "\x1f", "\x7f", "\x0b", "a word, and an end\n", "\x7fa word before", "\ta\x08", "\u20ac", "\u0100",
    "\U0001f600", "\udc80", b"b", 5, None, Text("b"), "x" * CAP,
]  # fmt: skip
NO_LENGTH = [
    "",
    " ",
    "-1",
    "+1",
    "1 ",
    " 1",
    "1_0",
    "0x1",
    "1.0",
    "1e3",
    "5, 5",
    "1" * 19,
    "\xb2",
    "\u0665",
    "a",
    "/",
    ":",
]
OURS = [name for name, kind in twin._SPECIAL_FIELDS.items() if kind not in (twin.UNIQUE, twin.CONTENT_LENGTH)]
NOT_PLAIN = [
    *((status, [TEXT]) for status in NO_STATUS),
    *(("200 OK", headers) for headers in NO_HEADERS),
    *(("200 OK", [TEXT, (name, "b"), TEXT]) for name in NO_NAME),
    *(("200 OK", [TEXT, ("A", value), TEXT]) for value in NO_VALUE),
    *(("200 OK", [("Content-Length", length)]) for length in NO_LENGTH),
    *(("200 OK", [TEXT, (way(name), "x")]) for name in OURS for way in (str, str.upper, str.title)),
    ("200 OK", [("Content-Length", "1"), ("content-length", "1")]),
    ("200 OK", [("A", "1" * (CAP + 1 - len("HTTP/1.1 200 OK\r\nA: \r\n")))]),
]


@pytest.mark.parametrize(("status", "headers"), NOT_PLAIN, ids=lambda value: repr(value)[:40])
def test_what_is_not_plain(native, status, headers):
    """Only full understanding is plain; the twin finds the words, or makes the head."""
    assert make(native, headers, status) is None


def test_an_iterator_is_left_alone(native):
    """The twin, asked next, still finds all items."""
    headers = iter([TEXT])
    assert make(native, headers) is None
    assert list(headers) == [TEXT]


def test_each_octet_at_each_place(native):
    """Any octet may be before and behind, and a word of eight may begin anywhere."""
    name_octets = {chr(octet) for octet in range(256) if twin._TOKEN.fullmatch(chr(octet))}
    value_octets = {chr(octet) for octet in range(256) if not twin._CONTROLS.match(chr(octet))}
    for size in range(1, 26):
        text = "q" * size
        for at in range(size):
            before, behind = text[:at], text[at + 1 :]
            for octet in map(chr, range(256)):
                one = f"{before}{octet}{behind}"
                line = f"{PREFIX}200 OK\r\n{one}: {one}\r\n".encode("latin-1")
                assert (make(native, [("q", one)]) is not None) == (octet in value_octets), (one, "value")
                assert (make(native, [(one, "q")]) is not None) == (octet in name_octets), (one, "name")
                if octet in name_octets:
                    assert make(native, [(one, one)]) == (line, 200, -1)


def test_no_octet_hides_its_neighbour(native):
    """Any two octets may be side by side in the same word."""
    refused = {chr(octet) for octet in range(256) if twin._CONTROLS.match(chr(octet))}
    unnamed = {chr(octet) for octet in range(256) if not twin._TOKEN.match(chr(octet))}
    octets = [chr(octet) for octet in range(256)]
    for first in octets:
        for second in octets:
            text = f"abc{first}{second}xyz"
            assert (make(native, [("A", text)]) is None) == (first in refused or second in refused), text
            assert (make(native, [(text, "1")]) is None) == (first in unnamed or second in unnamed), text


# Any arguments

LATIN_1 = st.characters(max_codepoint=0xFF)
TCHARS = st.sampled_from("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
NAMES = [
    *twin._SPECIAL_FIELDS,
    "content-type",
    "vary",
    "cache-control",
    "x-frame-options",
    "expires",
    "cross-origin-opener-policy",
]


def cased(text: str, bits: int) -> str:
    """Return a text with a letter in upper case for each set bit."""
    return "".join(char.upper() if bits >> at & 1 else char for at, char in enumerate(text))


def with_one(text: str, at: int, char: str) -> str:
    """Return a text with a further character."""
    return text[: at % (len(text) + 1)] + char + text[at % (len(text) + 1) :]


def disturbed(texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Return texts, mostly unchanged; else with a character more, or as no exact str."""
    return st.one_of(
        texts,
        texts,
        texts,
        st.builds(with_one, texts, st.integers(0, 30), st.one_of(LATIN_1, st.characters())),
        st.builds(Text, texts),
        texts.map(str.encode) if texts is DIGITS else st.sampled_from([None, 5, b"x", True]),
    )


DIGITS = st.integers(0, 10**19).map(str)
names = disturbed(
    st.one_of(
        st.builds(cased, st.sampled_from(NAMES), st.integers(0, 2**26)),
        st.builds(cased, st.just("content-length"), st.sampled_from([0, 0b100000001, 2**14 - 1])),
        st.text(TCHARS, min_size=1, max_size=30),
    )
)
values = disturbed(
    st.one_of(
        DIGITS,
        st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=40),
        st.text(st.sampled_from("\t \x20\x7e\x80\xa0\xe9\xff"), max_size=40),
        st.text(LATIN_1, max_size=20),
    )
)
pairs = st.tuples(names, values)
fields = st.one_of(
    pairs,
    pairs,
    pairs,
    pairs,
    pairs.map(list),
    pairs.map(Pair),
    st.lists(values, max_size=4).map(tuple),
    st.sampled_from([None, 5, "ab", b"ab", {}]),
)
lists = st.one_of(st.lists(pairs, max_size=8), st.lists(fields, max_size=8))
headers_of_any_kind = st.one_of(
    lists, lists, lists, lists.map(Pairs), lists.map(tuple), st.sampled_from([None, 5, "ab", {}])
)
statuses = disturbed(
    st.builds(
        "{} {}".format,
        st.one_of(st.integers(180, 1010), st.sampled_from([200, 204, 304])),
        st.text(st.one_of(st.sampled_from("OK found"), LATIN_1.filter(lambda char: char >= " ")), max_size=20),
    )
)


@EXAMPLES
@given(statuses, headers_of_any_kind, st.integers(-40, 40))
@example("200 OK", [("Content-Length", "1"), ("Content-Length", "2")], 0)
def test_the_same_as_its_twin(native, status, headers, spare):
    """Any arguments, and a capacity near the need: plain where possible, and then the same octets, code and length."""
    told = repr(headers)
    made = make(native, headers, status)
    small = make(native, headers, status, cap=max(0, min(CAP, len(made[0]) + spare))) if made else None
    assert repr(headers) == told
    expected = of_twin(headers, status) if is_exact(status, headers) else None
    if expected is not None and len(expected[0]) > CAP:
        expected = None
    assert made == expected  # also: no exception is left, or CPython raises a SystemError
    assert small == (expected if spare >= 0 else None)


# Memory


@pytest.mark.parametrize("name", PLAIN)
def test_nothing_is_written_behind_the_capacity(native, name):
    """Each capacity is too small; the module ends the process after a change of the octets behind."""
    status, headers = PLAIN[name]
    needed = len(make(native, headers, status)[0])
    assert [make(native, headers, status, cap=cap) for cap in range(needed)] == [None] * needed
    assert make(native, headers, status, cap=needed) == make(native, headers, status)


def test_the_capacity_of_the_test_itself(native):
    """The module's own buffer has an end, too."""
    for cap in (-1, CAP + 1):
        with pytest.raises(ValueError, match="cap must be 0 to 4096"):
            make(native, [], cap=cap)


def leaves(value: Any) -> list[Any]:
    """Return an argument and all values inside."""
    return [value, *(leaf for part in value for leaf in leaves(part))] if isinstance(value, (list, tuple)) else [value]


def test_no_reference_is_kept(native):
    """Neither of plain arguments nor of the rest, at whichever part the work ends."""
    cases = [*PLAIN.values(), *NOT_PLAIN]
    objects = [leaf for case in cases for leaf in leaves(case) if isinstance(leaf, (str, list, tuple))]

    def counts() -> list[int]:
        for status, headers in cases:
            make(native, headers, status)
        gc.collect()
        return [sys.getrefcount(leaf) for leaf in objects]

    assert counts() == counts()


@pytest.mark.skipif(not hasattr(sys, "gettotalrefcount"), reason="only a debug build of CPython counts all references")
def test_no_reference_is_lost(native):
    """A thousand heads leave as many references as a single head."""
    counts = []
    for _ in range(3):
        for _ in range(1000):
            for status, headers in PLAIN.values():
                make(native, headers, status)
        counts.append(sys.gettotalrefcount())  # type: ignore[attr-defined]
    assert counts[2] - counts[1] < 100
