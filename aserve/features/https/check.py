"""The lines of --check about certificates by ACME.

Owns:     lines_of.
Thread:   the main thread.
Not here: the words of a running server (status.py), the other lines (command/banner.py).
"""

from __future__ import annotations

from .answers import PORTS, kinds_of
from .settings import HTTPSSettings, folder_of


def lines_of(config: HTTPSSettings) -> list[str]:
    """Return the lines: the names, the authority, the folder, the answerable challenges; none without --https."""
    if not config.https:
        return []
    return [
        f"https:   {', '.join(config.https)}",
        f"acme-directory: {config.acme_directory}",
        f"https-folder: {folder_of(config)}",
        f"challenges: {', or '.join(f'{kind.upper()} at port {PORTS[kind]}' for kind in kinds_of(config))}",
    ]
