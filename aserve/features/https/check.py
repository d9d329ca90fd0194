"""What --check says of certificates by ACME.

Owns:     lines_of.
Thread:   the main thread.
Not here: what a running server says (status.py), the other lines (command/banner.py).
"""

from __future__ import annotations

from .answers import HTTP_01, kinds_of
from .settings import HTTPSSettings, folder_of

HTTP_PORT, TLS_PORT = 80, 443  # at which an authority asks: RFC 8555 8.3, RFC 8737 3


def lines_of(config: HTTPSSettings) -> list[str]:
    """Return the lines: the names, the authority, the folder, the challenges that can be answered; none without --https."""
    if not config.https:
        return []
    ports = [(kind.upper(), HTTP_PORT if kind == HTTP_01 else TLS_PORT) for kind in kinds_of(config)]
    return [
        f"https:   {', '.join(config.https)}",
        f"acme-directory: {config.acme_directory}",
        f"https-folder: {folder_of(config)}",
        f"challenges: {', or '.join(f'{kind} at port {port}' for kind, port in ports)}",
    ]
