"""
A WSGI server native to asyncio. Public names only.

    aserve.run(app, "127.0.0.1:8000")                                   a script: serves until a signal
    async with aserve.Server(app, "127.0.0.1:8000") as server: ...      a coroutine: serves until the block ends
    server = await group.start(aserve.serve, app, "127.0.0.1:8000")     a task group of anyio's: serves until cancelled

`aserve docs embedding` explains them, `aserve docs settings` has the settings, which all three take by name. `aserve --help` explains the command.
"""

from . import rpc
from .connections.drain.detaching import Detached
from .connections.monitoring.statistics import Statistics
from .core.errors import AserveError, BindError, ClientDisconnected, RequestTimeout, WorkersStuck
from .features import Config
from .lifecycle.hooks import post_fork
from .lifecycle.load_error import LoadError
from .lifecycle.loading import PatchedError
from .server.running import run, serve
from .server.server import Server
from .settings import VERSION as __version__
from .settings import ConfigError

__all__ = [
    "AserveError",
    "BindError",
    "ClientDisconnected",
    "Config",
    "ConfigError",
    "Detached",
    "LoadError",
    "PatchedError",
    "RequestTimeout",
    "Server",
    "Statistics",
    "WorkersStuck",
    "__version__",
    "post_fork",
    "rpc",
    "run",
    "serve",
]
