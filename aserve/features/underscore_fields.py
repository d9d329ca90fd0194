"""Fields with an underscore in the name, from believed proxies: --underscore-fields.

Owns:     UnderscoreFields, the extension; UnderscoreStep, a step.
Thread:   a worker (with --threads 0: the event loop).
Spec:     RFC 3875 section 4.1.18: in the environ `X_A` and `X-A` have the same name.
Not here: finding fields in a head (protocols/underscores.py), trusting proxies (proxies/trust.py).

`X_A` and `X-A` are two fields to a proxy, and one to the app. A proxy with an `X_A` removes the client's, but may pass on the client's `X-A`: so
aserve removes `X-A` from every request, also from a proxy's.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Any, Callable

from ..core.exchange import Exchange
from ..core.log_once import LogOnce
from ..core.patterns import lazy_pattern
from ..extension import Extension, ListenerContext
from ..proxies.forwarded import cgi_name
from ..settings import EngineSettings, Needs, row
from ..settings.kinds import CLIENT_FIELDS, OWN_FIELDS, Kind, parse_list, show_texts
from ..wsgi.gateway import Before

logger = logging.getLogger("aserve")


class UnderscoreStep(Before):
    """Removes the names with hyphens, then adds the fields with underscores of a believed peer."""

    __slots__ = ("_beginning", "_is_believed", "_line", "_twins", "_where")

    def __init__(self, names: Sequence[str], is_believed: Callable[[Any], bool], where: str) -> None:
        self._is_believed = is_believed  # takes a connection
        self._twins = frozenset(map(cgi_name, names))
        # Mostly one prefix, such as OIDC_CLAIM_: a request without the prefix costs one search.
        self._beginning = "\0" + _common_beginning(self._twins)
        self._where = where  # the listener's URL, for the log
        self._line = LogOnce(logger, logging.INFO)

    def before(self, exchange: Exchange) -> None:
        """Set the listed fields of the exchange to the values of a believed peer."""
        vars = exchange.vars
        if self._beginning in vars and not self._twins.isdisjoint(
            vars.split("\0")
        ):  # (or a value that looks like a name)
            exchange.vars = self._without_twins(vars)
        sent = exchange.underscored
        if sent:
            if self._is_believed(exchange.connection):
                exchange.vars = "\0".join([exchange.vars, *[part for pair in sent.items() for part in pair]])
            else:
                self._log_removal(exchange, sent)

    def _without_twins(self, vars: str) -> str:
        parts = iter(vars.split("\0"))
        kept = [pair for pair in zip(parts, parts) if pair[0] not in self._twins]
        return "\0".join([part for pair in kept for part in pair])

    def _log_removal(self, exchange: Exchange, sent: dict[str, str]) -> None:
        self._line.log(
            "%s: %s, of --underscore-fields, came from %s, which is not in --trusted-proxies, and was removed (said once)",
            self._where,
            ", ".join(name[len("HTTP_") :] for name in sent)[:200],
            exchange.connection.remote_addr or "a unix socket",
        )


# RFC 9110 section 5.6.2, a token.
_WITH_UNDERSCORE = lazy_pattern(r"(?=.*_)[!#$%&'*+.^_`|~0-9a-z-]+")


def _parse_underscore_fields(value: object) -> tuple[str, ...]:
    fields = tuple(text.lower() for text in parse_list(value))
    for field in fields:
        if not _WITH_UNDERSCORE.fullmatch(field):
            raise ValueError(f"{field!r} is not the name of a field with an underscore")
        hyphened = field.replace("_", "-")
        if hyphened in CLIENT_FIELDS or hyphened.startswith("x-forwarded-"):
            raise ValueError(
                f"{field!r} would tell of the client; have your proxies send {hyphened}, for forwarded-fields"
            )
        if hyphened in (*OWN_FIELDS, "content-type", "expect", "host", "proxy"):
            raise ValueError(f"{field!r} would pass for {hyphened}, which has a meaning of its own")
    return fields


UNDERSCORE_FIELDS = Kind(
    "FIELD", "the names of fields that have an underscore, such as OIDC_CLAIM_sub", _parse_underscore_fields, show_texts
)


class UnderscoreSettings(EngineSettings):
    """The settings of this feature."""

    # fmt: off
    underscore_fields: Sequence[str] = row(
        (), "Proxies", "--underscore-fields", UNDERSCORE_FIELDS,
        "fields set by your proxies, with an underscore in the name, such as OIDC_CLAIM_sub; twins with hyphens, "
        "OIDC-CLAIM-sub, reach no app then; repeatable, or separated by commas; see `aserve docs proxies`",
        "In the environ OIDC_CLAIM_sub and OIDC-CLAIM-sub have the same name, and a client could send the twin: without this, "
        "no field with an underscore reaches the app. Name only fields that your proxies overwrite.",
        needs=Needs(("trusted_proxies",)),
    )
    # fmt: on


def _common_beginning(texts: Collection[str]) -> str:
    """Return the longest common beginning."""
    first, last = min(texts), max(texts)
    return next((first[:at] for at, (one, other) in enumerate(zip(first, last)) if one != other), first)


class UnderscoreFields(Extension[UnderscoreSettings]):
    """--underscore-fields."""

    switches = ("underscore_fields",)

    def __init__(self, config: UnderscoreSettings) -> None:
        """See Extension."""
        super().__init__(config)
        self.keeps = config.underscore_fields

    def before(self, context: ListenerContext) -> Before | None:
        """See Extension; uwsgi and SCGI have names of CGI."""
        return (
            UnderscoreStep(self._config.underscore_fields, context.believes, context.listener.url)
            if context.is_http
            else None
        )
