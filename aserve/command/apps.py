"""Importing the app, in each process that has it: one that serves by itself, a worker, a mold, one that does jobs.

Owns:     load, load_worker; enter, for a worker that is forked from a mold.
Thread:   the main thread.
Not here: finding and importing what a name means (lifecycle/loading.py), what extensions do then (features/).
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from ..core.start_folder import FolderGoneError, StartFolder
from ..extension import Life, LifeContext
from ..features import on_life
from ..features.mounts import load_mounts, nothing_here
from ..lifecycle.loading import check_unpatched, load_app
from ..lifecycle.surroundings import set_surroundings
from ..processes.plan import Plan
from ..wsgi import WSGIApp
from .plans import config_of, depends_on_folder, needs_no_app

if TYPE_CHECKING:
    from ..processes.worker import Role

logger = logging.getLogger("aserve")


def load(plan: Plan, role: Role | None = None, is_spooler: bool = False) -> WSGIApp:
    """Import the app, with all that it may need at that time; in a worker process with its role."""
    context = LifeContext(plan, role, is_spooler, environ=os.environ)
    set_surroundings(plan.config, os.environ)
    on_life(Life.IMPORTS, context)
    app = load_app(plan.spec) if plan.spec else nothing_here if needs_no_app(plan) else _load_demo()
    app = load_mounts(config_of(plan).mount, app)
    on_life(Life.IMPORTED, context)
    check_unpatched()
    return app


def _load_demo() -> WSGIApp:
    from ..demo import app  # which nothing else needs

    return app


def load_worker(folder: StartFolder, own: frozenset[str], plan: Plan, role: Role) -> WSGIApp:
    """Import the app for a worker or a mold, from where the name of the folder leads now."""
    try:
        folder.enter(own)
    except FolderGoneError as fault:  # what the other workers serve is better than nothing
        if depends_on_folder(plan):
            logger.warning("%s; until then workers have the code of before", fault)
    return load(plan, role)


def enter(role: Role) -> None:
    """Make of this process, which has imported the app as a mold, this worker."""
    on_life(Life.FORKED, LifeContext(role.plan, role, environ=os.environ))
