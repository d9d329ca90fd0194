"""The processes beside the workers that have the app: those that do the jobs of a folder (--spooler), and mules (--uwsgi-mule).

Owns:     run_jobs, run_mule.
Thread:   the main thread.
Not here: jobs (compat/uwsgi_api/spooler/), mules (compat/uwsgi_api/mules/), starting such a process (processes/programs/attached.py).
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from ..compat.uwsgi_api.spooler.supervising import SPOOLER
from ..core.memory_file import map_memory_file
from ..features.sharing.settings import shared_of
from ..lifecycle import exits
from ..lifecycle.hooks import call_at_end, call_post_fork
from ..lifecycle.loading import load_module, whole_spec
from ..lifecycle.logs import set_up_logging
from ..settings import ConfigError
from .apps import load
from .plans import config_of, read_settings


def run_jobs(args: Mapping[str, object], folder: str) -> int:
    """Do the jobs of a folder, as a process beside the workers."""
    from ..compat.uwsgi_api.module import spooler_function  # needed only here
    from ..compat.uwsgi_api.spooler.board import PAGE_VARIABLE, Page
    from ..compat.uwsgi_api.spooler.functions import queue_of
    from ..compat.uwsgi_api.spooler.runner import run_spooler

    page = Page.inherited(os.environ.pop(PAGE_VARIABLE, ""), map_memory_file)
    # Not read_plan: this process needs no certificates, which may just be changing, and no other programs.
    plan = read_settings(args)
    config = config_of(plan)
    set_up_logging(config, SPOOLER)
    imports = [whole_spec(name, config.chdir or "") for name in config.spooler_import]
    load(plan, is_spooler=True)
    for name in imports:
        load_module(name)
    call_post_fork()
    try:
        return run_spooler(folder, spooler_function, page, config.spooler_max_jobs, queue_of(folder))
    except OSError as fault:
        raise ConfigError(f"spooler {folder}: {fault.strerror or fault}") from None
    finally:
        exits.begin_ending(config.drain_seconds)


def run_mule(args: Mapping[str, object], text: str) -> int:
    """Run a mule, as a process beside the workers; `text`: see post.inherited."""
    from ..compat.uwsgi_api import memory  # these are needed only here
    from ..compat.uwsgi_api.module import mule_hook
    from ..compat.uwsgi_api.mules import post
    from ..compat.uwsgi_api.mules.runner import run_mule as run

    number, fd, queues = post.inherited(text)
    plan = read_settings(args)  # see run_jobs
    config = config_of(plan)
    set_up_logging(config, f"mule {number}")
    memory.share(config.uwsgi_cache, fd, shared_of(config, plan.spec), config.extras)
    post.share(queues, number)
    program = whole_spec(config.uwsgi_mule[number - 1], config.chdir or "")
    load(plan, is_spooler=True)
    try:
        return run(number, queues, program, call_post_fork, mule_hook)
    finally:
        call_at_end()
        exits.begin_ending(config.drain_seconds)
