"""Immutable values by name, one for each row of a class: a frozen dataclass to users.

Owns:     Values: construction by keyword, equality, hash and repr; the fields, for `dataclasses.replace`, `fields` and `asdict`.
Thread:   any; pure.
Not here: one row (setting.py), what several values mean together, and the sources of values (sources.py).

No code is generated: `@dataclass` on each of the classes took 13 % of the command's start (2026-11-26).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ..core.near_names import near_names
from .setting import GROUPS, Setting

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**options):
        """Return the class unchanged: only type checkers read the options."""
        return lambda one: one


# Keywords of uvicorn, waitress, gunicorn and cheroot, and ours in their place.
ELSEWHERE = {
    "host": "bind", "port": "bind", "listen": "bind", "address": "bind", "unix_socket": "bind", "uds": "bind",
    "unix_socket_perms": "unix_mode", "connection_limit": "max_connections", "limit_concurrency": "max_connections",
    "ssl_certfile": "certificate", "certfile": "certificate", "ssl_keyfile": "key", "keyfile": "key", "ssl_ca_certs": "client_ca",
    "timeout": "request_seconds", "graceful_timeout": "drain_seconds", "timeout_graceful_shutdown": "drain_seconds",
    "timeout_keep_alive": "keep_alive_seconds", "channel_timeout": "keep_alive_seconds", "ident": "server_name",
}  # fmt: skip
NEAR = 0.75  # difflib's ratio; at difflib's own 0.6 every ASERVE_ name is near every other

V = TypeVar("V", bound="Values")


class _Fields:
    """The fields of a class for the module `dataclasses`, made at each question: aserve never asks."""

    def __get__(self, instance: Values | None, owner: type[Values]) -> dict[str, Any]:
        from dataclasses import field, make_dataclass

        fields = [
            (row.name, "object", field(default=row.default, repr=row.secret is None, metadata=row._asdict()))
            for row in owner.rows()
        ]
        made = make_dataclass(owner.__name__, fields, init=False, repr=False, eq=False)
        return vars(made)["__dataclass_fields__"]  # type: ignore[no-any-return]


@dataclass_transform(frozen_default=True)
class Values:
    """Values of rows; a class adds the rows of the body to the rows of the bases. The class attributes are the defaults."""

    _own: ClassVar[tuple[Setting, ...]] = ()
    _rows: ClassVar[tuple[Setting, ...]]
    __dataclass_fields__: ClassVar[_Fields] = _Fields()

    def __init_subclass__(cls) -> None:
        cls._own = tuple(Setting._make((name, *row[1:])) for name, row in vars(cls).items() if isinstance(row, Setting))
        for row in cls._own:
            setattr(cls, row.name, row.default)

    @classmethod
    def rows(cls) -> tuple[Setting, ...]:
        """Return the rows, sorted by group."""
        if "_rows" not in vars(cls):
            places = {group: place for place, group in enumerate(GROUPS)}
            rows = [row for one in reversed(cls.__mro__) for row in vars(one).get("_own", ())]
            cls._rows = tuple(sorted(rows, key=lambda row: places.get(row.group, len(places))))
        return cls._rows

    def __init__(self, **values: Any) -> None:
        own = vars(self)
        for row in self.rows():
            # A default needs no parsing (tests/settings/test_setting.py).
            own[row.name] = row.parse(values.pop(row.name), row.name) if row.name in values else getattr(self, row.name)
        for name in values:
            raise TypeError(f"there is no setting {name!r}; {self._hint(name)}")

    def _hint(self, name: str) -> str:
        """Return the likely meaning of an unknown name: a flag's, as in `drain_timeout`; or a name with a typing error."""
        rows = self.rows()
        known = {
            **{row.key.replace("-", "_"): row.name for row in rows},
            **{row.name: row.name for row in rows},
            **ELSEWHERE,
        }
        near = near_names(name.replace("-", "_"), known, 1, NEAR)
        return f"did you mean {known[near[0]]}?" if near else "`aserve docs settings` has all keywords"

    def replace(self: V, **values: Any) -> V:
        """Return a copy with other values, checked as any; `dataclasses.replace` does the same, and loads that module."""
        return type(self)(**{**vars(self), **values})

    __replace__ = replace  # copy.replace

    def __setattr__(self, name: str, value: object) -> None:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        # Error reports contain the reprs of local variables.
        shown = [f"{row.name}={getattr(self, row.name)!r}" for row in self.rows() if row.secret is None]
        return f"{type(self).__qualname__}({', '.join(shown)})"
