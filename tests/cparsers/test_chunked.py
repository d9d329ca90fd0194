"""http1_decode_chunked: the content of chunked bodies, in any split, and nothing else."""

import pytest

from aserve._cparsers import ffi, lib

pytestmark = pytest.mark.long_on_pypy


def test_an_accepted_body_has_its_content(accepted_body, decode_chunked):
    body = decode_chunked([accepted_body.raw], **accepted_body.limits)
    assert not isinstance(body, str), body
    expected = accepted_body.expected
    assert body.content == expected["content"].encode("latin-1")
    assert body.consumed == expected["consumed"]
    assert body.is_done


def test_a_rejected_body_has_its_reason(rejected_body, decode_chunked):
    expected = rejected_body.expected
    assert decode_chunked([rejected_body.raw], **rejected_body.limits) == expected["error"]
    assert expected["clause"].startswith("RFC ")


def test_two_pieces_are_decoded_like_one(any_body, decode_chunked):
    raw, limits = any_body.raw, any_body.limits
    whole = decode_chunked([raw], **limits)
    # One cut of a long chunk's data is like another.
    for cut in range(len(raw)) if len(raw) < 1000 else [*range(20), *range(len(raw) - 20, len(raw))]:
        assert decode_chunked([raw[:cut], raw[cut:]], **limits) == whole, cut


def test_octet_by_octet(any_body, decode_chunked):
    """A body in single octets is decoded as the whole."""
    raw, limits = any_body.raw, any_body.limits
    pieces = [raw[i : i + 1] for i in range(len(raw))]
    assert decode_chunked(pieces, **limits) == decode_chunked([raw], **limits)


def test_every_prefix_waits(accepted_body, decode_chunked):
    """A good body is not done before its last octet."""
    raw, consumed = accepted_body.raw, accepted_body.expected["consumed"]
    for length in range(max(0, consumed - 200), consumed):
        body = decode_chunked([raw[:length]], **accepted_body.limits)
        assert (body.consumed, body.is_done) == (length, False)


def test_a_body_may_be_decoded_in_place(accepted_body):
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


def test_no_octets_change_nothing(decode_chunked):
    body = decode_chunked([b"", b"5\r\nhe", b"", b"llo\r\n0\r\n", b"", b"\r\n"])
    assert (body.is_done, body.content) == (True, b"hello")


@pytest.mark.parametrize("digits", range(1, 17))
def test_sizes_have_a_limit(digits, decode_chunked):
    largest = min(16**digits, 2**63) - 1
    assert decode_chunked([b"%x\r\n" % largest + b"a"]).content == b"a"
    assert decode_chunked([b"%016X\r\n" % largest + b"a"]).content == b"a"
    assert decode_chunked([b"%017x\r\n" % largest]) == "BAD_CHUNK_SIZE"


def test_sizes_have_hexadecimal_digits_alone(decode_chunked):
    accepted = {n for n in range(256) if len(decode_chunked([b"1" + bytes([n]) + b"\r\n"])) == 3}
    assert accepted == set(b"0123456789abcdefABCDEF;")


def test_extensions_reach_their_limit(decode_chunked):
    raw = b"1;bcd\r\na\r\n1;efg\r\nb\r\n0;hij\r\n\r\n"
    assert decode_chunked([raw], max_extension_len=4).content == b"ab"
    assert decode_chunked([raw], max_extension_len=3) == "LONG_CHUNK_EXTENSION"


def test_trailers_reach_their_limit(decode_chunked):
    raw = b"0\r\nA: b\r\nC:\r\n\r\n"
    assert decode_chunked([raw], max_trailer_len=10).is_done
    assert decode_chunked([raw], max_trailer_len=9) == "TRAILERS_TOO_LARGE"
