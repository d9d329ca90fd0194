"""In the place of `gunicorn.arbiter`: for programs whose application runs it, and for annotations of hooks."""

from __future__ import annotations

from typing import NoReturn

from .app.base import BaseApplication


class Arbiter:
    """Serves an application."""

    def __init__(self, app: BaseApplication) -> None:
        self.app, self.cfg = app, app.cfg

    def run(self) -> NoReturn:
        """Serve it until the process ends."""
        BaseApplication.run(self.app)
