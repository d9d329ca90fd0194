"""The settings file.

Thread:   any.
Not here: checking its keys, and the order of sources (sources.py).
"""

from __future__ import annotations

import os
import sys

from ..core.json_text import TOO_DEEP
from .setting import ConfigError

# Hints for files of other forms that are given to --config or --log-config.
OTHER_FORMS = {
    ".py": "; give a configuration of gunicorn to --gunicorn-conf",
    ".ini": "; give a file of uWSGI to --uwsgi-ini; the form of logging.config.fileConfig is not read",
    ".conf": "; the form of logging.config.fileConfig is not read",
}


def read_toml(path: str) -> dict[str, object]:
    """
    Return the settings in a TOML file; of a pyproject.toml, those in [tool.aserve].

    Raises:
        ConfigError: the file cannot be read or is not TOML.
    """
    # 2 ms on CPython 3.11, for those that have such a file.
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        with open(path, "rb") as file:
            settings = tomllib.load(file)
    except OSError as fault:
        raise ConfigError(f"cannot read the settings file {path}: {fault.strerror}") from None
    except RecursionError:
        raise ConfigError(f"{path} is not valid TOML: {TOO_DEEP}") from None
    except ValueError as fault:  # not TOML, or not UTF-8
        meant = OTHER_FORMS.get(os.path.splitext(path)[1], "")
        raise ConfigError(f"{path} is not valid TOML: {fault}{meant}") from None
    if os.path.basename(path) == "pyproject.toml":
        for key in ("tool", "aserve"):
            settings = settings.get(key, {})
            if not isinstance(settings, dict):
                raise ConfigError(f"{key!r} in {path} is not a table; accepted: [tool.aserve]")
    return settings
