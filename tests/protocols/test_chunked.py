"""Chunked bodies, whichever parser has read the head: one decoder, one set of limits."""

import json
import pathlib
import re

import pytest
from harness.http1 import CHUNKED_HEAD, GET, PARSERS

from aserve._cparsers import lib
from aserve.protocols import PROTOCOLS
from aserve.protocols.base import Limits, refusal
from aserve.protocols.chunked import MAX_EXTENSION_BYTES, MAX_TRAILER_BYTES

FILES = sorted((pathlib.Path(__file__).parent.parent / "corpus" / "chunked").glob("*/*.raw"))
LONG_EXTENSION = str(refusal(lib.ASERVE_LONG_CHUNK_EXTENSION))
LARGE_TRAILERS = str(refusal(lib.ASERVE_TRAILERS_TOO_LARGE))
LARGE_HEAD = str(refusal(lib.ASERVE_HEAD_TOO_LARGE))


def receive(parser, raw, step, **limits):
    protocol = PROTOCOLS["http", parser](Limits(**limits))()
    exchanges = []
    for start in range(0, len(raw), step):
        exchanges += protocol.receive(raw[start : start + step])
    return protocol, exchanges


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_corpus_is_read_as_its_json_says(path, parser):
    expected = json.loads(path.with_suffix(".json").read_text())
    if {"max_extension_len", "max_trailer_len"} & expected.get("limits", {}).keys():
        return  # limits that no setting has: tests/cparsers/test_chunked.py
    raw = path.read_bytes()
    protocol, (exchange, *_) = receive(parser, CHUNKED_HEAD + raw, 1 << 20)
    if "error" in expected:
        assert str(exchange.refusal) == str(refusal(getattr(lib, f"ASERVE_{expected['error']}")))
    else:
        assert exchange.refusal is None
        assert exchange.body.open().read() == expected["content"].encode("latin-1")


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("step", [100, 1 << 20])
@pytest.mark.parametrize("is_live", [False, True])
@pytest.mark.parametrize(
    ("begin", "limit", "why"),
    [
        (b"1;", MAX_EXTENSION_BYTES, LONG_EXTENSION),
        (b"1\r\na\r\n0;", MAX_EXTENSION_BYTES, LONG_EXTENSION),
        (b"0\r\nA: ", MAX_TRAILER_BYTES, LARGE_TRAILERS),
        (b"0\r\n" + b"A: b\r\n" * (MAX_TRAILER_BYTES // 6), MAX_TRAILER_BYTES, LARGE_TRAILERS),
    ],
    ids=["extension", "last extension", "trailer", "trailers"],
)
def test_what_has_no_end(parser, step, is_live, begin, limit, why):
    """An extension or a trailer section that goes on is refused at its limit, and nothing more of it is read."""
    protocol, exchanges = receive(parser, CHUNKED_HEAD + begin + b"x" * (limit + 1), step, is_live=is_live)
    (exchange,) = exchanges
    if is_live:
        with pytest.raises(OSError, match=re.escape(why)):
            exchange.body.open().read()
    else:
        assert str(exchange.refusal) == why
    assert protocol.receive(b"x" * 5000) == [] and not protocol.unparsed and not protocol.is_mid_message


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("step", [2, 1000, 1 << 20])
def test_empty_lines_without_end(parser, step):
    """They count as octets of the head that they stand before."""
    _, exchanges = receive(parser, b"\r\n" * 5000 + GET, step, max_head_bytes=4096)
    # One that comes alone, as behind a request, is dropped.
    assert [str(exchange.refusal) for exchange in exchanges] == [LARGE_HEAD if step > 2 else "None"]


@pytest.mark.parametrize("parser", PARSERS)
def test_the_next_request(parser):
    """A head behind the trailers, in the same octets, is the next request's."""
    for step in (1, 7, 1 << 20):
        _, exchanges = receive(parser, (CHUNKED_HEAD + b"1\r\na\r\n0\r\nA: b\r\n\r\n" + GET) * 2, step)
        assert [exchange.body and exchange.body.open().read() for exchange in exchanges] == [b"a", None] * 2


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("most", [1, 2])
def test_a_body_of_the_largest_size_is_read(parser, most):
    """The limit is the largest size that is allowed."""
    _, (exchange, *_) = receive(parser, CHUNKED_HEAD + b"2\r\nab\r\n0\r\n\r\n", 1 << 20, max_body_bytes=most)
    assert (exchange.refusal is None) is (most == 2)
