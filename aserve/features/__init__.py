"""Every option that the engine does not know: one module or folder each, found by its name.

Owns:     FEATURES, in the order in which a request meets them; `extensions_of`.
Thread:   any.
Not here: what a feature can be (extension.py), the settings of each (settings/table.py).
"""

from __future__ import annotations

from ..extension import Extension, Extensions
from ..settings import Config
from ..titles import ProcessTitles
from .files import Compress, Static, XSendfileFolders
from .queue_wait import QueueWait
from .routes import Routing
from .tracing import Tracing
from .turnover import ConnectionLimits
from .underscore_fields import UnderscoreFields

# From the client towards the app: in this order steps run, and each wraps those behind it.
FEATURES: tuple[type[Extension], ...] = (
    QueueWait,
    UnderscoreFields,
    ConnectionLimits,
    Routing,
    Tracing,
    Static,
    Compress,
    XSendfileFolders,
    ProcessTitles,
)


def extensions_of(config: Config) -> Extensions:
    """
    Return the extensions that the settings turn on.

    Raises:
        ConfigError: a setting of one is wrong.
    """
    return Extensions(feature(config) for feature in FEATURES if feature.is_on(config))
