"""Fields whose names have an underscore, from proxies that are believed: --underscore-fields.

Owns:     UnderscoreFields, the extension; UnderscoreStep, its step.
Thread:   a worker (with --threads 0: the event loop).
Spec:     RFC 3875 section 4.1.18: in the environ `X_A` and `X-A` have the same name.
Not here: finding them in a head (protocols/underscores.py), who is believed (proxies/trust.py).

`X_A` and `X-A` are two fields to a proxy, and one to the app. A proxy that sets the first takes a client's away, and may pass on a client's `X-A`:
so that is removed from every request, whoever sends it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any, Callable

from ..core.exchange import Exchange
from ..core.log_once import LogOnce
from ..extension import Extension, ListenerContext
from ..proxies.forwarded import cgi_name
from ..settings import Config
from ..wsgi.gateway import Before

logger = logging.getLogger("aserve")


class UnderscoreStep(Before):
    """Takes away the twins with hyphens, then adds what a believed peer has sent."""

    __slots__ = ("_beginning", "_is_believed", "_line", "_twins", "_where")

    def __init__(self, names: Sequence[str], is_believed: Callable[[Any], bool], where: str) -> None:
        self._is_believed = is_believed  # asked of a connection
        self._twins = frozenset(map(cgi_name, names))
        # Mostly one family, such as OIDC_CLAIM_: a request without it costs one search.
        self._beginning = "\0" + os.path.commonprefix([*self._twins])  # noqa: RUF071 (character by character is meant)
        self._where = where  # for the log
        self._line = LogOnce(logger, logging.INFO)

    def before(self, exchange: Exchange) -> None:
        """Have the exchange's listed fields be those of a believed peer."""
        vars = exchange.vars
        if self._beginning in vars and not self._twins.isdisjoint(
            vars.split("\0")
        ):  # or a value that looks like a name
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


class UnderscoreFields(Extension):
    """--underscore-fields."""

    @staticmethod
    def is_on(config: Config) -> bool:
        """See Extension."""
        return bool(config.underscore_fields)

    def before(self, context: ListenerContext) -> Before | None:
        """See Extension; uwsgi and SCGI have names of CGI."""
        return (
            UnderscoreStep(self._config.underscore_fields, context.believes, context.listener.url)
            if context.is_http
            else None
        )
