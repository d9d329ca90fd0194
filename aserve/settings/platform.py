"""What the platform says where no setting does: systemd's sockets, PORT and WEB_CONCURRENCY of a PaaS.

Owns:     these variables, and which settings they stand for.
Thread:   any; pure, but that systemd's are for one process.
Not here: that every source of a setting wins over them (table.py), the sockets themselves (core/systemd.py).

Heroku and its like choose the port (https://12factor.net/port-binding), and mean by WEB_CONCURRENCY
how many processes their memory has room for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..core.systemd import passed_sockets


class Said(NamedTuple):
    """What one variable says."""

    variable: str
    value: str | tuple[str, ...]  # of the setting that it stands for
    note: str  # what it means, for the log


def platform_settings(environ: Mapping[str, str]) -> dict[str, Said]:
    """Return what the environment says, by the names of settings."""
    found = {}
    port, workers = environ.get("PORT"), environ.get("WEB_CONCURRENCY")
    names = _names_of_sockets(environ)
    if names:
        binds = tuple(f"systemd:{name}" for name in names)
        found["bind"] = Said("LISTEN_FDS", binds, "no --bind: listening on the sockets that systemd has passed")
    elif port:
        note = f"no --bind, and PORT is {port}: listening on all IPv4 interfaces"
        found["bind"] = Said("PORT", (f"0.0.0.0:{port}",), note)
    if workers:
        found["workers"] = Said("WEB_CONCURRENCY", workers, f"WEB_CONCURRENCY is {workers}")
    return found


def _names_of_sockets(environ: Mapping[str, str]) -> list[str]:
    try:
        return [*passed_sockets(environ)]
    except ValueError:
        return []  # they are another process's; a bind that names one says so
