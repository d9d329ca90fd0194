"""In the place of `gunicorn.glogging`: the base of a `logger_class` (docs/moving-from-gunicorn.md)."""

from ..moving.gunicorn_logger import DEFAULT_CONFIG as CONFIG_DEFAULTS
from ..moving.gunicorn_logger import Logger, SafeAtoms, parse_syslog_address

__all__ = ["CONFIG_DEFAULTS", "Logger", "SafeAtoms", "parse_syslog_address"]
