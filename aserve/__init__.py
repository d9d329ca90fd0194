"""A WSGI server native to asyncio. Public names only."""

from . import rpc
from .connections.detaching import Detached
from .connections.statistics import Statistics
from .core.errors import AserveError, BindError, ClientDisconnected, RequestTimeout, WorkersStuck
from .features import Config
from .lifecycle.hooks import post_fork
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
