"""The `aserve` command: argv in, exit status out.

Owns:     which of its tasks is asked for, and the one place where our errors become one line and exit status 2.
Thread:   the main thread.
Not here: the flags (flags.py), the tasks: asking a server and the like (subcommands.py), showing something (showing.py), doing jobs (jobs.py), serving
          (serving.py), showing another process whether this code can serve (as_child.py); what is to be served (plans.py), importing
          the app (apps.py).
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence

from ..core.errors import FAILED, USAGE_ERROR, AserveError, BindError
from ..core.start_folder import StartFolder
from ..features.uwsgi_api.mules.settings import MULE_VARIABLE
from ..features.uwsgi_api.spooler.supervising import SPOOLER_VARIABLE
from ..lifecycle import exits
from ..lifecycle.lacking import describe_lack
from ..lifecycle.loading import LoadError
from ..lifecycle.signals import unblock_all
from ..lifecycle.standard_streams import fill_standard_streams
from ..settings import ConfigError
from .apps import enter, load, load_worker
from .flags import parse_args
from .handed_down import take_handed_down
from .plans import read_again, read_plan
from .serving import serve
from .showing import show, show_check, show_found
from .subcommands import is_subcommand, run_subcommand

INTERRUPTED = 130  # a shell's status for SIGINT


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status: 0 done, 1 the app could not start, 2 wrong flags or settings."""
    fill_standard_streams()
    try:
        status = _run(sys.argv[1:] if argv is None else argv)
    except (ConfigError, AserveError, BindError) as fault:
        if isinstance(fault, LoadError):
            sys.stderr.write(fault.app_traceback)
        for mistake in str(fault).splitlines() or [""]:
            sys.stderr.write(f"aserve: error: {mistake}\n")
        status = getattr(fault, "exit_status", USAGE_ERROR)
    except OSError as fault:
        lack = describe_lack(fault)
        if lack is None:
            raise
        sys.stderr.write(f"aserve: error: {lack}\n")
        status = FAILED
    except KeyboardInterrupt:  # while the app was imported
        status = INTERRUPTED
    exits.bound_exit(status)
    return status


def _run(argv: Sequence[str]) -> int:
    handed = take_handed_down(os.environ)
    if handed.inheritance_fd is None:  # otherwise they stay blocked, for the code that takes over
        unblock_all()
    if handed.trial_fd is not None:
        return _run_trial(argv, handed.trial_fd)
    if is_subcommand(argv):
        return run_subcommand(argv, os.environ)
    folder, own = StartFolder.of_this_process(os.environ), frozenset(sys.modules)
    args = parse_args(argv, os.environ)
    spooler_folder = os.environ.pop(SPOOLER_VARIABLE, None)
    if spooler_folder is not None:
        from .jobs import run_jobs

        return run_jobs(args, spooler_folder)
    mule = os.environ.pop(MULE_VARIABLE, None)
    if mule is not None:
        from .jobs import run_mule

        return run_mule(args, mule)
    if show(args):
        return 0
    is_check = args.pop("check", False)
    inherited = None
    if handed.inheritance_fd is not None:
        from .with_workers import read_inheritance

        inherited = read_inheritance(handed.inheritance_fd)
    plan = (inherited.plan if inherited else None) or read_plan(args)
    if inherited is None and show_found(plan):
        return USAGE_ERROR
    if is_check:
        show_check(plan)
        return 0
    read = functools.partial(read_again, args, folder, own)
    return serve(plan, inherited, read, functools.partial(load_worker, folder, own), os.environ)


def _run_trial(argv: Sequence[str], channel_fd: int) -> int:
    """Show the supervisor, which runs the old code, whether this code can serve."""
    from .as_child import run_trial

    return run_trial(channel_fd, lambda: read_plan(parse_args(argv, os.environ)), load, enter)
