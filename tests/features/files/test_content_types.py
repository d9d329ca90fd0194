"""A file's type, by its name."""

import pytest

from aserve.features.files.content_types import content_type, is_compressible


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.html", "text/html; charset=utf-8"),
        ("A.CSS", "text/css; charset=utf-8"),
        ("app.3f9a.js", "text/javascript; charset=utf-8"),
        ("app.mjs", "text/javascript; charset=utf-8"),
        ("data.json", "application/json"),
        ("app.js.map", "application/json"),
        ("site.webmanifest", "application/manifest+json"),
        ("feed.xml", "application/xml"),
        ("logo.svg", "image/svg+xml"),
        ("photo.avif", "image/avif"),
        ("font.woff2", "font/woff2"),
        ("code.wasm", "application/wasm"),
        ("a.tar.gz", "application/gzip"),  # the file, and no coding of another
        ("a.tar", "application/x-tar"),
        ("a.bmp", "image/bmp"),  # of several names in the standard library, as is the next
        ("clip.3gp", "video/3gpp"),
        ("letter.odt", "application/vnd.oasis.opendocument.text"),
        ("live.m3u8", "application/vnd.apple.mpegurl"),
        ("html", "application/octet-stream"),
        ("clip.mp4", "video/mp4"),
        ("README", "application/octet-stream"),
        ("a.unheard-of", "application/octet-stream"),
        ("a.", "application/octet-stream"),
    ],
)
def test_the_last_suffix_decides_the_type(name, kind):
    """The last suffix decides, in either case; text is UTF-8."""
    assert content_type(name) == kind


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("text/html; charset=utf-8", True),
        ("TEXT/plain", True),
        ("application/json", True),
        ("application/problem+json", True),
        ("image/svg+xml", True),
        ("application/wasm", True),
        ("image/png", False),
        ("font/woff2", False),
        ("application/gzip", False),
        ("application/octet-stream", False),
        ("", False),
    ],
)
def test_text_types_are_compressible(kind, expected):
    assert is_compressible(kind) is expected
