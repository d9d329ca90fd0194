"""--compress: responses in fewer octets.

Owns:     Compress.
Thread:   event loop only, before the server serves.
Not here: the app that compresses (compressing.py).
"""

from __future__ import annotations

from ..extension import Extension
from ..settings import Config
from ..wsgi import WSGIApp


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
        from ..compressing import Compressing  # with its codings: 0.2 MB of each process

        return Compressing(app, self._config)
