"""Variables of the environment in a settings file: "0.0.0.0:${env:PORT}", or "${env:PORT:-8000}" with a default.

Owns:     expand; escape.
Thread:   any; pure.
Not here: reading the file (toml.py); ASERVE_ variables, each for one setting (sources.py).

The form comes from the OpenTelemetry Collector's files, and so does the text "${env:PORT}" itself: "$${env:PORT}". Other text stays unchanged: "$"
alone has a meaning in patterns and commands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..core.patterns import lazy_pattern
from .setting import ConfigError

# Two dollars of the match are one of the text.
_VARIABLE = lazy_pattern(r"(\$+)\{env:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def variable(name: str, default: str | None = None) -> str:
    """Return the text of a variable."""
    return f"${{env:{name}}}" if default is None else f"${{env:{name}:-{default}}}"


def escape(text: str) -> str:
    """Return a text for `expand` to turn into this one."""
    return _VARIABLE.sub(lambda match: match[1] + match[0], text)


def expand(settings: Mapping[str, object], environ: Mapping[str, str], where: str) -> dict[str, object]:
    """
    Return the settings with the values of variables in the texts; `where`: the file, for messages.

    Raises:
        ConfigError: a variable is not set, and the text has no default.
    """

    def value_of(key: str, match: re.Match[str]) -> str:
        dollars, name = match[1], match[2]
        before = dollars[: len(dollars) // 2]
        if len(dollars) % 2 == 0:
            return before + match[0][len(dollars) :]
        value = environ.get(name, match[3])
        if value is None:
            raise ConfigError(
                f"{key} in {where}: the variable {name} is not set; {variable(name, 'VALUE')} has a default"
            )
        return before + value

    def expanded(key: str, value: object) -> object:
        if isinstance(value, str):
            return _VARIABLE.sub(lambda match: value_of(key, match), value)
        if isinstance(value, list):
            return [expanded(key, item) for item in value]
        if isinstance(value, Mapping):
            return {name: expanded(key, item) for name, item in value.items()}
        return value

    return {key: expanded(key, value) for key, value in settings.items()}
