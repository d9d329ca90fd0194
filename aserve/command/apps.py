"""Imports the app, in each process that needs it: one without a supervisor, a worker, a mold, a spooler.

Owns:     load, load_worker; enter, for a worker that is forked from a mold.
Thread:   the main thread.
Not here: finding and importing a name (lifecycle/loading.py), the extensions' part in it (features/).
"""

from __future__ import annotations

import logging
import os
import sys
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
    from ..processes.role import Role

logger = logging.getLogger("aserve")


def load(plan: Plan, role: Role | None = None, is_spooler: bool = False) -> WSGIApp:
    """Import the app, in its surroundings and with its extensions; `role`: in a worker process."""
    context = LifeContext(plan, role, is_spooler, environ=os.environ, argv=sys.argv)
    set_surroundings(plan.config, os.environ)
    on_life(Life.IMPORTS, context)
    app = load_app(plan.spec) if plan.spec else nothing_here if needs_no_app(plan) else _load_demo()
    app = load_mounts(config_of(plan).mount, app)
    app = plan.origin.wrap(app) if plan.origin is not None else app
    on_life(Life.IMPORTED, context)
    check_unpatched()
    return app


def _load_demo() -> WSGIApp:
    from ..demo import app  # which nothing else needs

    return app


def load_worker(folder: StartFolder, own: frozenset[str], plan: Plan, role: Role) -> WSGIApp:
    """Import the app for a worker or a mold, from the folder that the start folder's name leads to now."""
    try:
        folder.enter(own)
    except FolderGoneError as fault:  # the old folder is better than nothing
        if depends_on_folder(plan):
            logger.warning("%s; until then workers import the old code", fault)
    return load(plan, role)


def enter(role: Role) -> None:
    """Turn this process, forked from a mold that has imported the app, into a worker."""
    on_life(Life.FORKED, LifeContext(role.plan, role, environ=os.environ))
