"""The media type of a file, by the suffix of the name.

Owns:     content_type, with a table; is_compressible.
Thread:   any; pure.
Spec:     RFC 9110 section 8.3; IANA's registry of media types.
Not here: sending the type (reply.py, compressing.py).

Tables of the system and of Python are not used: a file has the same type everywhere.
"""

from __future__ import annotations

UNKNOWN = "application/octet-stream"  # RFC 9110 8.3: browsers offer to save the file, without a guess

# IANA's names, or names known to browsers. The standard library's table differs between versions of Python.
_SUFFIXES = {
    "application/atom+xml": "atom", "application/dash+xml": "mpd", "application/epub+zip": "epub", "application/geo+json": "geojson",
    "application/gzip": "gz tgz", "application/java-archive": "ear jar war", "application/json": "json map",
    "application/ld+json": "jsonld", "application/manifest+json": "webmanifest", "application/msword": "doc dot",
    "application/pdf": "pdf", "application/pkcs7-mime": "p7c", "application/postscript": "ai eps ps", "application/rdf+xml": "rdf",
    "application/rss+xml": "rss", "application/rtf": "rtf", "application/vnd.apple.mpegurl": "m3u m3u8",
    "application/vnd.google-earth.kml+xml": "kml", "application/vnd.google-earth.kmz": "kmz", "application/vnd.ms-excel": "xls",
    "application/vnd.ms-fontobject": "eot", "application/vnd.ms-powerpoint": "pot pps ppt",
    "application/vnd.oasis.opendocument.graphics": "odg", "application/vnd.oasis.opendocument.presentation": "odp",
    "application/vnd.oasis.opendocument.spreadsheet": "ods", "application/vnd.oasis.opendocument.text": "odt",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx", "application/vnd.rar": "rar",
    "application/wasm": "wasm", "application/x-7z-compressed": "7z", "application/x-bzip2": "bz2", "application/x-hdf5": "h5",
    "application/x-netcdf": "cdf nc", "application/x-pkcs12": "p12 pfx", "application/x-sh": "sh",
    "application/x-shockwave-flash": "swf", "application/x-tar": "tar", "application/x-tex": "tex",
    "application/x-x509-ca-cert": "crt der pem", "application/x-xpinstall": "xpi", "application/x-xz": "xz",
    "application/xhtml+xml": "xhtml", "application/xml": "wsdl xml xsl", "application/zip": "zip", "application/zstd": "zst",
    "audio/aac": "aac", "audio/basic": "au snd", "audio/flac": "flac", "audio/midi": "kar mid midi", "audio/mp4": "m4a",
    "audio/mpeg": "mp2 mp3", "audio/ogg": "oga ogg opus", "audio/wav": "wav", "audio/webm": "weba", "audio/x-aiff": "aif aiff",
    "font/otf": "otf", "font/ttf": "ttf", "font/woff": "woff", "font/woff2": "woff2",
    "image/apng": "apng", "image/avif": "avif", "image/bmp": "bmp", "image/gif": "gif", "image/heic": "heic", "image/heif": "heif",
    "image/jpeg": "jpe jpeg jpg", "image/jxl": "jxl", "image/png": "png", "image/svg+xml": "svg", "image/tiff": "tif tiff",
    "image/vnd.microsoft.icon": "ico", "image/webp": "webp", "image/x-portable-bitmap": "pbm", "image/x-portable-graymap": "pgm",
    "image/x-portable-pixmap": "ppm", "message/rfc822": "eml mht mhtml",
    "text/calendar": "ics", "text/css": "css", "text/csv": "csv", "text/html": "htm html", "text/javascript": "cjs js mjs",
    "text/markdown": "md", "text/n3": "n3", "text/plain": "bat c h ksh pl srt txt", "text/tab-separated-values": "tsv",
    "text/vcard": "vcf", "text/vtt": "vtt", "text/x-python": "py",
    "video/3gpp": "3gp 3gpp", "video/3gpp2": "3g2", "video/mp4": "m4v mp4", "video/mpeg": "mpe mpeg mpg", "video/ogg": "ogv",
    "video/quicktime": "mov qt", "video/webm": "webm", "video/x-flv": "flv", "video/x-ms-wmv": "wmv", "video/x-msvideo": "avi",
}  # fmt: skip
_TYPES = {suffix: kind for kind, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}

# Types of text outside text/*, or as compressible as text.
_COMPRESSIBLE = frozenset((
    "application/javascript", "application/json", "application/manifest+json", "application/wasm", "application/xml",
    "application/x-javascript", "application/x-ndjson", "font/otf", "font/ttf", "image/bmp", "image/vnd.microsoft.icon",
    "image/x-icon",
))  # fmt: skip


def content_type(name: str) -> str:
    """Return the value of Content-Type for a file of this name; text is said to be UTF-8."""
    kind = _TYPES.get(name.rpartition(".")[2].lower(), UNKNOWN) if "." in name else UNKNOWN
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind


def is_compressible(content_type: str) -> bool:
    """Whether content of this type is compressible: text, JSON, XML and their like."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind in _COMPRESSIBLE or kind.endswith(("+json", "+xml"))
