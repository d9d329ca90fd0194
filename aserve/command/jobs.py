"""The process beside the workers that does the jobs of a folder (--spooler).

Owns:     run_jobs.
Thread:   the main thread.
Not here: jobs (features/uwsgi_api/spooler/), starting such a process (processes/attached.py).
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from ..core.memory_file import map_memory_file
from ..features.uwsgi_api.spooler.supervising import SPOOLER
from ..lifecycle import exits
from ..lifecycle.hooks import call_post_fork
from ..lifecycle.loading import load_module
from ..lifecycle.logs import set_up_logging
from ..settings import ConfigError
from .apps import load
from .plans import config_of, read_settings


def run_jobs(args: Mapping[str, object], folder: str) -> int:
    """Do the jobs of a folder, as a process beside the workers."""
    from ..features.uwsgi_api.module import spooler_function  # needed only here
    from ..features.uwsgi_api.spooler.board import PAGE_VARIABLE, Page
    from ..features.uwsgi_api.spooler.functions import queue_of
    from ..features.uwsgi_api.spooler.runner import run_spooler

    page = Page.inherited(os.environ.pop(PAGE_VARIABLE, ""), map_memory_file)
    # Not read_plan: this process needs no certificates, which may just be changing, and no other programs.
    plan = read_settings(args)
    config = config_of(plan)
    set_up_logging(config, SPOOLER)
    load(plan, is_spooler=True)
    for name in config.spooler_import:
        load_module(name)
    call_post_fork()
    try:
        return run_spooler(folder, spooler_function, page, config.spooler_max_jobs, queue_of(folder))
    except OSError as fault:
        raise ConfigError(f"spooler {folder}: {fault.strerror or fault}") from None
    finally:
        exits.begin_ending(config.drain_seconds)
