"""Socket.IO's modes for greenlets, in an app that was another server's: here they are its mode for threads.

Owns:     SocketModes, the extension; ModeFinder, which finds the modules of these modes.
Thread:   the main thread, in each process that imports the app.
Spec:     python-engineio 4: engineio/async_drivers/, whose `_async` has the classes of a mode; base_server.py takes the mode that is named, or the
          first that can be imported.
Not here: WebSockets (websockets/), uWSGI's own functions for them (../uwsgi_api/websocket.py).

Where gevent is installed, Flask-SocketIO chooses it, and uWSGI's `gevent` and gunicorn's gevent workers run it. aserve runs the app in threads, in which
greenlets that wait for each other wait for ever.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import logging
import sys
from types import ModuleType
from typing import Any

from ...extension import Extension, Life, LifeContext
from .settings import MovingSettings

logger = logging.getLogger("aserve")

DRIVERS = "engineio.async_drivers."
# By mode, what it needs: without that Socket.IO takes the next.
MODES = {"eventlet": ["eventlet"], "gevent_uwsgi": ["gevent", "uwsgi"], "gevent": ["gevent"]}


class SocketModes(Extension[MovingSettings]):
    """Puts a finder before Python's own, for apps that were another server's."""

    switches = ("environ_as",)

    def on_life(self, event: Life, context: LifeContext) -> None:
        """Do so before the app is imported."""
        if event is Life.IMPORTS and not any(isinstance(one, ModeFinder) for one in sys.meta_path):
            sys.meta_path.insert(0, ModeFinder())


class ModeFinder:
    """Finds the module of a mode, with the classes of the mode for threads."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """Return what `import` needs; None: Python's own finders are to look for it."""
        needed = MODES.get(name[len(DRIVERS) :]) if name.startswith(DRIVERS) else None
        if needed is None or not all(one in sys.modules or importlib.util.find_spec(one) for one in needed):
            return None
        return importlib.machinery.ModuleSpec(name, self)  # type: ignore[arg-type]  # of a Loader it has what is called

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Let Python make the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the classes into it."""
        vars(module)["_async"] = importlib.import_module(f"{DRIVERS}threading")._async
        logger.info(
            "Socket.IO's mode %s runs in threads here, as its mode threading; see `aserve docs websockets`",
            module.__name__[len(DRIVERS) :],
        )
