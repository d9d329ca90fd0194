"""The command `aserve config`: values of settings, their meaning, and their sources.

Owns:     explain.
Thread:   the main thread; pure, but for looking names up.
Not here: the table (settings/), reading the TOML file and another server's settings (plans.py), and flags (flags.py).
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..core.near_names import near_names
from ..features import SETTINGS, Config
from ..settings import RELOAD_IMPLIES, TERMINAL_IMPLIES, ConfigError, Setting, platform_settings
from ..settings.sources import Own
from .plans import merged

if TYPE_CHECKING:
    from ..compat.moving.origin import Origin

EXPLAIN = "--explain"
WIDTH = 100
INDENT = " " * 11


def split_name(argv: Sequence[str]) -> tuple[str | None, list[str]]:
    """
    Return the name after --explain, None if there is no such flag, and all other arguments.

    Raises:
        ConfigError: nothing follows that flag.
    """
    rest = list(argv)
    for place, word in enumerate(rest):
        if word.startswith(EXPLAIN + "="):
            del rest[place]
            return word.partition("=")[2], rest
        if word == EXPLAIN:
            if not rest[place + 1 :]:
                raise ConfigError("aserve config --explain: which setting? For example: --explain threads")
            name = rest[place + 1]
            del rest[place : place + 2]
            return name, rest
    return None, rest


def explain(
    name: str | None,
    given: Mapping[str, object],
    environ: Mapping[str, str],
    toml: Mapping[str, object],
    toml_name: str,
    is_at_terminal: bool = False,
    origin: Origin | None = None,
) -> str:
    """
    Return a text about one setting; without a name, about all that differ from their defaults. `origin`: another server's settings.

    Raises:
        ConfigError: there is no such setting; or a source has a wrong one.
    """
    setting = _find(name) if name is not None else None
    given = {key: value for key, value in given.items() if key not in ("app", "config")}
    config = Config.of_given(merged(origin, given, environ, toml, toml_name), is_at_terminal)
    config.refuse_idle(given)

    implied: dict[str, object] = {**RELOAD_IMPLIES, **TERMINAL_IMPLIES} if config.reload else {}

    own = Own(given, environ, toml, toml_name)

    def source_of(setting: Setting) -> str:
        named = origin.source_of(setting, own) if origin is not None else own.source_of(setting)
        for source, where in (
            (named, named),
            (setting.name in platform_settings(environ), "the platform"),
            (implied.get(setting.name) == getattr(config, setting.name) != setting.default, "--reload"),
        ):
            if source:
                return f"from {where}"
        return "the default"

    if setting is not None:
        return _describe(setting, setting.without_secrets(getattr(config, setting.name)), source_of(setting))
    rows = [(row.key, row.show(getattr(config, row.name)), source_of(row)) for row in SETTINGS]
    changed = [row for row in rows if row[2] != "the default"]
    if not changed:
        return "All settings are as by default; aserve config --explain NAME tells of one, aserve --help of all.\n"
    widths = [max(len(row[column]) for row in changed) for column in range(2)]
    return "".join(f"{key:{widths[0]}}  {value:{widths[1]}}  {where}\n" for key, value, where in changed)


def _find(name: str) -> Setting:
    """Return the setting of this name, in any of its spellings."""
    for setting in SETTINGS:
        if name in (setting.name, setting.key, setting.flag, setting.variable):
            return setting
    near = near_names(name.lstrip("-"), [setting.key for setting in SETTINGS], 1)
    hint = f"did you mean {near[0]}?" if near else "aserve --help has all of them"
    raise ConfigError(f"aserve config --explain: no setting is called {name}; {hint}")


def _describe(setting: Setting, value: Any, source: str) -> str:
    flag = f"{setting.flag} {setting.kind.metavar}".rstrip()
    shown = setting.show(value)
    lines = [
        f"{flag} ({setting.group})",
        "",
        *textwrap.wrap(f"{setting.help[0].upper()}{setting.help[1:]}.", WIDTH),
        "",
    ]
    for title, text in (
        ("now", f"{shown}, {source}"),
        ("default", f"{setting.show(setting.default)}. {setting.why}"),
        ("accepts", setting.kind.accepts),
        ("variable", setting.variable),
        ("TOML", f"{setting.key} = {_in_toml(value, shown)}"),
        ("keyword", setting.name),
    ):
        lines += textwrap.wrap(text, WIDTH, initial_indent=f"{title + ':':{len(INDENT)}}", subsequent_indent=INDENT)
    return "\n".join(lines) + "\n"


def _in_toml(value: Any, shown: str) -> str:
    if isinstance(value, (bool, int)):
        return json.dumps(value) if isinstance(value, bool) or str(value) == shown else json.dumps(shown)
    if isinstance(value, tuple):
        return json.dumps([str(item) for item in value], ensure_ascii=False)
    return json.dumps(shown if value is not None else "...", ensure_ascii=False)
