"""The `aserve` command: argv in, exit status out.

Owns:     the order of start-up, logging to standard error, and the one place where
          our errors become one line and exit status 2.
Thread:   the main thread.
Not here: the flags (flags.py), what the settings are (settings/table.py), finding the app (lifecycle/loading.py),
          binding before the app is imported, serving and signals (server/running.py), processes beside one another (with_workers.py, processes/).
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ..core.errors import FAILED, USAGE_ERROR, AserveError, BindError
from ..core.memory_file import map_memory_file
from ..core.start_folder import FolderGoneError, StartFolder, real_folder
from ..demo import app as demo_app
from ..extension import Life, LifeContext
from ..features import Config, extensions_of, on_life
from ..features.mounts import load_mounts, nothing_here, parse_mount
from ..features.moving import read_origin, take_flags
from ..lifecycle import exits
from ..lifecycle.arenas import share_one_arena
from ..lifecycle.hooks import call_post_fork
from ..lifecycle.lacking import describe_lack
from ..lifecycle.loading import LoadError, check_unpatched, load_app, load_module
from ..lifecycle.logs import set_up_logging
from ..lifecycle.privileges import find_account, is_root
from ..lifecycle.signals import unblock_all
from ..lifecycle.standard_streams import fill_standard_streams
from ..lifecycle.surroundings import set_surroundings, with_whole_paths
from ..lifecycle.switch_interval import shorten_switch_interval
from ..processes.ask import is_command, run_command
from ..processes.command import INHERITANCE_VARIABLE, TRIAL_VARIABLE
from ..processes.plan import Plan
from ..processes.programs import SPOOLER, SPOOLER_VARIABLE, check_programs
from ..server.running import Beside, prepared
from ..server.running import run_prepared as run_server
from ..settings import ConfigError, platform_settings, read_toml
from ..settings.secrecy import show_app
from ..tls.certificates import load_certificates
from ..wsgi import WSGIApp
from .banner import command, describe, show_banner, version_line
from .completion import completion_of
from .explain import CONFIG, explain, split_name
from .finding import describe_found
from .flags import build_parser, parse_args

if TYPE_CHECKING:
    from ..processes.worker import Role
    from ..server.server import Server

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
        return _run_spooler(args, spooler_folder)
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
    plan = (inherited.plan if inherited else None) or _read_plan(args)
    if not plan.spec and not _needs_no_app(plan) and inherited is None:
        found = describe_found(real_folder() or os.curdir, command())
        if found:
            sys.stderr.write(found)
            return USAGE_ERROR
    if is_check:
        set_up_logging(plan.config)
        find_account(plan.config.user, plan.config.group)
        app = _load(plan)
        load_certificates(plan.config).log_warnings()
        sys.stdout.write(describe(_config_of(plan), app, plan.spec))
        return 0
    set_up_logging(plan.config)
    share_one_arena(os.environ)
    shorten_switch_interval()
    if inherited is None:
        show_banner(_config_of(plan), plan.spec, sys.stderr, os.environ)
    _log_surroundings(plan)
    on_life(Life.STARTS, LifeContext(plan))
    if plan.config.workers is not None:
        # 1 MB: a process that serves by itself does without. Now: the user of --user may not be able to read it.
        from .with_workers import run_workers
    with prepared(plan.config, inherited.listeners if inherited else None) as listeners:
        if plan.config.workers is not None:
            read, load = functools.partial(_read_again, args, folder, own), functools.partial(_load_worker, folder, own)
            return run_workers(plan, read, listeners, inherited, os.environ, load, _enter)
        return run_server(_load(plan), plan.config, listeners, _beside(plan.config.control))


def _beside(control: str | None) -> Beside:
    """Return what is entered with the server of a process that serves by itself."""
    if control is None:
        return lambda server: _ending()
    from ..alone import control_of  # and what a supervisor answers

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
    toml, toml_name = _read_file(args.get("config", os.environ.get("ASERVE_CONFIG")))
    return explain(name, args, os.environ, toml, toml_name, sys.stdout.isatty())


def _read_plan(args: Mapping[str, object]) -> Plan:
    """Return what is to be served, by all sources; report what is wrong with it before the app is imported."""
    plan = _read_settings(args)
    extensions_of(plan.config)  # to see whether they can be made
    check_programs(plan.config, os.environ)
    load_certificates(plan.config)  # to see whether they can be; the server loads its own
    return plan


def _read_settings(args: Mapping[str, object]) -> Plan:
    """Return what all sources say, without a look at the files and programs that it names."""
    given = dict(args)
    origin = read_origin(take_flags(given), os.environ)
    toml, toml_name = _read_file(given.pop("config", os.environ.get("ASERVE_CONFIG")))
    spec = given.pop("app", None) or os.environ.get("ASERVE_APP") or toml.get("app")
    if origin is not None:
        spec = spec or origin.draft.app
        toml = {**origin.settings, **toml}  # each of the origin's has been checked, with the line that it is from
    config = Config.from_sources(given, os.environ, toml, toml_name, sys.stdout.isatty())
    config = with_whole_paths(config, StartFolder.of_this_process(os.environ))
    if spec and any(parse_mount(text).prefix == "" for text in config.mount):
        raise ConfigError(f"mount / is the place of the APP, which is {show_app(str(spec))!r}; name one of them")
    if config.shared is not None and not (spec or config.shared_prefix):
        raise ConfigError("shared needs shared-prefix where no APP is named, whose name would be the prefix")
    return Plan(config, _checked_spec(spec, toml_name) if spec else None, origin)


def _read_again(args: Mapping[str, object], folder: StartFolder, own: frozenset[str]) -> Plan:
    """
    Return what is to be served from now on; `own`: the names of modules that are aserve's.

    Raises:
        ConfigError: a source has a mistake.
        FolderGoneError: the app would be that of before, as the folder from which it is imported has moved.
    """
    gone = None
    try:
        folder.enter(own, is_anew=True)
    except FolderGoneError as fault:
        gone = fault
    plan = _read_plan(args)
    if gone is not None and _depends_on_folder(plan):
        raise gone
    on_life(Life.RELOADS, LifeContext(plan))
    return plan


def _load(plan: Plan, role: Role | None = None, is_spooler: bool = False) -> WSGIApp:
    """Import the app, with all that it may need at that time; in a worker process with its role."""
    context = LifeContext(plan, role, is_spooler)
    set_surroundings(plan.config, os.environ)
    on_life(Life.IMPORTS, context)
    app = load_app(plan.spec) if plan.spec else nothing_here if _needs_no_app(plan) else demo_app
    app = load_mounts(_config_of(plan).mount, app)
    on_life(Life.IMPORTED, context)
    check_unpatched()
    return app


def _load_worker(folder: StartFolder, own: frozenset[str], plan: Plan, role: Role) -> WSGIApp:
    """Import the app for a worker or a mold, from where the name of the folder leads now."""
    try:
        folder.enter(own)
    except FolderGoneError as fault:  # what the other workers serve is better than nothing
        if _depends_on_folder(plan):
            logger.warning("%s; until then workers have the code of before", fault)
    return _load(plan, role)


def _enter(role: Role) -> None:
    """Make of this process, which has imported the app as a mold, this worker."""
    on_life(Life.FORKED, LifeContext(role.plan, role))


def _watch(path: str) -> int:
    if not find_spec("textual"):
        raise ConfigError("aserve top needs textual, which is not installed; pip install 'aserve-wsgi[top]'")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("aserve top needs a terminal; `aserve status` prints the same once")
    from .top_screen import run_top  # an optional dependency, which only somebody who looks needs

    run_top(path)
    return 0


def _run_spooler(args: Mapping[str, object], folder: str) -> int:
    """Do the jobs of a folder, as the process beside the workers that is for that."""
    from ..features.uwsgi_api.module import spooler_function  # which only such a process needs
    from ..features.uwsgi_api.spooler.board import PAGE_VARIABLE, Page
    from ..features.uwsgi_api.spooler.functions import queue_of
    from ..features.uwsgi_api.spooler.runner import run_spooler

    page = Page.inherited(os.environ.pop(PAGE_VARIABLE, ""), map_memory_file)
    # Not _read_plan: a certificate that is renewed just then, or a program that is gone, is no concern of its.
    plan = _read_settings(args)
    set_up_logging(plan.config, SPOOLER)
    _load(plan, is_spooler=True)
    for name in plan.config.spooler_import:
        load_module(name)
    call_post_fork()
    try:
        return run_spooler(folder, spooler_function, page, plan.config.spooler_max_jobs, queue_of(folder))
    except OSError as fault:
        raise ConfigError(f"spooler {folder}: {fault.strerror or fault}") from None
    finally:
        exits.begin_ending(plan.config.drain_seconds)


def _run_trial(argv: Sequence[str], channel_fd: int) -> int:
    """Show the supervisor, which is of the code of before, whether this code can serve."""
    from .with_workers import run_trial

    return run_trial(channel_fd, lambda: _read_plan(parse_args(argv)), os.environ, _load, _enter)


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
    config, said = _config_of(plan), platform_settings(os.environ)
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
    if not plan.spec and not _needs_no_app(plan):
        logger.info("no APP was named, so this is the demo; for yours: %s module:app", command())


def _config_of(plan: Plan) -> Config:
    """Return its settings: the command's plans have those of all features."""
    assert isinstance(plan.config, Config)
    return plan.config


def _needs_no_app(plan: Plan) -> bool:
    """Whether there is something to serve without an APP, and so no need of the demo."""
    config = _config_of(plan)
    return bool(config.static or config.mount)


def _depends_on_folder(plan: Plan) -> bool:
    """Whether an app is imported from the folder of the start, or from below it."""
    specs = [*([plan.spec] if plan.spec else []), *(parse_mount(text).what for text in _config_of(plan).mount)]
    return not os.path.isabs(plan.config.chdir or "") and not all(map(os.path.isabs, specs or [""]))


def _checked_spec(spec: object, toml_name: str) -> str:
    if not isinstance(spec, str):
        raise ConfigError(f"app in {toml_name}: {show_app(repr(spec))} is not text; accepted: module:name")
    return spec


def _read_file(path: object) -> tuple[Mapping[str, object], str]:
    """Return the settings of the TOML file, and its name for messages."""
    if path:
        return read_toml(str(path)), str(path)
    if os.path.isfile("pyproject.toml"):
        return read_toml("pyproject.toml"), "[tool.aserve] of pyproject.toml"
    return {}, "the TOML file"
