"""What all listeners of one server have in common.

Owns:     Commons: the fields of every response, the certificates, the proxies that are believed, the budgets of large bodies, what reads the
          ends of requests; it makes the services of listeners.
Thread:   event loop only.
Not here: what belongs to one listener (services.py), the listeners and their connections (listening.py).
"""

from __future__ import annotations

import asyncio
from typing import Callable

from ..connections.server_budgets import Budgets
from ..connections.service import Service, ServiceContext
from ..connections.websockets import WebSockets
from ..core.ends import Ends
from ..extension import Extensions
from ..proxies.peers import Peers
from ..proxies.trust import peers_of
from ..settings import EngineSettings
from ..tls.certificates import Certificates, load_certificates
from ..wsgi import WSGIApp
from ..wsgi.response import CommonFields
from .app_threads import AppThreads
from .listening import Listening
from .services import Shared, new_service


class Commons:
    """What the listeners of one server have in common, found anew at each start."""

    def __init__(self, config: EngineSettings, extensions: Extensions) -> None:
        self._config, self._extensions = config, extensions
        self.fields = CommonFields(config.server_name, config.proxy_status, extensions.fields)
        self.certificates = Certificates(())
        self.budgets = Budgets(config)
        self.ends: Ends | None = None  # from start on; None, too: nothing reads them
        self._peers: Peers | None = None

    def load(self) -> None:
        """
        Find what is outside of this process.

        Raises:
            BindError: an account in --trusted-proxies does not exist.
            ConfigError: a certificate, or what belongs to it, cannot be used.
        """
        self.ends = None  # those of an earlier start are over
        self._peers = peers_of(self._config)
        self.budgets = Budgets(self._config)  # of what is free now
        self.certificates = load_certificates(self._config)
        self.certificates.log_warnings()
        self.fields.refresh()

    def new_services(
        self, app: WSGIApp, listening: Listening, threads: AppThreads, *, times_requests: bool, is_alone: bool
    ) -> list[Service]:
        """Return what the connections of each listener share; the extensions have started. `times_requests`: something else reads times."""
        config, loop, extensions = self._config, asyncio.get_running_loop(), self._extensions
        self.ends = extensions.new_ends(threads.executor)
        websockets = WebSockets(config, loop, threads.deadlines, extensions.upgraded)
        context = ServiceContext(
            config, loop, threads.executor, self.fields, listening.connections, self.budgets, websockets, self.ends, self._peers,
            listening.in_flight, times_requests or extensions.wants_times, extensions.sees_responses, threads.deadlines,
        )  # fmt: skip
        shared = Shared(context, threads.timed(app), self.certificates, not is_alone, extensions.wants_ids, extensions)
        return [new_service(listener, shared) for listener in listening.listeners]

    def thread_seconds(self, under_way: Callable[[], float]) -> float | None:
        """Return for how long threads have been with requests, those `under_way` included; None: that is not counted."""
        if self.ends is None or self.ends.thread_seconds is None:
            return None
        return under_way() + self.ends.thread_seconds  # in this order: none that ends now is missing

    def on_second(self) -> None:
        """Called once a second: the Date field, the certificates and the budgets."""
        self.fields.refresh()
        self.certificates.on_second()
        self.budgets.on_second()

    def flush(self) -> None:
        """Let the ends of requests be read that wait for it."""
        if self.ends is not None:
            self.ends.flush()
