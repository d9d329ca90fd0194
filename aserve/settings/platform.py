"""Settings from the platform, which every other source overrides: systemd's sockets, PORT and WEB_CONCURRENCY of a PaaS.

Owns:     these variables, and the settings that they set.
Thread:   any; pure, but systemd's variables are for one process.
Not here: the order of sources (sources.py), the sockets themselves (core/systemd.py).

Heroku and its like choose the port (https://12factor.net/port-binding), and set WEB_CONCURRENCY
to the number of processes that fit into memory.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..core.named_tuple import NamedTuple
from ..core.systemd import passed_sockets


class Said(NamedTuple):
    """The setting from one variable."""

    variable: str
    value: str | tuple[str, ...]  # of the setting
    note: str  # for the log


def platform_settings(environ: Mapping[str, str]) -> dict[str, Said]:
    """Return the settings of the environment, by name."""
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
        return []  # the sockets are another process's; a bind that names one is an error later
