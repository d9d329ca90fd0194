"""--static and --x-sendfile: files in place of the app's responses.

Owns:     Static, XSendfileFolders.
Thread:   event loop only, before the server serves.
Not here: the apps that answer with files (files/).
"""

from __future__ import annotations

from ..extension import Extension
from ..settings import Config
from ..wsgi import WSGIApp


class Static(Extension):
    """Answers with files where a path stands for one."""

    def __init__(self, config: Config) -> None:
        self._config = config

    @classmethod
    def from_config(cls, config: Config) -> Static | None:
        """See Extension."""
        return cls(config) if config.static else None

    def wrap_app(self, app: WSGIApp) -> WSGIApp:
        """See Extension."""
        from ..files.static import StaticFiles  # this and the next: 0.3 MB of each process

        return StaticFiles(app, self._config)


class XSendfileFolders(Extension):
    """Sends the file that the app names."""

    def __init__(self, config: Config) -> None:
        self._config = config

    @classmethod
    def from_config(cls, config: Config) -> XSendfileFolders | None:
        """See Extension."""
        return cls(config) if config.x_sendfile else None

    def wrap_app(self, app: WSGIApp) -> WSGIApp:
        """See Extension."""
        from ..files.x_sendfile import XSendfile

        return XSendfile(app, self._config)
