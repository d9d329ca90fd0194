"""http1_decode_chunked: the content of chunked bodies, in any split, and nothing else."""

from __future__ import annotations

import pytest

from aserve._cparsers import ffi, lib

pytestmark = pytest.mark.long_on_pypy


def test_accepted_body(accepted_body, decode_chunked):
    """Each body of the corpus has the content its JSON says; what follows it is left."""
    body = decode_chunked([accepted_body.raw], **accepted_body.limits)
    assert not isinstance(body, str), body
    expected = accepted_body.expected
    assert body.content == expected["content"].encode("latin-1")
    assert body.consumed == expected["consumed"]
    assert body.is_done


def test_rejected_body(rejected_body, decode_chunked):
    """Each bad body of the corpus is refused for the reason its JSON names, with its clause."""
    expected = rejected_body.expected
    assert decode_chunked([rejected_body.raw], **rejected_body.limits) == expected["error"]
    assert expected["clause"].startswith("RFC ")


def test_two_pieces(any_body, decode_chunked):
    """A body cut in two anywhere is decoded as the whole is."""
    raw, limits = any_body.raw, any_body.limits
    whole = decode_chunked([raw], **limits)
    # One cut of a long chunk's data is like another.
    for cut in range(len(raw)) if len(raw) < 1000 else [*range(20), *range(len(raw) - 20, len(raw))]:
        assert decode_chunked([raw[:cut], raw[cut:]], **limits) == whole, cut


def test_octet_by_octet(any_body, decode_chunked):
    """A body that drips in octet by octet is decoded as the whole is."""
    raw, limits = any_body.raw, any_body.limits
    pieces = [raw[i : i + 1] for i in range(len(raw))]
    assert decode_chunked(pieces, **limits) == decode_chunked([raw], **limits)


def test_every_prefix_waits(accepted_body, decode_chunked):
    """A good body is not done before its last octet."""
    raw, consumed = accepted_body.raw, accepted_body.expected["consumed"]
    for length in range(max(0, consumed - 200), consumed):
        body = decode_chunked([raw[:length]], **accepted_body.limits)
        assert (body.consumed, body.is_done) == (length, False)


def test_in_place(accepted_body):
    """The content may be written over the octets it is read from."""
    raw = accepted_body.raw
    buf = ffi.new("char[]", raw)
    body = ffi.new("http1_chunked *", {"max_extension_len": 256, "max_trailer_len": 8192})
    assert lib.http1_decode_chunked(body, buf, len(raw), buf) > 0
    content = accepted_body.expected["content"].encode("latin-1")
    assert bytes(ffi.buffer(buf, body.produced)) == content


def test_nothing_after_done(decode_chunked):
    """A decoder that is done consumes nothing more."""
    body = decode_chunked([b"0\r\n\r\n", b"5\r\nhello\r\n", b""])
    assert (body.consumed, body.is_done, body.content) == (5, True, b"")


def test_no_octets(decode_chunked):
    """A call without octets changes nothing."""
    body = decode_chunked([b"", b"5\r\nhe", b"", b"llo\r\n0\r\n", b"", b"\r\n"])
    assert (body.is_done, body.content) == (True, b"hello")


@pytest.mark.parametrize("digits", range(1, 17))
def test_size_limit(digits, decode_chunked):
    """Sizes up to 2^63 - 1 are taken, in up to 16 digits, and no larger ones."""
    largest = min(16**digits, 2**63) - 1
    assert decode_chunked([b"%x\r\n" % largest + b"a"]).content == b"a"
    assert decode_chunked([b"%016X\r\n" % largest + b"a"]).content == b"a"
    assert decode_chunked([b"%017x\r\n" % largest]) == "BAD_CHUNK_SIZE"


def test_size_octets(decode_chunked):
    """A size takes hexadecimal digits, and no other octet of the 256."""
    accepted = {n for n in range(256) if len(decode_chunked([b"1" + bytes([n]) + b"\r\n"])) == 3}
    assert accepted == set(b"0123456789abcdefABCDEF;")


def test_extension_limit(decode_chunked):
    """An extension may reach the limit, its semicolon counted, and no more; each chunk anew."""
    raw = b"1;bcd\r\na\r\n1;efg\r\nb\r\n0;hij\r\n\r\n"
    assert decode_chunked([raw], max_extension_len=4).content == b"ab"
    assert decode_chunked([raw], max_extension_len=3) == "LONG_CHUNK_EXTENSION"


def test_trailer_limit(decode_chunked):
    """Trailers may reach the limit, their line ends counted, the last CRLF not, and no more."""
    raw = b"0\r\nA: b\r\nC:\r\n\r\n"
    assert decode_chunked([raw], max_trailer_len=10).is_done
    assert decode_chunked([raw], max_trailer_len=9) == "TRAILERS_TOO_LARGE"
