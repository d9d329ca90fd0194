"""The settings of HTTP/2.

Owns:     HTTP2Settings.
Thread:   any; pure.
"""

from __future__ import annotations

from ...settings import ConfigError, EngineSettings, Needs, row
from ...settings.kinds import choice, count

_HTTP2 = Needs(("https://", "http2"))


class HTTP2Settings(EngineSettings):
    """The settings of this feature."""

    # fmt: off
    http2: str = row(
        "auto", "Serving", "--http2", choice("auto", "h2c", "off"),
        "HTTP/2 for clients with this choice over TLS; h2c: without TLS, too, for proxies in --trusted-proxies; see `aserve docs http2`",
        "Browsers load a page with many parts sooner. A request costs more CPU time than over HTTP/1.1; clients may still choose HTTP/1.1.",
    )
    max_streams: int = row(
        100, "Limits", "--max-streams", count(1, 10_000),
        "requests of an HTTP/2 connection at the same time; each counts as a connection in --max-connections",
        "RFC 9113 section 6.5.2 recommends no fewer than 100; a browser opens about as many.",
        needs=_HTTP2,
    )
    # fmt: on

    @property
    def speaks_http2(self) -> bool:
        """Whether clients may ask for HTTP/2."""
        return self.http2 == "h2c" or (self.http2 != "off" and bool(self.tls_binds))

    def has(self, needs: Needs) -> bool:
        """See Settings."""
        return self.speaks_http2 if needs is _HTTP2 else super().has(needs)

    def check(self) -> None:
        """See Settings."""
        if self.http2 == "h2c" and not self.trusted_proxies:
            raise ConfigError("--http2 h2c is for proxies only; name them with --trusted-proxies")
