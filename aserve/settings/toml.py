"""The settings file.

Thread:   any.
Not here: checking the keys, and the order of sources (sources.py).
"""

from __future__ import annotations

import os
import re
import sys

from ..core.json_text import TOO_DEEP
from .setting import ConfigError

# Hints for files of other forms given to --config or --log-config.
OTHER_FORMS = {
    ".py": "; give a configuration of gunicorn to --gunicorn-conf",
    ".ini": "; give a file of uWSGI to --uwsgi-ini; the form of logging.config.fileConfig is not read",
    ".conf": "; the form of logging.config.fileConfig is not read",
}


def read_toml(path: str) -> dict[str, object]:
    """
    Return the settings in a TOML file; of a pyproject.toml, the table [tool.aserve].

    Raises:
        ConfigError: the file cannot be read or is not TOML.
    """
    # 2 ms on CPython 3.11, for users of such a file.
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        with open(path, encoding="utf-8-sig") as file:  # some editors begin a file with a mark of the encoding
            text = file.read()
        settings = tomllib.loads(text)
    except OSError as fault:
        raise ConfigError(f"cannot read the settings file {path}: {fault.strerror}") from None
    except UnicodeDecodeError as fault:
        raise ConfigError(f"{path} is not valid TOML: {fault}") from None
    except RecursionError:
        raise ConfigError(f"{path} is not valid TOML: {TOO_DEEP}") from None
    except ValueError as fault:
        meant = OTHER_FORMS.get(os.path.splitext(path)[1]) or _unquoted(text, str(fault))
        raise ConfigError(f"{path} is not valid TOML: {fault}{meant}") from None
    if os.path.basename(path) == "pyproject.toml":
        for key in ("tool", "aserve"):
            settings = settings.get(key, {})
            if not isinstance(settings, dict):
                raise ConfigError(f"{key!r} in {path} is not a table; accepted: [tool.aserve]")
    return settings


def _unquoted(text: str, fault: str) -> str:
    """Return a hint, if the line of the fault has a text without quotes."""
    number = re.search(r"\(at line (\d+)", fault)
    line = text.splitlines()[int(number[1]) - 1] if number else ""
    bare = re.fullmatch(r"""\s*([\w-]+)\s*=\s*([^\s"'\[{#][^"'#]*?)\s*(#.*)?""", line)
    if not bare:
        return ""
    value = bare[2].lower() if bare[2] in ("True", "False") else f'"{bare[2]}"'
    return f"; write {bare[1]} = {value}"
