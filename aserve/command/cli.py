"""The `aserve` command: argv in, exit status out.

Owns:     the order of start-up, logging to standard error, and the one place where
          our errors become one line and exit status 2.
Thread:   the main thread.
Not here: the flags (flags.py), what is to be served (plans.py), importing the app (apps.py), doing jobs (jobs.py), binding before the app
          is imported, serving and signals (server/running.py), processes beside one another (with_workers.py, processes/).
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Callable

from ..core.errors import FAILED, USAGE_ERROR, AserveError, BindError
from ..core.start_folder import StartFolder, real_folder
from ..extension import Life, LifeContext
from ..features import on_life
from ..lifecycle import exits
from ..lifecycle.arenas import share_one_arena
from ..lifecycle.lacking import describe_lack
from ..lifecycle.loading import LoadError
from ..lifecycle.logs import set_up_logging
from ..lifecycle.privileges import find_account, is_root
from ..lifecycle.signals import unblock_all
from ..lifecycle.standard_streams import fill_standard_streams
from ..lifecycle.switch_interval import shorten_switch_interval
from ..processes.ask import is_command, run_command
from ..processes.command import INHERITANCE_VARIABLE, TRIAL_VARIABLE
from ..processes.plan import Plan, Read
from ..processes.programs import SPOOLER_VARIABLE
from ..server.running import Beside, prepared
from ..server.running import run_prepared as run_server
from ..settings import ConfigError, platform_settings
from ..tls.certificates import load_certificates
from .apps import enter, load, load_worker
from .banner import command, describe, show_banner, version_line
from .completion import completion_of
from .explain import CONFIG, explain, split_name
from .finding import describe_found
from .flags import build_parser, parse_args
from .jobs import run_jobs
from .plans import config_of, needs_no_app, read_again, read_file, read_plan

if TYPE_CHECKING:
    from ..processes.inheritance import Inheritance
    from ..processes.worker import Role
    from ..server.server import Server
    from ..wsgi import WSGIApp

logger = logging.getLogger("aserve")

INTERRUPTED = 130  # what a shell reports for SIGINT


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status: 0 done, 1 the app could not start, 2 a mistake in what was asked."""
    fill_standard_streams()
    try:
        status = _run(sys.argv[1:] if argv is None else argv)
    except (ConfigError, AserveError, BindError) as fault:
        if isinstance(fault, LoadError):
            sys.stderr.write(fault.app_traceback)
        sys.stderr.write(f"aserve: error: {fault}\n")
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
    trial_fd, inheritance_fd = _take_fd(TRIAL_VARIABLE), _take_fd(INHERITANCE_VARIABLE)
    if inheritance_fd is None:  # or they wait, for the code that takes over
        unblock_all()
    if trial_fd is not None:
        return _run_trial(argv, trial_fd)
    if is_command(argv):
        return run_command(argv, os.environ, _watch)
    if argv[:1] == ["translate"]:
        from ..features.moving.translate import (
            run_translate,  # and its tables, which a server without such files does without
        )

        return run_translate(argv, os.environ)
    if argv[:1] == [CONFIG]:
        sys.stdout.write(_explain(argv[1:]))
        return 0
    folder, own = StartFolder.of_this_process(os.environ), frozenset(sys.modules)
    args = parse_args(argv)
    spooler_folder = os.environ.pop(SPOOLER_VARIABLE, None)
    if spooler_folder is not None:
        return run_jobs(args, spooler_folder)
    if "print_completion" in args:
        sys.stdout.write(completion_of(build_parser(), str(args["print_completion"])))
        return 0
    if args.pop("version", False):
        sys.stdout.write(version_line() + "\n")
        return 0
    is_check = args.pop("check", False)
    if inheritance_fd is not None:
        from .with_workers import read_inheritance

        inherited = read_inheritance(inheritance_fd)
    else:
        inherited = None
    plan = (inherited.plan if inherited else None) or read_plan(args)
    if not plan.spec and not needs_no_app(plan) and inherited is None:
        found = describe_found(real_folder() or os.curdir, command())
        if found:
            sys.stderr.write(found)
            return USAGE_ERROR
    if is_check:
        return _check(plan)
    read = functools.partial(read_again, args, folder, own)
    return _serve(plan, inherited, read, functools.partial(load_worker, folder, own))


def _check(plan: Plan) -> int:
    """Import the app and say what would be served."""
    set_up_logging(plan.config)
    find_account(plan.config.user, plan.config.group)
    app = load(plan)
    load_certificates(plan.config).log_warnings()
    sys.stdout.write(describe(config_of(plan), app, plan.spec))
    return 0


def _serve(plan: Plan, inherited: Inheritance | None, read: Read, load_for: Callable[[Plan, Role], WSGIApp]) -> int:
    """Serve, or supervise workers; return the exit status. `inherited`: by the code before, in an upgrade in place."""
    config = plan.config
    set_up_logging(config)
    share_one_arena(os.environ)
    shorten_switch_interval()
    if inherited is None:
        show_banner(config_of(plan), plan.spec, sys.stderr, os.environ)
    _log_surroundings(plan)
    on_life(Life.STARTS, LifeContext(plan))
    if config.workers is not None:
        # 1 MB: a process that serves by itself does without. Now: the user of --user may not be able to read it.
        from .with_workers import run_workers
    with prepared(config, inherited.listeners if inherited else None) as listeners:
        if config.workers is not None:
            return run_workers(plan, read, listeners, inherited, os.environ, load_for, enter)
        return run_server(load(plan), config, listeners, _beside(config.control))


def _beside(control: str | None) -> Beside:
    """Return what is entered with the server of a process that serves by itself."""
    if control is None:
        return lambda server: _ending()
    from .alone import control_of  # and what a supervisor answers

    @contextlib.contextmanager
    def beside(server: Server) -> Iterator[None]:
        with _ending(), control_of(server, control):
            yield

    return beside


@contextlib.contextmanager
def _ending() -> Iterator[None]:
    """This process is the command's: a signal that comes after the server's handlers are gone does not cut off its end."""
    try:
        yield
    finally:
        exits.hold_signals()


def _explain(argv: Sequence[str]) -> str:
    name, rest = split_name(argv)
    args = parse_args(rest)
    toml, toml_name = read_file(args.get("config", os.environ.get("ASERVE_CONFIG")))
    return explain(name, args, os.environ, toml, toml_name, sys.stdout.isatty())


def _watch(path: str) -> int:
    if not find_spec("textual"):
        raise ConfigError("aserve top needs textual, which is not installed; pip install 'aserve-wsgi[top]'")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("aserve top needs a terminal; `aserve status` prints the same once")
    from .top_screen import run_top  # an optional dependency, which only somebody who looks needs

    run_top(path)
    return 0


def _run_trial(argv: Sequence[str], channel_fd: int) -> int:
    """Show the supervisor, which is of the code of before, whether this code can serve."""
    from .with_workers import run_trial

    return run_trial(channel_fd, lambda: read_plan(parse_args(argv)), load, enter)


def _take_fd(variable: str) -> int | None:
    """Return the descriptor that code of before names to this process, and to no other."""
    text = os.environ.pop(variable, None)
    if text is None:
        return None
    try:
        fd = int(text)
        os.fstat(fd)
    except (ValueError, OSError):
        raise ConfigError(f"{variable} is for aserve itself, when it is upgraded; unset it") from None
    return fd


def _log_surroundings(plan: Plan) -> None:
    """Log what was not asked for: what the platform says, what it is to run as root, and the demo."""
    config, said = config_of(plan), platform_settings(os.environ)
    if plan.origin is not None:
        plan.origin.log_notes()
    for name, value in (("bind", config.bind), ("workers", str(config.workers))):
        if name in said and said[name].value == value:
            logger.info(said[name].note)
    if config.user is None and is_root():
        logger.warning(
            "running as root, and so does the app: whoever breaks into it has this machine; --user www-data gives that up "
            "after binding, as does User= of a systemd unit"
        )
    if not plan.spec and not needs_no_app(plan):
        logger.info("no APP was named, so this is the demo; for yours: %s module:app", command())
