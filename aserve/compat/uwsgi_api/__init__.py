"""`import uwsgi` beyond RPC: locks, a cache, signals, timers and cron (--uwsgi-module, --uwsgi-cache).

Owns:     UwsgiModule, the extension.
Thread:   see Extension. `on_life`: the main thread, before the app is imported, or in a fork of a mold.
Not here: the module itself (module.py), sharing between hosts (sharing/); both take memory that other processes do without.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from ...core.ends import Reader
from ...extension import Extension, Life, LifeContext, ListenerContext, ServerContext
from ...features.sharing.settings import shared_of
from ...lifecycle.supervision import Supervision, SupervisorContext
from ...settings import ConfigError, Needs
from ...wsgi import WSGIApp
from ...wsgi.gateway import Before
from .mules.settings import MuleSettings
from .process import Process

if TYPE_CHECKING:
    from .tallies import RequestTally

logger = logging.getLogger("aserve")

LOGGED = "logvar."  # begins names of the access log's format (access_log/log_line.py)

# Settings that show, with --uwsgi-module auto, that the app was written for uWSGI.
MEANT = Needs((
    "uwsgi_cache", "uwsgi_queue", "uwsgi_sharedarea", "uwsgi_metric", "uwsgi_mule", "spooler", "shared", "route",
    "uwsgi://",
))  # fmt: skip
ALONE = "the cache, locks, timers, cron and jobs of `import uwsgi` are for this host only; to share them between hosts give --shared"


class UwsgiModule(Extension[MuleSettings]):
    """Lets `import uwsgi` succeed, with values of this process and of the settings."""

    switches = ("access_log_format",)  # for which `before` has a step; `is_on` decides
    modules = ("module", "supervising")

    @staticmethod
    def is_on(config: MuleSettings) -> bool:
        """See Extension."""
        return config.uwsgi_module == "on" or (config.uwsgi_module == "auto" and config.has(MEANT))

    _tally: RequestTally | None = None  # from `start` on, if the app has imported the module

    def start(self, context: ServerContext) -> None:
        """Count requests for uwsgi.workers(), if the app has imported the module; otherwise no request costs anything."""
        from . import module

        self._tally = module.begin_tally() if module.is_imported() else None
        self.wants = ("times",) if self._tally is not None else ()

    def wrap_app(self, app: WSGIApp) -> WSGIApp:
        """See Extension."""
        from . import module

        return module.wrap_app(app)

    def before(self, context: ListenerContext) -> Before | None:
        """Let the access log have variables of the app's, if its format names some; otherwise no request costs anything."""
        if f"%({LOGGED}" not in getattr(self._config, "access_log_format", ""):
            return None
        from .request import LoggedVariables

        return LoggedVariables()

    def reader(self) -> Reader | None:
        """See Extension."""
        return Reader(self._tally) if self._tally is not None else None

    def supervise(self, context: SupervisorContext) -> Supervision:
        """See Extension."""
        from .supervising import Counts

        return Counts()

    def on_life(self, event: Life, context: LifeContext) -> None:
        """See Extension."""
        if event is Life.STARTS:
            config = context.plan.config
            if config.shared is not None and config.spooler:
                from .spooler import queues  # noqa: F401 (with redis; early, as `modules`)
            elif config.shared is None and (config.uwsgi_cache or config.spooler):
                logger.info(ALONE)
        elif event is Life.WORKERS_BEGIN:
            self._share(context)
        elif event in (Life.IMPORTS, Life.FORKED):
            self._install(context, has_app=event is Life.FORKED)

    def _share(self, context: LifeContext) -> None:
        """Make the memory that workers share, or take over the previous process's; call it before the first worker starts."""
        from . import memory

        shared = shared_of(context.plan.config, context.plan.spec)
        try:
            memory.share(self._config.uwsgi_cache, context.kept.get(memory.NAME), shared, self._config.extras)
        except OSError as fault:
            raise ConfigError(f"--uwsgi-cache: there is no memory for it: {fault.strerror or fault}") from None

    def _install(self, context: LifeContext, has_app: bool) -> None:
        from . import module

        plan, role = context.plan, context.role
        process = Process(
            options=plan.origin.options if plan.origin is not None else {}, caches=self._config.uwsgi_cache,
            spoolers=plan.config.spooler, shared=shared_of(plan.config, plan.spec), threads=plan.config.threads or 1,
            mules=len(plan.config.uwsgi_mule),
            extras=self._config.extras, numproc=max(plan.workers[0], plan.config.max_workers),
        )  # fmt: skip
        if context.is_spooler:
            mule_id = self._mule_id()
            process = process._replace(worker_id=0, masterpid=os.getppid(), is_spooler=not mule_id, mule_id=mule_id)
        if role is not None:
            process = process._replace(
                worker_id=role.slot if role.is_worker else 0, masterpid=role.supervisor_pid,
                is_preloaded=has_app or role.is_mold, page=role.page if role.is_worker else None, pages=role.pages,
                page_number=role.page_number,
            )  # fmt: skip
        if role is None or role.is_trial:
            self._share(context)
        module.install(process)

    def _mule_id(self) -> int:
        """Return the number of this mule; 0: the process does jobs."""
        if not self._config.uwsgi_mule:
            return 0
        from .mules import post

        return post.own_number()
