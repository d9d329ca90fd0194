"""sys.argv as an app finds it: --argv.

Owns:     AppArguments, the extension.
Thread:   the main thread, in each process that imports the app.
Spec:     uWSGI 2.0.31, plugins/python: its name, and the words of `pyargv`. gunicorn leaves its command line there.
Not here: the words of each server (uwsgi.py, gunicorn.py).

aserve has read its own arguments before; a reload and an upgrade in place read what the kernel keeps of them (core/command_line.py).
"""

from __future__ import annotations

from ...extension import Extension, Life, LifeContext
from .settings import MovingSettings


class AppArguments(Extension[MovingSettings]):
    """--argv."""

    switches = ("argv",)

    def on_life(self, event: Life, context: LifeContext) -> None:
        """Set the words before the app is imported."""
        if event is Life.IMPORTS and context.argv is not None:
            context.argv[:] = self._config.argv
