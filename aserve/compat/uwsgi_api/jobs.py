"""The processes beside the workers that have the app: those that do the jobs of a folder (--spooler), and mules (--uwsgi-mule).

Owns:     run_jobs, run_mule.
Thread:   the main thread.
Not here: jobs (spooler/), mules (mules/), starting such a process (processes/programs/attached.py).
"""

from __future__ import annotations

from ...core.memory_file import map_memory_file
from ...extension import BesideContext
from ...features.sharing.settings import shared_of
from ...lifecycle import exits
from ...lifecycle.hooks import call_at_end, call_post_fork
from ...lifecycle.loading import load_module, whole_spec
from ...lifecycle.logs import set_up_logging
from ...settings import ConfigError
from . import memory
from .module import mule_hook, spooler_function
from .mules import post
from .mules import runner as mule_runner
from .spooler import runner
from .spooler.board import PAGE_VARIABLE, Page
from .spooler.functions import queue_of
from .spooler.supervising import SPOOLER


def run_jobs(folder: str, context: BesideContext) -> int:
    """Do the jobs of a folder, as a process beside the workers."""
    page = Page.inherited(context.environ.pop(PAGE_VARIABLE, ""), map_memory_file)
    plan = context.read()
    config = plan.config
    set_up_logging(config, SPOOLER)
    imports = [whole_spec(name, config.chdir or "") for name in config.spooler_import]
    context.load(plan)
    for name in imports:
        load_module(name)
    call_post_fork()
    try:
        return runner.run_spooler(folder, spooler_function, page, config.spooler_max_jobs, queue_of(folder))
    except OSError as fault:
        raise ConfigError(f"spooler {folder}: {fault.strerror or fault}") from None
    finally:
        exits.begin_ending(config.drain_seconds)


def run_mule(text: str, context: BesideContext) -> int:
    """Run a mule, as a process beside the workers; `text`: see post.inherited."""
    number, fd, queues = post.inherited(text)
    plan = context.read()
    config = plan.config
    set_up_logging(config, f"mule {number}")
    memory.share(config.uwsgi_cache, fd, shared_of(config, plan.spec), config.extras)
    post.share(queues, number)
    program = whole_spec(config.uwsgi_mule[number - 1], config.chdir or "")
    context.load(plan)
    try:
        return mule_runner.run_mule(number, queues, program, call_post_fork, mule_hook)
    finally:
        call_at_end()
        exits.begin_ending(config.drain_seconds)
