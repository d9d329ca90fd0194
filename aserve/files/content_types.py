"""What a file is, by the end of its name.

Owns:     content_type: a table of the web's types before the standard library's; is_compressible.
Thread:   any; pure.
Spec:     RFC 9110 section 8.3; the names as IANA has them.
Not here: who sends it (reply.py, compressing.py).

The system's own tables (/etc/mime.types) are not read: a file has the same type on every machine.
"""

from __future__ import annotations

import mimetypes

UNKNOWN = "application/octet-stream"  # RFC 9110 8.3: browsers offer to save it, and guess nothing

# What the standard library does not know, or not in every version, or by an older name (RFC 9239: text/javascript).
_WEB = {
    ".7z": "application/x-7z-compressed", ".aac": "audio/aac", ".apng": "image/apng", ".avif": "image/avif",
    ".br": UNKNOWN, ".bz2": "application/x-bzip2", ".cjs": "text/javascript", ".css": "text/css", ".csv": "text/csv",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document", ".epub": "application/epub+zip",
    ".flac": "audio/flac", ".geojson": "application/geo+json", ".gz": "application/gzip", ".htm": "text/html",
    ".html": "text/html", ".ico": "image/vnd.microsoft.icon", ".ics": "text/calendar", ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg", ".js": "text/javascript", ".json": "application/json", ".jsonld": "application/ld+json",
    ".jxl": "image/jxl", ".m4a": "audio/mp4", ".m4v": "video/mp4", ".map": "application/json", ".md": "text/markdown",
    ".mjs": "text/javascript", ".mp3": "audio/mpeg", ".mp4": "video/mp4", ".oga": "audio/ogg", ".ogg": "audio/ogg",
    ".ogv": "video/ogg", ".opus": "audio/ogg", ".otf": "font/otf", ".pdf": "application/pdf", ".png": "image/png",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation", ".rss": "application/rss+xml",
    ".atom": "application/atom+xml", ".svg": "image/svg+xml", ".tgz": "application/gzip", ".ttf": "font/ttf",
    ".txt": "text/plain", ".vtt": "text/vtt", ".wasm": "application/wasm", ".wav": "audio/wav", ".weba": "audio/webm",
    ".webm": "video/webm", ".webmanifest": "application/manifest+json", ".webp": "image/webp", ".woff": "font/woff",
    ".woff2": "font/woff2", ".xhtml": "application/xhtml+xml", ".xml": "application/xml", ".xz": "application/x-xz",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", ".zip": "application/zip",
    ".zst": "application/zstd",
}  # fmt: skip
_TYPES = {**mimetypes.MimeTypes().types_map[True], **_WEB}

# Types beside text/* that are text all the same, or as compressible.
_COMPRESSIBLE = frozenset((
    "application/javascript", "application/json", "application/manifest+json", "application/wasm", "application/xml",
    "application/x-javascript", "application/x-ndjson", "font/otf", "font/ttf", "image/bmp", "image/vnd.microsoft.icon",
    "image/x-icon",
))  # fmt: skip


def content_type(name: str) -> str:
    """Return the value of Content-Type for a file of this name; text is said to be UTF-8."""
    kind = _TYPES.get(name[name.rfind(".") :].lower() if "." in name else "", UNKNOWN)
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind


def is_compressible(content_type: str) -> bool:
    """Whether octets of this type become fewer: text, and what is written like it, but nothing that is compressed already."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind in _COMPRESSIBLE or kind.endswith(("+json", "+xml"))
