"""The settings of HTTP/2.

Owns:     HTTP2Settings.
Thread:   any; pure.
"""

from __future__ import annotations

from ...settings import EngineSettings, row
from ...settings.kinds import choice, count


class HTTP2Settings(EngineSettings):
    """The settings of this feature."""

    # fmt: off
    http2: str = row(
        "auto", "Serving", "--http2", choice("auto", "off"),
        "HTTP/2 for clients that ask for it over TLS; auto: if the library h2 is installed (the extra `http2`); see docs/http2.md",
        "Browsers load a page with many parts sooner by it. A request costs more CPU time than over HTTP/1.1, which clients may still choose.",
    )
    max_streams: int = row(
        100, "Limits", "--max-streams", count(1, 10_000),
        "requests of one HTTP/2 connection at the same time; each counts as a connection in --max-connections",
        "RFC 9113 section 6.5.2 recommends no fewer than 100; a browser opens about as many.",
    )
    # fmt: on
