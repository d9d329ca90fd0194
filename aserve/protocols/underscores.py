"""Fields with an underscore in their names: dropped, and the first one logged. Fields of --underscore-fields are kept aside.

Owns:     Underscores, and ListedUnderscores: one of them for each listener.
Thread:   event loop, or the lane's leader.
Spec:     RFC 3875 section 4.1.18: in the environ `X_A` and `X-A` have the same name; RFC 9110 section 5.3.
Not here: dropping fields (cparsers/vars.c, httptools1.py), the peers of the listed ones (features/underscore_fields.py).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from ..core.exchange import Exchange
from ..core.log_once import LogOnce
from ..core.patterns import lazy_pattern
from ..proxies.forwarded import cgi_name

logger = logging.getLogger("aserve")

_FIELD = lazy_pattern(rb"\r\n([^\r:]*_[^\r:]*):[ \t]*([^\r]*)")
_MAX_SHOWN = 100


class Underscores:
    """Logs the first dropped field of a listener."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.line = LogOnce(logger, logging.INFO)

    def look_at(self, head: bytes, exchange: Exchange) -> None:
        """Log a field dropped from the head of this exchange, unless one was logged before."""
        if not self.line.is_said:
            found = _FIELD.search(head)
            if found is not None:
                self.tell(found[1])

    def look_at_fields(self, fields: Iterable[tuple[bytes, bytes]], exchange: Exchange) -> None:
        """Do as `look_at`, given the names and values of the dropped fields."""
        for name, _ in fields:
            self.tell(name)

    def tell(self, field: bytes) -> None:
        """Log a dropped field by its name, unless one was logged before."""
        name = field.decode("latin-1")[:_MAX_SHOWN]
        self.line.log(
            "%s: dropped the field %s, as every field with an underscore in its name: the app could not tell it from %s. If a proxy of "
            "yours sets it, write its name with hyphens, or see --underscore-fields (said once)",
            self._where,
            name,
            name.replace("_", "-"),
        )


class ListedUnderscores(Underscores):
    """For a listener where proxies may send some: stores them in `Exchange.underscored`."""

    def __init__(self, where: str, names: Sequence[str]) -> None:
        super().__init__(where)
        self._names = {name.upper().encode(): cgi_name(name) for name in names}

    def look_at(self, head: bytes, exchange: Exchange) -> None:
        """Store listed fields; log another, unless one was logged before."""
        self.look_at_fields(_FIELD.findall(head), exchange)

    def look_at_fields(self, fields: Iterable[tuple[bytes, bytes]], exchange: Exchange) -> None:
        """Do as `look_at`, given the names and values of the dropped fields."""
        sent: dict[str, str] = {}
        for name, octets in fields:
            cgi = self._names.get(name.upper())
            if cgi is None:
                self.tell(name)
                continue
            value = octets.rstrip(b" \t").decode("latin-1")
            sent[cgi] = f"{sent[cgi]}, {value}" if cgi in sent else value
        if sent:
            exchange.underscored = sent
