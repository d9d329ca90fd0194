"""Settings: the engine's rows, parsing values, and binds; the rows of a feature are in features/."""

from .bind import PROXIED, Bind, TLSSettings, parse_bind, with_reach
from .kinds import SWITCH, show_bytes, split_sni
from .platform import platform_settings, service_variables, unbound_sockets
from .setting import ConfigError, Needs, Setting, Typed, row
from .sources import COMMAND_NAMES, Settings, without_secrets
from .table import MAX_WORKERS, RELOAD_IMPLIES, REPLACED, TERMINAL_IMPLIES, VERSION, EngineSettings, whole_address
from .toml import read_toml

__all__ = [
    "COMMAND_NAMES", "MAX_WORKERS", "PROXIED", "RELOAD_IMPLIES", "REPLACED", "SWITCH", "TERMINAL_IMPLIES", "VERSION",
    "Bind", "ConfigError", "EngineSettings", "Needs", "Setting", "Settings", "TLSSettings", "Typed", "parse_bind",
    "platform_settings", "read_toml", "row", "service_variables", "show_bytes", "split_sni", "unbound_sockets",
    "whole_address", "with_reach", "without_secrets",
]  # fmt: skip
