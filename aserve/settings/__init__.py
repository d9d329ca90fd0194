"""Every setting: what there is, how it is written, and where servers listen."""

from .bind import PROXIED, Bind, TLSSettings, parse_bind, with_reach
from .kinds import SWITCH, show_bytes, split_sni
from .platform import platform_settings
from .table import (
    COMMAND_NAMES,
    MAX_WORKERS,
    RELOAD_IMPLIES,
    SETTINGS,
    TERMINAL_IMPLIES,
    VERSION,
    Config,
    ConfigError,
    Setting,
    without_secrets,
)
from .toml import read_toml

__all__ = [
    "COMMAND_NAMES",
    "MAX_WORKERS",
    "PROXIED",
    "RELOAD_IMPLIES",
    "SETTINGS",
    "SWITCH",
    "TERMINAL_IMPLIES",
    "VERSION",
    "Bind",
    "Config",
    "ConfigError",
    "Setting",
    "TLSSettings",
    "parse_bind",
    "platform_settings",
    "read_toml",
    "show_bytes",
    "split_sni",
    "with_reach",
    "without_secrets",
]
