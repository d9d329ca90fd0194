"""Options outside the engine: one module or folder each, named after the option.

Owns:     FEATURES, in the order of a request's way; `extensions_of`, `supervised_of`, `on_life`, `commands`, `processes`; Config, all settings of the engine and
          the features.
Thread:   any.
Not here: the extension point (extension.py), the engine's settings (settings/table.py).
"""

from __future__ import annotations

import importlib
from typing import Any

from ..compat.moving import Translating
from ..compat.moving.arguments import AppArguments
from ..compat.moving.environ import MovedEnviron
from ..compat.moving.master_fifo import MasterFifo
from ..compat.moving.settings import MovingSettings
from ..compat.moving.socket_modes import SocketModes
from ..compat.routes import RouteSettings, Routing
from ..compat.uwsgi_api import UwsgiModule
from ..compat.uwsgi_api.mules import UwsgiMules
from ..compat.uwsgi_api.mules.settings import MuleSettings
from ..compat.uwsgi_api.settings import UwsgiSettings
from ..compat.uwsgi_api.spooler import Spooling
from ..compat.uwsgi_api.spooler.settings import SpoolerSettings
from ..extension import Extension, Extensions, Life, LifeContext, Run, RunBeside, overrides
from ..settings import EngineSettings
from .access_log import AccessLogging
from .access_log.settings import AccessLogSettings
from .added_fields import AddedFields, AddedFieldSettings
from .control import Controlling
from .control.settings import ControlSettings
from .fault_page import FaultPages, FaultPageSettings
from .files import Compress, Static, XSendfileFolders
from .files.settings import FileSettings
from .http2 import HTTP2
from .http2.settings import HTTP2Settings
from .https import HTTPS
from .https.redirect import HTTPSOnly
from .https.settings import HTTPSSettings
from .maintenance import Maintenance, MaintenanceSettings
from .metrics import AgentCheck, Metrics
from .metrics.settings import MetricsSettings
from .mounts import Mounting, MountSettings
from .process_titles import ProcessTitles, ProcessTitleSettings
from .programs import Programs
from .programs.settings import ProgramSettings
from .queue_wait import QueueWaitHeader, QueueWaitSettings
from .scaling import Scaling, ScalingSettings
from .sharing.settings import SharingSettings
from .slow_requests import Slow
from .slow_requests.settings import SlowRequestSettings
from .tracing import Tracing, TracingSettings
from .turnover import ConnectionLimits, TurnoverSettings
from .underscore_fields import UnderscoreFields, UnderscoreSettings
from .wire_log import WireLog

# From the client towards the app: steps run in this order, and each app layer wraps the next.
FEATURES: tuple[type[Extension[Any]], ...] = (
    QueueWaitHeader,
    UnderscoreFields,
    ConnectionLimits,
    HTTPS,
    HTTPSOnly,  # behind the answers to an authority's questions, and before the site's own
    MovedEnviron,
    Routing,
    Tracing,
    Maintenance,
    Static,
    Compress,
    XSendfileFolders,
    FaultPages,
    AccessLogging,
    Metrics,
    AgentCheck,
    WireLog,
    Slow,
    ProcessTitles,
    AddedFields,
    AppArguments,
    SocketModes,
    UwsgiModule,
    UwsgiMules,
    Spooling,
    Programs,
    Controlling,
    MasterFifo,
    Scaling,
    HTTP2,
    Mounting,  # the loader of mounted apps is nearest to the app
    Translating,
)


class Config(
    QueueWaitSettings,
    UnderscoreSettings,
    TurnoverSettings,
    RouteSettings,
    TracingSettings,
    MaintenanceSettings,
    FileSettings,
    AccessLogSettings,
    SlowRequestSettings,
    MetricsSettings,
    FaultPageSettings,
    MountSettings,
    SpoolerSettings,
    MuleSettings,
    UwsgiSettings,
    HTTPSSettings,
    SharingSettings,
    ProgramSettings,
    ControlSettings,
    ScalingSettings,
    ProcessTitleSettings,
    AddedFieldSettings,
    HTTP2Settings,
    MovingSettings,
):
    """
    All settings of one server; immutable.

    `aserve docs settings` explains them, and so does `aserve config --explain NAME`.

    Raises:
        ConfigError: a value is not accepted, or two contradict each other.
    """


SETTINGS = Config.rows()


def commands() -> dict[str, Run]:
    """Return the subcommands of all features, by name."""
    found = [one.commands() for one in FEATURES if overrides(one, "commands")]
    return {name: run for each in found for name, run in each.items()}


def processes() -> dict[str, RunBeside]:
    """Return the processes of all features beside the workers, by their variables."""
    found = [one.processes() for one in FEATURES if overrides(one, "processes")]
    return {name: run for each in found for name, run in each.items()}


Features = tuple[type[Extension[Any]], ...]

# The latest Config; the extensions turned on by this Config, and those with `on_life`. Most events have the same Config as before; and a worker
# with questions to all features anew would touch 0.4 MB of the memory shared with a mold (2026-11-29).
_latest: tuple[EngineSettings | None, Features, Features] = None, (), ()


def _look_at(config: EngineSettings) -> tuple[Features, Features]:
    global _latest
    latest = _latest
    if latest[0] is not config:
        on = tuple(one for one in FEATURES if one.is_on(config))
        _latest = latest = config, on, tuple(one for one in on if overrides(one, "on_life"))
    return latest[1:]


def on_life(event: Life, context: LifeContext) -> None:
    """
    Call `on_life` of the plan's extensions, and of the plan's gunicorn or uWSGI settings.

    Raises:
        ConfigError, LoadError: see Extension.on_life.
    """
    config, origin = context.plan.config, context.plan.origin
    on, with_life = _look_at(config)
    if event in (Life.STARTS, Life.RELOADS):
        for name in [f"{one.__module__}.{name}" for one in on for name in one.modules]:
            importlib.import_module(name)
    found = [one(config) for one in with_life]
    for one in [*found, *(origin.extensions if origin is not None else ())]:
        one.on_life(event, context)


def extensions_of(config: EngineSettings) -> Extensions:
    """
    Return the extensions turned on by a Config.

    Raises:
        ConfigError: a setting of an extension is wrong.
    """
    return Extensions(feature(config) for feature in _look_at(config)[0])


def supervised_of(config: EngineSettings) -> Extensions:
    """Return the extensions with a part in a supervisor of these settings."""
    return Extensions(feature(config) for feature in FEATURES if feature.is_supervised(config))
