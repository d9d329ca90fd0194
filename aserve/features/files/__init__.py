"""--static, --compress and --x-sendfile: files in place of the app's responses, and responses in fewer octets.

Owns:     Static, Compress, XSendfileFolders: the extensions.
Thread:   event loop only, before serving.
Not here: the WSGI apps behind the settings (static.py, compressing.py, x_sendfile.py), with imports 0.5 MB of a process.
"""

from __future__ import annotations

from ...extension import Extension, Life, LifeContext
from ...wsgi import WSGIApp
from .settings import FileSettings


class Static(Extension[FileSettings]):
    """Answers with files below a path."""

    switches = ("static",)
    modules = ("static",)

    def wrap_app(self, app: WSGIApp) -> WSGIApp:
        """See Extension."""
        from .static import StaticFiles

        return StaticFiles(app, self._config)

    def on_life(self, event: Life, context: LifeContext) -> None:
        """Warn of missing folders."""
        if event in (Life.CHECKS, Life.STARTS, Life.RELOADS):
            from .static import warn_of_missing

            warn_of_missing(self._config)


class Compress(Extension[FileSettings]):
    """Compresses the app's responses."""

    switches = ("compress",)
    modules = ("compressing",)

    def wrap_app(self, app: WSGIApp) -> WSGIApp:
        """See Extension."""
        from .compressing import Compressing

        return Compressing(app, self._config)


class XSendfileFolders(Extension[FileSettings]):
    """Sends a file named by the app."""

    switches = ("x_sendfile",)
    modules = ("x_sendfile",)

    def wrap_app(self, app: WSGIApp) -> WSGIApp:
        """See Extension."""
        from .x_sendfile import XSendfile

        return XSendfile(app, self._config)
