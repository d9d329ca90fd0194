"""`--host` and `--port`, as other servers have them: together they are one --bind.

Owns:     take_host_and_port.
Thread:   any; pure.
Not here: the grammar of binds (settings/bind.py), PORT without these flags (settings/platform.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..settings import ConfigError, Typed

# Also the default of --bind.
HOST, PORT = "127.0.0.1", "8000"


def take_host_and_port(given: dict[str, Any], environ: Mapping[str, str]) -> None:
    """
    Replace the two flags by their --bind: without --host it is on loopback, without --port at the variable PORT, or at 8000.

    Raises:
        ConfigError: there is a --bind, too, or the host has a port.
    """
    host, port = given.pop("host", None), given.pop("port", None)
    if host is None and port is None:
        return
    if "bind" in given:
        raise ConfigError(
            "--host and --port are one --bind: give either these or --bind HOST:PORT, which may be repeated"
        )
    flags = " and ".join(flag for flag, value in (("--host", host), ("--port", port)) if value is not None)
    name = HOST if host is None else host
    if name.count(":") == 1:
        raise ConfigError(f"--host: {name!r} has a port; write --bind {name}")
    if ":" in name and not name.startswith("["):
        name = f"[{name}]"
    place = f"{name}:{port if port is not None else environ.get('PORT') or PORT}"
    given["bind"] = Typed.with_flags([place], flags)
