"""What a file of uWSGI imports beside the app: `import = tasks`.

Owns:     UwsgiImports, the extension.
Thread:   the main thread.
Spec:     uWSGI 2.0.31, plugins/python: before the app, and what cannot be imported is logged.
Not here: the app (lifecycle/loading.py), what only a spooler imports (spooler-import).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ...extension import Extension, Life, LifeContext
from ...lifecycle.load_error import LoadError
from ...lifecycle.loading import load_module
from ...settings import EngineSettings
from .draft import Given

logger = logging.getLogger("aserve")


class UwsgiImports(Extension[EngineSettings]):
    """Imports modules in each process that imports the app, and before it: they may register timers, signals and jobs."""

    def __init__(self, modules: Sequence[Given]) -> None:
        self._modules = modules

    def on_life(self, event: Life, context: LifeContext) -> None:
        """See Extension."""
        for given in self._modules if event is Life.IMPORTS else ():
            try:
                load_module(given.value)
            except LoadError as fault:
                logger.error("%s: %s: %s\n%s", given.where, given.key, fault, fault.app_traceback.rstrip())
