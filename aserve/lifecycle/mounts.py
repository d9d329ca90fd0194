"""Several apps in one server, each below a path.

Owns:     Mounts, an app that calls the app of a path; loading them; nothing_here, the main app if none was named.
Thread:   loading: any, before the server starts; calling: a worker (with --threads 0: the event loop).
Spec:     PEP 3333 "environ Variables": SCRIPT_NAME and PATH_INFO.
Not here: importing an app (loading.py), the setting (features/mounts.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Callable

from ..settings.prefixes import Below
from ..wsgi import WSGIApp
from .loading import load_app, whole_spec


class Mounts:
    """A WSGI app of several: the longest prefix wins; requests below no prefix go to the main app."""

    def __init__(self, apps: Iterable[tuple[str, WSGIApp]], main: WSGIApp) -> None:
        self._apps = sorted(apps, key=lambda pair: -len(pair[0]))
        self.main = main

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Call the app of the path, with the prefix moved to SCRIPT_NAME."""
        path: str = environ["PATH_INFO"]
        for prefix, app in self._apps:
            if path.startswith(prefix):
                rest = path[len(prefix) :]
                # /admin is no prefix of /administration.
                if not rest or rest[0] == "/":
                    environ["SCRIPT_NAME"] += prefix
                    environ["PATH_INFO"] = rest
                    return app(environ, start_response)
        return self.main(environ, start_response)


def load_with_mounts(mounted: Iterable[Below], load_main: Callable[[], WSGIApp]) -> WSGIApp:
    """
    Import the main app, and the mounted apps; return an app in front of them, or the main app if alone.

    Raises:
        LoadError: there is no such app, or the app's code raised.
    """
    mounts = [(prefix, whole_spec(spec)) for prefix, spec in mounted]
    main = load_main()
    return Mounts([(prefix, load_app(spec)) for prefix, spec in mounts], main) if mounts else main


def nothing_here(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Answer 404: the path is neither a file nor below a mount, and no APP was named."""
    start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
    return [b"404: nothing is served at this path\n"]
