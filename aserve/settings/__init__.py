"""Every setting: what there is, how it is written, and where servers listen."""

from .bind import PROXIED, Bind, TLSSettings, parse_bind
from .kinds import show_bytes, split_sni
from .table import COMMAND_NAMES, SETTINGS, VERSION, Config, ConfigError
from .toml import read_toml

__all__ = [
    "COMMAND_NAMES",
    "PROXIED",
    "SETTINGS",
    "VERSION",
    "Bind",
    "Config",
    "ConfigError",
    "TLSSettings",
    "parse_bind",
    "read_toml",
    "show_bytes",
    "split_sni",
]
