"""One setting: the row, the settings needed, parsing and showing values.

Owns:     Setting, Needs, Typed, ConfigError; `row`, for the row of an attribute.
Thread:   any; pure.
Not here: the rows (table.py, and those of each feature), parsing text (kinds.py), the order of sources (sources.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

from ..core.named_tuple import NamedTuple
from ..core.patterns import lazy_pattern
from .kinds import Kind
from .paths import Base

# The order in --help and docs/settings.md; groups of features alone follow.
GROUPS = (
    "Serving", "Files and mounts", "Processes", "Development", "TLS", "Certificates", "Proxies", "Limits", "Time limits", "Health checks", "Metrics",
    "Process", "Logs",
)  # fmt: skip


PREFIX = "ASERVE_"  # of environment variables


def variable_of(key: str) -> str:
    """Return the environment variable of a TOML key."""
    return PREFIX + key.upper().replace("-", "_")


class ConfigError(ValueError):
    """A setting is wrong; `str()` is one line: where, the value, and the accepted values."""


class Needs(NamedTuple):
    """The settings without which another one has no effect."""

    any_of: tuple[str, ...]  # names of settings; or the scheme of a bind
    why: str = ""  # the error's text, if any source is refused; "": only a flag is, see Config.from_sources


class Typed(list[str]):
    """The texts of a list, typed with flags of another setting."""

    flags: str  # for messages

    @classmethod
    def with_flags(cls, texts: Sequence[str], flags: str) -> Typed:
        """Return a list of these texts."""
        typed = cls(texts)
        typed.flags = flags
        return typed


class Setting(NamedTuple):
    """One row of the table."""

    name: str
    default: Any
    group: str
    flag: str
    kind: Kind
    help: str
    why: str
    secret: Callable[[str], str] | None = None  # shows one text of a value without secrets
    needs: Needs | None = None
    fixed: bool = False  # applied once, before the first worker, and not again while the supervisor runs
    path: Callable[[str, Base], str] | None = None  # makes the paths in one text of a value absolute

    lacks: Callable[[str], bool] | None = (
        None  # whether the next argument belongs to this flag's value, too; None: it never does
    )

    @property
    def key(self) -> str:
        """Return the TOML key."""
        return self.flag[2:]

    def typed_as(self, value: object) -> str:
        """Return the flag, or the flags, of a value on the command line; see Typed."""
        return value.flags if isinstance(value, Typed) else self.flag

    @property
    def variable(self) -> str:
        """Return the environment variable."""
        return variable_of(self.key)

    @property
    def is_list(self) -> bool:
        """Whether the setting takes several values: the flag may be repeated."""
        return isinstance(self.default, tuple)

    def asks(self, value: Any) -> bool:
        """Whether a value asks for an effect: neither the default, nor off; or the word on."""
        return value == "on" or (value != self.default and value not in (0, None, (), "", "off", "none"))

    def without_secrets(self, value: Any) -> Any:
        if self.secret is None or value is None:
            return value
        return tuple(map(self.secret, value)) if self.is_list else self.secret(value)

    def with_whole_paths(self, value: Any, base: Base) -> Any:
        """Return a value with absolute paths."""
        if self.path is None or value is None:
            return value
        return tuple(self.path(text, base) for text in value) if self.is_list else self.path(value, base)

    def show(self, value: Any) -> str:
        """Return a value as text without secrets."""
        return _USER.sub("...@", self.kind.show(self.without_secrets(value)))

    def parse(self, value: object, where: str) -> Any:
        """
        Parse a value.

        Raises:
            ConfigError: the value is not accepted; `where`: the source, for the message.
        """
        try:
            return self.kind.parse(value)
        except ValueError as fault:
            raise ConfigError(f"{where}: {fault}; accepted: {self.kind.accepts}") from None


_USER = lazy_pattern(r"(?<=://)[^/@\s]*@")  # user and password of a URL: users may write them in wrong places


def row(
    default: object,
    group: str,
    flag: str,
    kind: Kind,
    help: str,
    why: str,
    *,
    secret: Callable[[str], str] | None = None,
    needs: Needs | None = None,
    fixed: bool = False,
    path: Callable[[str, Base], str] | None = None,
    lacks: Callable[[str], bool] | None = None,
) -> Any:
    """Return the row of an attribute, in a class of settings; for the columns see Setting."""
    return Setting("", default, group, flag, kind, help, why, secret, needs, fixed, path, lacks)
