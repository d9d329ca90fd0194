"""Which connections can use the lane, and which setting keeps the others from the lane.

Owns:     `is_available`; `why_unavailable` and `why_python`, whose reasons the start names.
Thread:   the main thread, before a server listens.
Not here: which requests of the lane C serves (plain.py); docs/design.md, "Which way a request takes", has both as a table.
"""

from __future__ import annotations

from typing import Any

from ..._cparsers import lib
from ...proxies.trust import needs_identity
from ...tls.certificates import needs_python
from ...tls.sessions import why_no_library
from ..listeners import Listener
from ..service import Service
from .lane_memory import CODES

# Octets of the end of a head: native/request.h; only --server-name and fields of extensions make it longer.
MAX_TAIL_BYTES = 1024


def is_available(listener: Listener, service: Service) -> bool:
    """Whether this listener's connections can use the lane."""
    return not why_unavailable(listener.bind, service.config, service.peers)


def why_unavailable(bind: Any, config: Any, peers: Any) -> str:
    """Return what keeps the connections of a bind from the lane, such as a setting; empty: nothing does."""
    by_reason = {
        "a system without epoll": not lib.lane_available(),
        "--lane off": config.lane == "off",
        bind.protocol: bind.protocol not in CODES,
        f"TLS: {why_no_library()}": bind.protocol == "https" and why_no_library() != "",
        "--client-certificate": bind.protocol == "https" and needs_python(config.tls_settings(bind)),
        f"--http-parser {config.http_parser}": bind.protocol in ("http", "https") and config.http_parser != "c",
        f"--body {config.body}": config.body != "buffer",  # a live body is not complete when its request begins
        "the PROXY protocol": bind.is_proxied,
        "--trusted-proxies": peers is not None and needs_identity(bind, peers),
    }
    return next((reason for reason, is_so in by_reason.items() if is_so), "")


def why_python(config: Any, common_octets: bytes) -> str:
    """Return the setting that leaves all requests of the lane to Python; empty: none does. `common_octets`: the fields of each response."""
    by_reason = {
        "--native off": config.native == "off",
        "--threads 0": not config.threads,
        "--add-field": len(common_octets) > MAX_TAIL_BYTES,
    }
    return next((reason for reason, is_so in by_reason.items() if is_so), "")
