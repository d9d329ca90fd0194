"""The field Range."""

import pytest

from aserve.features.files.ranges import MAX_RANGES, Part, content_range, multipart, parse_range

pytestmark = pytest.mark.long_on_pypy


@pytest.mark.parametrize(
    ("field", "parts"),
    [
        ("bytes=0-13", [Part(0, 14)]),
        ("bytes=21-30", [Part(21, 10)]),
        ("bytes=99-99", [Part(99, 1)]),
        ("bytes=95-", [Part(95, 5)]),
        ("bytes=-3", [Part(97, 3)]),
        ("bytes=21-100000", [Part(21, 79)]),
        ("bytes=-100000", [Part(0, 100)]),
        ("Bytes = 0-0 , 2-2,, -1", [Part(0, 1), Part(2, 1), Part(99, 1)]),
        ("bytes=5-6,0-1", [Part(5, 2), Part(0, 2)]),  # in the order of the request
        ("bytes=0-0,200-300", [Part(0, 1)]),
        # RFC 9110 15.5.17: no range can be satisfied
        ("bytes=100-", []),
        ("bytes=10000-11000", []),
        ("bytes=-0", []),
        # RFC 9110 14.2: ignored
        ("bytes=5-4", None),
        ("bytes=a-b", None),
        ("bytes=-", None),
        ("bytes=", None),
        ("bytes= ,", None),
        ("bytes", None),
        ("bytes=0-1;2-3", None),
        ("bytes=0-1, 7", None),
        ("lines=0-1", None),
        ("bytes=\u00b2-5", None),
        ("bytes=" + "9" * 19 + "-", None),
        ("bytes=0-,0-", None),
        ("bytes=0-59,40-99", None),
        ("bytes=" + ",".join(["0-0"] * (MAX_RANGES + 1)), None),
    ],
)
def test_ranges_of_a_hundred_octets_are_read(field, parts):
    assert parse_range(field, 100) == parts


def test_nothing_to_part():
    """Of an empty file no part could be named in Content-Range."""
    assert parse_range("bytes=0-", 0) is None and parse_range("bytes=-5", 0) is None


def test_as_many_ranges_as_allowed_are_read():
    field = "bytes=" + ",".join(f"{number}-{number}" for number in range(MAX_RANGES))
    assert len(parse_range(field, 1000) or []) == MAX_RANGES


def test_multipart_has_a_head_for_each_part():
    """Each part tells its range; the length is of all parts."""
    frame = multipart([Part(0, 2), Part(5, 1)], 10, "text/css")
    boundary = frame.content_type.partition("boundary=")[2]
    body = frame.heads[0] + b"ab" + frame.heads[1] + b"f" + frame.tail
    assert frame.length == len(body)
    assert body.decode() == (
        f"\r\n--{boundary}\r\nContent-Type: text/css\r\nContent-Range: bytes 0-1/10\r\n\r\nab"
        f"\r\n--{boundary}\r\nContent-Type: text/css\r\nContent-Range: bytes 5-5/10\r\n\r\nf\r\n--{boundary}--\r\n"
    )
    assert multipart([], 10, "").content_type != frame.content_type
    assert b"Content-Type" not in multipart([Part(0, 1)], 10, "").heads[0]


def test_content_range_includes_the_last_octet():
    """RFC 9110 14.4: the last octet is included."""
    assert content_range(Part(21, 10), 100) == "bytes 21-30/100"
