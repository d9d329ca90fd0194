"""`import uwsgi` beyond RPC: locks, a cache, signals, timers and cron (--uwsgi-module, --uwsgi-cache).

Owns:     UwsgiModule, the extension.
Thread:   the main thread, before the app is imported, or in a fork of a mold.
Not here: the module itself (module.py), sharing between hosts (sharing/); both take memory that other processes do without.
"""

from __future__ import annotations

import logging
import os

from ...extension import Extension, Life, LifeContext
from ...settings import ConfigError, Needs
from ..sharing.settings import shared_of
from .settings import UwsgiSettings

logger = logging.getLogger("aserve")

# Settings that show, with --uwsgi-module auto, that the app was written for uWSGI.
MEANT = Needs(("uwsgi_cache", "spooler", "shared", "route", "uwsgi://"))
ALONE = "the cache, locks, timers, cron and jobs of `import uwsgi` are for this host only; to share them between hosts give --shared"


class UwsgiModule(Extension[UwsgiSettings]):
    """Lets `import uwsgi` succeed, with values of this process and of the settings."""

    @staticmethod
    def is_on(config: UwsgiSettings) -> bool:
        """See Extension."""
        return config.uwsgi_module == "on" or (config.uwsgi_module == "auto" and config.has(MEANT))

    def on_life(self, event: Life, context: LifeContext) -> None:
        """See Extension."""
        if event is Life.STARTS:
            from . import module  # noqa: F401 (--user may not be able to read it)

            config = context.plan.config
            if config.shared is None and (config.uwsgi_cache or config.spooler or config.uwsgi_module == "on"):
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
            memory.share(self._config.uwsgi_cache, context.kept.get(memory.NAME), shared)
        except OSError as fault:
            raise ConfigError(f"uwsgi-cache: there is no memory for it: {fault.strerror or fault}") from None

    def _install(self, context: LifeContext, has_app: bool) -> None:
        from . import module

        plan, role = context.plan, context.role
        process = module.Process(
            options=plan.origin.options if plan.origin is not None else {}, caches=self._config.uwsgi_cache,
            spoolers=plan.config.spooler, shared=shared_of(plan.config, plan.spec),
        )  # fmt: skip
        if context.is_spooler:
            process = process._replace(worker_id=0, masterpid=os.getppid(), numproc=plan.workers[0], is_spooler=True)
        if role is not None:
            process = process._replace(
                worker_id=role.slot if role.is_worker else 0, masterpid=role.supervisor_pid, numproc=plan.workers[0],
                is_preloaded=has_app or role.is_mold, page=role.page if role.is_worker else None, slots=role.slots,
            )  # fmt: skip
        if role is None or role.is_trial:
            self._share(context)
        module.install(process)
