"""What stands in front of the app, as the settings ask for it.

Owns:     layered; nothing_here, the app where there is none.
Thread:   any, before the server serves.
Not here: what each layer does (files/, compressing.py), mounts (mounts.py), which are part of the app.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .mounts import Mounts
from .settings import Config, ConfigError
from .wsgi import WSGIApp
from .wsgi.wrapping import named_as


def layered(app: WSGIApp, config: Config) -> WSGIApp:
    """
    Return the app with what the settings put in front of it; the app itself if that is nothing.

    Raises:
        ConfigError: mounts are named, and have not been loaded.
    """
    if config.mount and type(app) is not Mounts:
        raise ConfigError(
            "mount is the command's, which imports the apps; in a program give the server one that calls them, such as "
            "werkzeug's DispatcherMiddleware"
        )
    outer: Any = app
    if config.x_sendfile:
        from .files.x_sendfile import XSendfile  # these three: 0.4 MB of each process, with what they need

        outer = XSendfile(outer, config)
    if config.compress:
        from .compressing import Compressing

        outer = Compressing(outer, config)
    if config.static:
        from .files.static import StaticFiles

        outer = StaticFiles(outer, config)
    return outer if outer is app else named_as(outer, app)


def nothing_here(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """A WSGI app that has nothing: what is asked for is neither a file nor below a mount, and no APP was named."""
    start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
    return [b"404: nothing is served at this path\n"]
