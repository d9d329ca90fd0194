"""Every option that the engine does not know: one module or folder each, found by its name.

Owns:     FEATURES, in the order in which a request meets them; `extensions_of`, `on_life`; Config, the settings of the engine and of all features.
Thread:   any.
Not here: what a feature can be (extension.py), the engine's settings (settings/table.py).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ..extension import Extension, Extensions, Life, LifeContext, overrides
from ..settings import EngineSettings
from .access_log import AccessLogging
from .access_log.settings import AccessLogSettings
from .added_fields import AddedFields, AddedFieldSettings
from .fault_page import FaultPages, FaultPageSettings
from .files import Compress, Static, XSendfileFolders
from .files.settings import FileSettings
from .maintenance import Maintenance, MaintenanceSettings
from .metrics import AgentCheck, Metrics
from .mounts import Mounting, MountSettings
from .process_titles import ProcessTitles, ProcessTitleSettings
from .queue_wait import QueueWait, QueueWaitSettings
from .routes import RouteSettings, Routing
from .sharing.settings import SharingSettings
from .slow_requests import Slow
from .tracing import Tracing, TracingSettings
from .turnover import ConnectionLimits, TurnoverSettings
from .underscore_fields import UnderscoreFields, UnderscoreSettings
from .uwsgi_api import UwsgiModule
from .uwsgi_api.settings import UwsgiSettings
from .wire_log import WireLog

# From the client towards the app: in this order steps run, and each wraps those behind it.
FEATURES: tuple[type[Extension[Any]], ...] = (
    QueueWait,
    UnderscoreFields,
    ConnectionLimits,
    Routing,
    Tracing,
    Maintenance,
    Static,
    Compress,
    XSendfileFolders,
    FaultPages,
    Mounting,
    AccessLogging,
    Metrics,
    AgentCheck,
    WireLog,
    Slow,
    ProcessTitles,
    AddedFields,
    UwsgiModule,
)


@dataclasses.dataclass(frozen=True)
class Config(
    QueueWaitSettings,
    UnderscoreSettings,
    TurnoverSettings,
    RouteSettings,
    TracingSettings,
    MaintenanceSettings,
    FileSettings,
    AccessLogSettings,
    FaultPageSettings,
    MountSettings,
    UwsgiSettings,
    SharingSettings,
    ProcessTitleSettings,
    AddedFieldSettings,
):
    """
    The settings of one server, those of the engine and of every feature; immutable.

    Raises:
        ConfigError: a value is not accepted, or two contradict each other.
    """


SETTINGS = Config.rows()


def on_life(event: Life, context: LifeContext) -> None:
    """
    Tell the extensions of a plan, and those of the settings of another server that it is from, what happens to this process.

    Raises:
        ConfigError, LoadError: see Extension.on_life.
    """
    config, origin = context.plan.config, context.plan.origin
    found = [one(config) for one in FEATURES if overrides(one, "on_life") and one.is_on(config)]
    for one in [*found, *(origin.extensions if origin is not None else ())]:
        one.on_life(event, context)


def extensions_of(config: EngineSettings) -> Extensions:
    """
    Return the extensions that the settings, a Config, turn on.

    Raises:
        ConfigError: a setting of one is wrong.
    """
    return Extensions(feature(config) for feature in FEATURES if feature.is_on(config))
