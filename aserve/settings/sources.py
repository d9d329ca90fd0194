"""All settings of a class: needs between settings, the sources of values, and their order.

Owns:     Own, the sources; Settings, the base of every class of settings. Command-line flags, ASERVE_* variables, TOML keys, `--help` and docs/settings.md are made
          from the rows.
Thread:   any; Settings never change.
Not here: the rows (table.py, and those of each feature), one row (setting.py), an object of values (values.py), argv itself (the command).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from ..core.near_names import near_names
from .platform import platform_settings, service_variables
from .secrecy import show_app
from .setting import PREFIX, ConfigError, Needs, Setting, variable_of
from .values import NEAR, Values

COMMAND_NAMES = ("app", "config")  # read by the command; no settings of a server

# difflib's ratio for a variable: ASERVE_CONF is nearly ASERVE_CONFIG, and ASERVE_ARGS is not ASERVE_ARGV.
NEAR_KEY = 0.8

# Taken out of the environment by the command before the settings are read. Where one is left, this code must not serve in the place of a trial.
OF_UPGRADES = ("ASERVE_TRIAL", "ASERVE_INHERITANCE")

NOTHING: Mapping[str, Any] = MappingProxyType({})

S = TypeVar("S", bound="Settings")


class Own:
    """aserve's own sources: flags, the environment, a TOML file."""

    def __init__(
        self, given: Mapping[str, object], environ: Mapping[str, str], toml: Mapping[str, object], toml_name: str
    ) -> None:
        self.given, self.environ, self.toml, self.toml_name = given, environ, toml, toml_name

    def source_of(self, setting: Setting) -> str:
        """Return the name of the source whose value counts; "": none has one."""
        if setting.name in self.given:
            return setting.typed_as(self.given[setting.name])
        if setting.variable in self.environ:
            return setting.variable
        return self.toml_name if setting.key in self.toml else ""


class Settings(Values):
    """
    Values of settings, one for each row, and immutable.

    A class with rows may have a method `check`, with ConfigError for values that contradict one another, or values of other classes; none calls
    another's.

    Raises:
        ConfigError: a value is not accepted, or two contradict each other.
    """

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        for one in reversed(type(self).__mro__):
            if "check" in vars(one):
                one.check(self)  # type: ignore[attr-defined]

    def check(self) -> None:
        """Refuse settings without their needed ones, if `Needs.why` is given, from any source."""
        for row in self.rows():
            if row.needs and row.needs.why and row.asks(getattr(self, row.name)) and not self.has(row.needs):
                raise ConfigError(f"{row.flag} {row.needs.why}")

    def has(self, needs: Needs) -> bool:
        """Whether one of the needed settings is given."""
        return any(bool(getattr(self, name)) for name in needs.any_of)

    @classmethod
    def implied(cls, values: Mapping[str, Any], is_at_terminal: bool) -> Mapping[str, Any]:
        """Return values implied by other settings, in place of defaults."""
        return {}

    def refuse_idle(self, names: Iterable[str]) -> None:
        """
        Refuse settings of `names` without an effect.

        Raises:
            ConfigError: a setting needs another one, not given.
        """
        flags = {setting.name: setting.flag for setting in self.rows()}
        for setting in self.rows():
            needs = setting.needs
            if needs and setting.name in names and setting.asks(getattr(self, setting.name)) and not self.has(needs):
                wanted = [flags.get(name, f"a --bind with {name}") for name in needs.any_of]
                raise ConfigError(
                    f"{setting.flag} has no effect without {' or '.join(wanted)}; give that, or leave it out"
                )

    @classmethod
    def from_sources(
        cls: type[S],
        argv: Mapping[str, object] = NOTHING,
        environ: Mapping[str, str] = NOTHING,
        toml: Mapping[str, object] = NOTHING,
        toml_name: str = "the TOML file",
        is_at_terminal: bool = False,
    ) -> S:
        """
        Return the settings of all sources, see `merged`; `is_at_terminal`: standard output is a terminal.

            aserve.Config.from_sources(environ=os.environ, toml={"bind": "127.0.0.1:0", "max-body": "64M"})

        A flag without an effect is refused, since the user expects one. A variable or a file may be for several servers, some of them with the
        effect, and another server's file contains that server's defaults.

        Raises:
            ConfigError: an unknown name or a wrong value in any source; or two contradict each other.
        """
        config = cls.of_given(cls.merged(argv, environ, toml, toml_name), is_at_terminal)
        config.refuse_idle(argv.keys())
        return config

    @classmethod
    def of_given(cls: type[S], values: Mapping[str, Any], is_at_terminal: bool) -> S:
        """Return settings with these values, and with implied ones. Raises ConfigError."""
        return cls(**{**cls.implied(values, is_at_terminal), **values})

    @classmethod
    def unknown_variables(cls, environ: Mapping[str, str]) -> list[str]:
        """Return the names of variables in the form of a setting's, but of no setting."""
        known = {*(row.variable for row in cls.rows()), *map(variable_of, COMMAND_NAMES), *service_variables(environ)}
        return [name for name in environ if name.startswith(PREFIX) and name not in known]

    @classmethod
    def merged(
        cls,
        argv: Mapping[str, object],
        environ: Mapping[str, str],
        toml: Mapping[str, object],
        toml_name: str = "the TOML file",
    ) -> dict[str, Any]:
        """
        Merge the sources: argv over environment over TOML over the platform; return the given values.

        `argv` is keyed by setting name, `toml` by TOML key; `environ` is the whole environment. An overridden value is checked, too, unless from
        the platform.

        Raises:
            ConfigError: an unknown name or a wrong value in any source.
        """
        rows = cls.rows()
        _refuse_unknown(toml, [*(setting.key for setting in rows), *COMMAND_NAMES], toml_name)
        for name in cls.unknown_variables(environ):
            _refuse_near_miss(name, environ[name], rows)
        values: dict[str, Any] = {}
        platform = platform_settings(environ)
        for setting in rows:
            for source, name, where in (
                (toml, setting.key, f"{setting.key} in {toml_name}"),
                (environ, setting.variable, setting.variable),
                (argv, setting.name, setting.typed_as(argv.get(setting.name))),
            ):
                if name in source:
                    values[setting.name] = setting.parse(source[name], where)
            if setting.name in platform and setting.name not in values:
                said = platform[setting.name]
                values[setting.name] = setting.parse(said.value, said.variable)
        return values


def _refuse_near_miss(name: str, value: str, rows: Iterable[Setting]) -> None:
    """Refuse a variable with nearly the name of a setting, and a value for this setting; further variables are a wrapper's, such as ASERVE_HOME."""
    if name in OF_UPGRADES:
        raise ConfigError(f"{name} is for aserve itself, when it is upgraded; unset it")
    known = {row.key: row.kind.parse for row in rows} | dict.fromkeys(COMMAND_NAMES, str)
    for near in near_names(name[len(PREFIX) :].lower().replace("_", "-"), known, 1, NEAR_KEY):
        try:
            known[near](value)
        except ValueError:
            continue
        raise ConfigError(f"unknown variable {name} in the environment; did you mean {variable_of(near)}?")


def without_secrets(words: Sequence[str], rows: Iterable[Setting]) -> list[str]:
    """Return the words of an aserve command line without the secrets in values of these rows."""
    by_flag, shown, flag = {setting.flag: setting.secret for setting in rows if setting.secret}, [], ""
    for word in words:
        name, equals, value = word.partition("=")
        if flag in by_flag:
            shown.append(by_flag[flag](word))
        elif name in by_flag and equals:
            shown.append(f"{name}={by_flag[name](value)}")
        else:
            shown.append(show_app(word))
        flag = "" if flag in by_flag else word
    return shown


def _refuse_unknown(given: Mapping[str, object], known: list[str], where: str) -> None:
    for name, value in given.items():
        if name not in known and isinstance(value, Mapping):
            hint = "below [tool.aserve]" if os.path.basename(where) == "pyproject.toml" else "at the top of the file"
            raise ConfigError(f"{where} has a table [{name}], and settings have none; write their keys directly {hint}")
        if name not in known:
            near = near_names(name, known, 1, NEAR)
            hint = f"did you mean {near[0]}?" if near else "see aserve --help"
            raise ConfigError(f"unknown setting {name} in {where}; {hint}")
