"""A request's field section says the same as a head of HTTP/1.1, or is refused."""

from __future__ import annotations

import pytest
from harness.http2 import request

from aserve.features.http2.fields import Malformed, content_length, decode_head, encode_head, is_trailer_section

METHOD, SCHEME, AUTHORITY, PATH = request()


@pytest.mark.parametrize(
    ("fields", "head"),
    [
        (request(b"GET", b"/a?b"), b"GET /a?b HTTP/1.1\r\nhost: a"),
        (request(b"OPTIONS", b"*"), b"OPTIONS * HTTP/1.1\r\nhost: a"),
        (request(b"PUT", b"/", (b"x-a", b"1"), (b"x-a", b"2")), b"PUT / HTTP/1.1\r\nhost: a\r\nx-a: 1\r\nx-a: 2"),
        # One field, which HTTP/2 may split; its crumbs are not to count as so many fields.
        (request(b"GET", b"/", (b"cookie", b"a=1"), (b"cookie", b"b=2")), b"GET / HTTP/1.1\r\nhost: a\r\ncookie: a=1; b=2"),
        (request(b"GET", b"/", (b"host", b"A")), b"GET / HTTP/1.1\r\nhost: a"),
        ([METHOD, SCHEME, PATH, (b"host", b"b")], b"GET / HTTP/1.1\r\nhost: b"),
        # The parser of HTTP/1.1 refuses these, as it does there.
        ([METHOD, SCHEME, PATH], b"GET / HTTP/1.1"),
        ([METHOD, SCHEME, PATH, (b"host", b"b"), (b"host", b"c")], b"GET / HTTP/1.1\r\nhost: b\r\nhost: c"),
        ([(b":method", b"CONNECT"), AUTHORITY], b"CONNECT a HTTP/1.1\r\nhost: a"),
        ([(b":method", b"CONNECT")], b"CONNECT - HTTP/1.1"),
        (request(b"GET", b"/", (b"te", b"trailers")), b"GET / HTTP/1.1\r\nhost: a\r\nte: trailers"),
        (request(b"GET", b"/", (b"x", b"")), b"GET / HTTP/1.1\r\nhost: a\r\nx: "),
    ],
)  # fmt: skip
def test_encoded(fields, head):
    """Target, Host and fields are those of the request."""
    assert encode_head(fields) == head + b"\r\n\r\n"


@pytest.mark.parametrize(
    "fields",
    [
        [SCHEME, AUTHORITY, PATH],
        [METHOD, AUTHORITY, PATH],
        [METHOD, SCHEME, AUTHORITY],
        [METHOD, METHOD, SCHEME, AUTHORITY, PATH],
        [METHOD, SCHEME, AUTHORITY, PATH, PATH],
        [METHOD, SCHEME, AUTHORITY, (b"a", b"b"), PATH],
        request(b"G T"),
        request(b""),
        request(b"GET", b""),
        request(b"GET", b"http://b/"),
        request(b"GET", b"/ HTTP/1.1\r\nx: y"),
        request(b"GET", b"/\0"),
        [METHOD, SCHEME, (b":authority", b"a\r\nx: y"), PATH],
        [METHOD, SCHEME, (b":authority", b""), PATH],
        request(b"GET", b"/", (b":status", b"200")),
        [(b":status", b"200"), *request()],
        [(b":protocol", b"websocket"), *request(b"CONNECT")],
        request(b"GET", b"/", (b"host", b"b")),
        request(b"GET", b"/", (b"Name", b"b")),
        request(b"GET", b"/", (b"", b"b")),
        request(b"GET", b"/", (b"a b", b"c")),
        request(b"GET", b"/", (b"a:", b"c")),
        request(b"GET", b"/", (b"a\r\nb", b"c")),
        request(b"GET", b"/", (b"a\xff", b"c")),
        request(b"GET", b"/", (b"a", b"b\r\nc: d")),
        request(b"GET", b"/", (b"a", b"b\nc")),
        request(b"GET", b"/", (b"a", b"b\0")),
        request(b"GET", b"/", (b"a", b" b")),
        request(b"GET", b"/", (b"a", b"b\t")),
        request(b"GET", b"/", (b"te", b"gzip")),
        request(b"GET", b"/", (b"te", b"trailers, gzip")),
        *[
            request(b"GET", b"/", (name, b"x"))
            for name in (b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade")
        ],
    ],
)
def test_malformed(fields):
    """RFC 9113 8.1.1: none of these is a request; nor can any of it become a line of its own in a head of HTTP/1.1."""
    with pytest.raises(Malformed):
        encode_head(fields)


@pytest.mark.parametrize(
    ("fields", "is_one"),
    [([], True), ([(b"a", b"b")], True), ([METHOD], False), ([(b"A", b"b")], False), ([(b"connection", b"x")], False)],
)
def test_trailers(fields, is_one):
    """They are fields, and nothing else."""
    assert is_trailer_section(fields) == is_one


def test_decoded():
    """A head of ours becomes a field section, without the fields of connections."""
    head = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nX:  a: b \r\nConnection: close\r\nSet-Cookie: a\r\nSet-Cookie: b"
    assert decode_head(head) == (
        404,
        [
            (b":status", b"404"), (b"content-type", b"text/plain"), (b"x", b"a: b"), (b"set-cookie", b"a"), (b"set-cookie", b"b"),
        ],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("values", "length"),
    [
        ([], None),
        ([b"0"], 0),
        ([b"0012"], 12),
        ([b"1" * 20], None),
        ([b"a"], None),
        ([b""], None),
        ([b"1", b"1"], None),
    ],
)
def test_content_length(values, length):
    """Only one that is valid."""
    assert content_length([(b"a", b"b"), *[(b"content-length", value) for value in values]]) == length
