"""Certificates by ACME (--https): aserve gets them, renews them, and answers the authority's challenges.

Owns:     HTTPS, the extension.
Thread:   see Extension.
Spec:     RFC 8555 (ACME), RFC 8737 (TLS-ALPN-01).
Not here: serving the certificates, files as any other (tls/certificates.py; the choice: tls_values in settings.py). Before a server reads files,
          provide.py puts placeholders where there are none. The thread of renewal.py orders; the order is done by a child process (child.py starts
          the child; program.py is the first module there).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable

from ...extension import AddedProtocol, Extension, Life, LifeContext, ListenerContext, ServerContext
from ...lifecycle.supervision import Supervision, SupervisorContext
from ...wsgi.gateway import Before
from .answers import ALPN_NAME, HTTPAnswers, new_context
from .folder import Folder
from .settings import HTTPSSettings, folder_of

if TYPE_CHECKING:
    from .hosts import SharingHosts


class HTTPS(Extension[HTTPSSettings]):
    """--https."""

    switches = ("https",)
    modules = ("renewal", "status")

    def __init__(self, config: HTTPSSettings) -> None:
        """See Extension."""
        super().__init__(config)
        self._folder = Folder(folder_of(config))

    @functools.cached_property
    def _hosts(self) -> SharingHosts | None:
        if self._config.shared is None:
            return None
        from .hosts import SharingHosts  # imports redis

        return SharingHosts(self._config.shared, self._config.shared_prefix)

    def on_life(self, event: Life, context: LifeContext) -> None:
        """Make the files while this process is still root, if ever; import early, as `modules`, the needs of hosts with a common store."""
        if event is Life.READ:
            self._provide(context.is_check)
        if event is Life.STARTS and self._config.shared is not None:
            from . import hosts  # noqa: F401

    def _provide(self, is_check: bool = False) -> None:
        from .provide import provide

        provide(self._config, is_check)

    def before(self, context: ListenerContext) -> Before | None:
        """See Extension; an authority asks at port 80, without TLS."""
        if context.listener.bind.protocol != "http":
            return None
        others = self._hosts.answer if self._hosts is not None else lambda token: None
        return HTTPAnswers(self._folder, context.common_fields, others)

    def protocols(self) -> Sequence[AddedProtocol]:
        """See Extension; an authority asks at port 443, by a handshake and nothing else."""
        self._provide()
        context = functools.partial(new_context, self._folder, self._config.https)
        return [AddedProtocol(ALPN_NAME, new_context=context)]

    def start(self, context: ServerContext) -> None:
        """Look for due orders from now on; remove leftovers of a killed process."""
        from .renewal import Renewal

        self._folder.drop_unfinished()
        self._renewal = Renewal(self._config, self._hosts)
        self._renewal.start(tells=context.slot in (None, 1))
        context.at_stop(self._renewal.stop)

    def answers(self) -> Mapping[str, Callable[[], Any]]:
        """Return the certificates; see describe."""
        from .status import FACT, describe

        return {FACT: functools.partial(describe, self._folder, self._config.https)}

    def supervise(self, context: SupervisorContext) -> Supervision:
        """See Extension."""
        from .status import StatusPart

        return StatusPart(self._config)
