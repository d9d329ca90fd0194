"""Several apps in one server, each below a path: --mount.

Owns:     Mounts, an app that calls the one whose path it is; loading them; nothing_here, the app where there is none.
Thread:   loading: any, before the server starts; calling: a worker (with --threads 0: the event loop).
Spec:     PEP 3333 "environ Variables": SCRIPT_NAME and PATH_INFO.
Not here: importing an app (lifecycle/loading.py), the setting's grammar (settings/prefixes.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..lifecycle.loading import load_app, not_loaded
from ..settings import ConfigError, EngineSettings
from ..settings.prefixes import parse_mount
from ..wsgi import WSGIApp


class Mounts:
    """A WSGI app of several: the longest prefix wins, and what is below none is the main app's."""

    def __init__(self, apps: Iterable[tuple[str, WSGIApp]], main: WSGIApp) -> None:
        self._apps = sorted(apps, key=lambda pair: -len(pair[0]))
        self.main = main

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Call the app whose path it is, with its prefix moved to SCRIPT_NAME."""
        path: str = environ["PATH_INFO"]
        for prefix, app in self._apps:
            if path.startswith(prefix):
                rest = path[len(prefix) :]
                # Of another segment, /administration, it is not the beginning.
                if not rest or rest[0] == "/":
                    environ["SCRIPT_NAME"] += prefix
                    environ["PATH_INFO"] = rest
                    return app(environ, start_response)
        return self.main(environ, start_response)


def load_mounts(texts: Sequence[str], main: WSGIApp) -> WSGIApp:
    """
    Import the apps that the setting `mount` names; return what calls them, the main app itself if there are none.

    Raises:
        LoadError: there is no such app, or its code raised.
    """
    if not texts:
        return main
    return Mounts([(prefix, load_app(spec)) for prefix, spec in map(parse_mount, texts)], main)


def check_mounts(app: WSGIApp, config: EngineSettings) -> None:
    """
    See that mounts which are named have been loaded.

    Raises:
        ConfigError: they have not.
    """
    if config.mount and type(app) is not Mounts and app is not not_loaded:
        raise ConfigError(
            "mount is the command's, which imports the apps; in a program give the server one that calls them, such as "
            "werkzeug's DispatcherMiddleware"
        )


def nothing_here(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """A WSGI app that has nothing: what is asked for is neither a file nor below a mount, and no APP was named."""
    start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
    return [b"404: nothing is served at this path\n"]
