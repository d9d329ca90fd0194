"""One setting: its row, what it needs, how a value of it is read and shown.

Owns:     Setting, Needs, ConfigError; `row`, by which a dataclass of settings has one.
Thread:   any; pure.
Not here: the rows (table.py, and those of each feature), how a value is read from text (kinds.py), which source wins (sources.py).
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Callable, NamedTuple

from .kinds import Kind
from .paths import Base

# As --help and docs/settings.md have them; a group of a feature alone follows them.
GROUPS = (
    "Serving", "Files and mounts", "Processes", "Development", "TLS", "Proxies", "Limits", "Time limits", "Health checks", "Metrics",
    "Process", "Logs",
)  # fmt: skip


class ConfigError(ValueError):
    """A setting is wrong; `str()` is one line that says whose, what, and what is accepted."""


class Needs(NamedTuple):
    """What a setting has no effect without."""

    any_of: tuple[str, ...]  # names of settings; or what stands before the address of a bind
    why: str = ""  # what the error says, if it is refused from whichever source; otherwise only a flag is: see Config.from_sources


class Setting(NamedTuple):
    """One row of the table."""

    name: str
    default: Any
    group: str
    flag: str
    kind: Kind
    help: str
    why: str
    secret: Callable[[str], str] | None = None  # what may be shown of one text of a value that may hold a secret
    needs: Needs | None = None
    fixed: bool = (
        False  # what is done with it once, before the first worker, is not done again while the supervisor runs
    )
    path: Callable[[str, Base], str] | None = (
        None  # what makes one text of a value name the same file from every folder
    )

    lacks: Callable[[str], bool] | None = (
        None  # whether the next argument belongs to this flag's value, too; None: it never does
    )

    @property
    def key(self) -> str:
        """The TOML key."""
        return self.flag[2:]

    @property
    def variable(self) -> str:
        """The environment variable."""
        return "ASERVE_" + self.key.upper().replace("-", "_")

    @property
    def is_list(self) -> bool:
        """Whether it has several values: its flag may be repeated."""
        return isinstance(self.default, tuple)

    def asks(self, value: Any) -> bool:
        """Whether a value asks for anything: neither what is so by default, nor that something is off."""
        return value != self.default and value not in (0, None, (), "", "off", "none")

    def without_secrets(self, value: Any) -> Any:
        """Return a value of this setting without its secrets."""
        if self.secret is None or value is None:
            return value
        return tuple(map(self.secret, value)) if self.is_list else self.secret(value)

    def with_whole_paths(self, value: Any, base: Base) -> Any:
        """Return a value of this setting that names the same files from every folder."""
        if self.path is None or value is None:
            return value
        return tuple(self.path(text, base) for text in value) if self.is_list else self.path(value, base)

    def show(self, value: Any) -> str:
        """Return a value of this setting as text that anybody may read."""
        return _USER.sub("...@", self.kind.show(self.without_secrets(value)))

    def parse(self, value: object, where: str) -> Any:
        """
        Return a value of this setting.

        Raises:
            ConfigError: it is not accepted; `where` says where it stands.
        """
        try:
            return self.kind.parse(value)
        except ValueError as fault:
            raise ConfigError(f"{where}: {fault}; accepted: {self.kind.accepts}") from None


_USER = re.compile(r"(?<=://)[^/@\s]*@")  # user and password of a URL: a setting that takes none may be given one


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
    """Return the field of a dataclass of settings; its columns are those of Setting."""
    columns: dict[str, Any] = {"group": group, "flag": flag, "kind": kind, "help": help, "why": why}
    columns.update(secret=secret, needs=needs, fixed=fixed, path=path, lacks=lacks)
    # Reports of errors have the reprs of local variables.
    return dataclasses.field(default=default, metadata=columns, repr=secret is None)
