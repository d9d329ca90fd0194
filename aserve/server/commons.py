"""The objects that all listeners of one server share.

Owns:     Commons: the fields of every response, the certificates, the trusted proxies, the budgets of large bodies, the readers of
          requests' ends; it makes the services of listeners.
Thread:   event loop only.
Not here: the objects of one listener (services.py), the listeners and their connections (listening.py).
"""

from __future__ import annotations

import asyncio
from typing import Callable

from ..connections.loop.websockets import WebSockets
from ..connections.server_budgets import Budgets
from ..connections.service import Service, ServiceContext
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
from .services import ListenerParts, new_service


class Commons:
    """The shared objects of one server's listeners, made anew at each start."""

    def __init__(self, config: EngineSettings, extensions: Extensions) -> None:
        self._config, self._extensions = config, extensions
        names = config.server_name, config.proxy_status
        self.fields = CommonFields(*names, extensions.fields(is_tls=False))
        self.tls_fields = CommonFields(*names, extensions.fields(is_tls=True))
        self.certificates = Certificates(())
        self.budgets = Budgets(config)
        self.ends: Ends | None = None  # from start on, if an extension reads them
        self._peers: Peers | None = None

    def load(self) -> None:
        """
        Read certificates, accounts, and free space.

        Raises:
            BindError: an account in --trusted-proxies does not exist.
            ConfigError: a certificate, or its key or authorities, cannot be used.
        """
        self.ends = None  # drop those of an earlier start
        self._peers = peers_of(self._config)
        self.budgets = Budgets(self._config)  # from the present free space
        self.budgets.look()
        self._extensions.add_protocols()
        self.certificates = load_certificates(self._config, self._extensions.carriers)
        self.certificates.log_warnings()
        self._refresh()

    def new_services(self, app: WSGIApp, listening: Listening, threads: AppThreads, *, is_alone: bool) -> list[Service]:
        """Return the service of each listener, after the start of extensions."""
        config, loop, extensions = self._config, asyncio.get_running_loop(), self._extensions
        self.ends = extensions.new_ends(threads.executor)
        upgraded = self.ends.write_upgraded if self.ends is not None else None
        websockets = WebSockets(config, loop, threads.deadlines, upgraded)
        context = ServiceContext(
            config, loop, threads.executor, self.fields, listening.connections, self.budgets, websockets, self.ends, self._peers,
            listening.new_in_flight(), extensions.wants_times, extensions.sees_responses, threads.deadlines,
            extensions.contexts,
        )  # fmt: skip
        shared = ListenerParts(
            context, threads.timed(app), self.certificates, not is_alone, extensions, self.tls_fields
        )
        return [new_service(listener, shared) for listener in listening.listeners]

    def thread_seconds(self, under_way: Callable[[], float]) -> float | None:
        """Return how long threads have worked on requests, in seconds, including those `under_way`; None: not counted."""
        if self.ends is None or self.ends.thread_seconds is None:
            return None
        return under_way() + self.ends.thread_seconds  # in this order: a request may end meanwhile

    def on_second(self) -> None:
        """Refresh the Date field, the certificates and the budgets; called once a second."""
        self._refresh()
        self.certificates.on_second()
        self.budgets.on_second()

    def _refresh(self) -> None:
        self.fields.refresh()
        self.tls_fields.refresh()

    def flush(self) -> None:
        """Pass the queued ends of requests to their readers."""
        if self.ends is not None:
            self.ends.flush()
