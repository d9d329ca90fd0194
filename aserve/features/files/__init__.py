"""--static, --compress and --x-sendfile: files in place of the app's responses, and responses in fewer octets.

Owns:     Static, Compress, XSendfileFolders: the extensions.
Thread:   event loop only, before the server serves.
Not here: the apps that do it (static.py, compressing.py, x_sendfile.py), which take 0.5 MB of a process with what they need.
"""

from __future__ import annotations

from ...extension import Extension
from ...settings import Config
from ...wsgi import WSGIApp


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
        from .static import StaticFiles

        return StaticFiles(app, self._config)


class Compress(Extension):
    """Compresses what the app answers with."""

    def __init__(self, config: Config) -> None:
        self._config = config

    @classmethod
    def from_config(cls, config: Config) -> Compress | None:
        """See Extension."""
        return cls(config) if config.compress else None

    def wrap_app(self, app: WSGIApp) -> WSGIApp:
        """See Extension."""
        from .compressing import Compressing

        return Compressing(app, self._config)


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
        from .x_sendfile import XSendfile

        return XSendfile(app, self._config)
