"""Compressors make octets fewer, readable piece by piece."""

import importlib
import threading
import types
import zlib
from importlib.util import find_spec

import pytest

from aserve.features.files import compressors
from aserve.features.files.compressors import find_codings

TEXT = b"".join(b"<li>line %d of a page</li>\n" % number for number in range(2000))


def has(name):
    """Whether a module can be imported."""
    try:
        return find_spec(name) is not None
    except ImportError:
        return False


def new_decoder(coding):
    """Return a function that reads pieces of this coding."""
    if coding == "gzip":
        return zlib.decompressobj(31).decompress
    if coding == "br":
        brotli = importlib.import_module("brotli" if has("brotli") else "brotlicffi")
        decoder = brotli.Decompressor()
        return getattr(decoder, "process", None) or decoder.decompress
    name = next(name for name in ("compression.zstd", "backports.zstd", "zstandard") if has(name))
    zstd = importlib.import_module(name)
    return (
        zstd.ZstdDecompressor().decompressobj().decompress
        if name == "zstandard"
        else zstd.ZstdDecompressor().decompress
    )


# The module that writes a coding, and its preferred rivals.
WRITERS = [
    ("gzip", "zlib", ()),
    ("br", "brotli", ()),
    ("br", "brotlicffi", ("brotli",)),
    ("zstd", "compression.zstd", ()),
    ("zstd", "backports.zstd", ("compression.zstd",)),
    ("zstd", "zstandard", ("compression.zstd", "backports.zstd")),
]


@pytest.fixture(params=WRITERS, ids=lambda each: each[1])
def writer(request, monkeypatch):
    """Return a coding and the start of its streams, by each installed module."""
    coding, name, hidden = request.param
    if not has(name):
        pytest.skip(f"{name} is not installed")
    hide(monkeypatch, *hidden)
    return coding, find_codings()[coding]


def hide(monkeypatch, *names):
    """Let these modules be missing."""
    real = importlib.import_module

    def import_module(name):
        if name in names:
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(compressors, "importlib", types.SimpleNamespace(import_module=import_module))


def test_a_body_is_restored(writer):
    coding, new_stream = writer
    stream = new_stream()
    octets = stream.compress(TEXT) + stream.finish()
    assert len(octets) < len(TEXT) / 4 and new_decoder(coding)(octets) == TEXT
    empty = new_stream()
    assert new_decoder(coding)(empty.finish()) == b""


def test_flushed_pieces_can_be_read(writer):
    coding, new_stream = writer
    stream, decode = new_stream(), new_decoder(coding)
    for number in range(5):
        piece = b"data: %d\n\n" % number
        assert decode(stream.compress(piece) + stream.flush()) == piece
    assert decode(stream.finish()) == b""


def test_several_at_once(writer):
    coding, new_stream = writer
    failed = []

    def run(number):
        stream = new_stream()
        body = TEXT[number:]
        octets = stream.compress(body) + stream.finish()
        if new_decoder(coding)(octets) != body:
            failed.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_only_what_is_installed(monkeypatch):
    """gzip is always there; other codings need a package, and come first."""
    hide(monkeypatch, "brotli", "brotlicffi", "compression.zstd", "backports.zstd", "zstandard")
    assert list(find_codings()) == ["gzip"]
    monkeypatch.undo()
    assert list(find_codings())[-1] == "gzip"
