"""The compressors: gzip, and Brotli and Zstandard where a package is installed.

Owns:     find_codings: the codings of this process; Stream, one body in compression.
Thread:   any; a Stream one at a time.
Spec:     RFC 1952 (gzip), 7932 (br), 8878 and 9659 (zstd); RFC 9110 section 8.4.1.
Not here: the choice of responses (compressing.py).
"""

from __future__ import annotations

import importlib
import zlib
from typing import Any, Callable

from ...core.named_tuple import NamedTuple

# The levels. For 40,000 octets of HTML (2026-11-23, CPython 3.11, one CPU of a busy machine), microseconds and octets of output:
# zstd 3: 113, 10515 (1: 80, 10978; 6: 345, 9909); br 3: 249, 10454 (5: 585, 9545); gzip 4: 368, 10208 (1: 283, 11341; 6: 666, 9933).
ZSTD_LEVEL, BROTLI_QUALITY, GZIP_LEVEL = 3, 3, 4
# The window of zstd and br, as a power of two: 512 KiB. An open stream then holds 1.1 and 0.8 MiB, one of gzip 0.25 (measured on the same day);
# with the libraries' own windows, of 2 and 4 MiB, many streams of events would hold several times as much.
WINDOW_BITS = 19
_GZIP_WRAPPER = 16 + zlib.MAX_WBITS


class Stream(NamedTuple):
    """
    The calls for the compression of one body: pieces in, octets out.

    After `flush` the client can read all pieces so far; `finish` ends the body.
    """

    compress: Callable[[bytes], bytes]
    flush: Callable[[], bytes]
    finish: Callable[[], bytes]


NewStream = Callable[[], Stream]


def find_codings() -> dict[str, NewStream]:
    """Return the constructors of a stream by coding, the best ratio of time to size first."""
    found = {"zstd": _find_zstd(), "br": _find_brotli(), "gzip": _new_gzip}
    return {coding: new_stream for coding, new_stream in found.items() if new_stream is not None}


def _new_gzip() -> Stream:
    gzip = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, _GZIP_WRAPPER)
    return Stream(gzip.compress, lambda: gzip.flush(zlib.Z_SYNC_FLUSH), gzip.flush)


def _find_brotli() -> NewStream | None:
    brotli = _import_first("brotli", "brotlicffi")
    if brotli is None:
        return None

    def new_stream() -> Stream:
        compressor = brotli.Compressor(quality=BROTLI_QUALITY, lgwin=WINDOW_BITS)
        return Stream(compressor.process, compressor.flush, compressor.finish)

    return new_stream


def _find_zstd() -> NewStream | None:
    zstd = _import_first("compression.zstd", "backports.zstd")  # the standard library's, from Python 3.14 on
    if zstd is None:
        return _find_zstandard()
    kinds = zstd.CompressionParameter
    options = {kinds.compression_level: ZSTD_LEVEL, kinds.window_log: WINDOW_BITS}

    def new_stream() -> Stream:
        compressor = zstd.ZstdCompressor(options=options)
        return Stream(compressor.compress, lambda: compressor.flush(compressor.FLUSH_BLOCK), compressor.flush)

    return new_stream


def _find_zstandard() -> NewStream | None:
    zstandard = _import_first("zstandard")
    if zstandard is None:
        return None
    parameters = zstandard.ZstdCompressionParameters.from_level(ZSTD_LEVEL, window_log=WINDOW_BITS)

    def new_stream() -> Stream:
        # One per stream: two threads must not use one at a time.
        compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        return Stream(
            compressor.compress, lambda: compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK), compressor.flush
        )

    return new_stream


def _import_first(*names: str) -> Any:
    """Return the first installed one of these modules, or None."""
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            pass
    return None
