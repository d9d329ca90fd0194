"""Texts in place of serving, for --version, --check, --print-completion; and the apps that could be served here.

Owns:     show, show_found, show_check.
Thread:   the main thread.
Not here: the texts (banner.py, finding.py, completion.py).
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, MutableMapping

from ..compat.moving.lines import asked_for_help, asks_for_version, sends_signal
from ..connections.listeners import warn_of_exposed
from ..core.start_folder import real_folder
from ..extension import Life, LifeContext
from ..features import Config, extensions_of, on_life
from ..lifecycle.logs import set_up_logging
from ..lifecycle.privileges import Account, become, find_account
from ..processes.fleet.plan import Plan
from ..settings import ConfigError, parse_bind
from ..tls.certificates import load_certificates
from ..wsgi import WSGIApp
from .apps import load
from .banner import command, describe, version_line
from .flags import build_parser
from .plans import config_of, is_demo
from .start_notes import log_notes

logger = logging.getLogger("aserve")


def show(args: MutableMapping[str, object]) -> bool:
    """Do what needs no plan: print the text of a flag, which is removed, or send a signal; return whether there was such a thing."""
    if "print_completion" in args:
        from .completion import completion_of

        sys.stdout.write(completion_of(build_parser(), str(args["print_completion"])))
        return True
    about_line = asked_for_help(args)
    if about_line:
        sys.stdout.write(about_line)
        return True
    if args.pop("version", False) or asks_for_version(args):
        sys.stdout.write(version_line() + "\n")
        return True
    return sends_signal(args)


def show_found(plan: Plan) -> bool:
    """List the apps here, if none was named and there is nothing else to serve; return whether there are any."""
    if not is_demo(plan):
        return False
    from .finding import describe_found

    found = describe_found(real_folder() or os.curdir, command())
    sys.stderr.write(found)
    return bool(found)


def show_check(plan: Plan, environ: Mapping[str, str]) -> None:
    """Import the app, log what a start would, and print what would be served."""
    set_up_logging(plan.config)
    log_notes(plan, environ)
    load_certificates(plan.config, without=config_of(plan).missing_certificates()).log_warnings()
    account = find_account(plan.config.user, plan.config.group, plan.config.add_group)
    if account is not None and os.geteuid() == 0:
        become(account)  # as a start does before the import; a check by another user is one of the settings
    app = _load(plan, account)
    extensions_of(plan.config).wrap_app(app)  # a layer that cannot be made is an error here, too
    warn_of_exposed(map(parse_bind, plan.config.bind))
    _warn_of_missing_folders(config_of(plan))
    on_life(Life.CHECKS, LifeContext(plan, is_check=True))
    sys.stdout.write(describe(config_of(plan), app, plan.spec))


def _load(plan: Plan, account: Account | None) -> WSGIApp:
    try:
        return load(plan, is_check=True)
    except ImportError as fault:  # of aserve's own: what the app raises is a LoadError
        raise ConfigError(
            f"{account or 'this user'} cannot import aserve: {fault}; a warning before this says why"
        ) from None


def _warn_of_missing_folders(config: Config) -> None:
    """Log the files of a start that no folder is there for."""
    binds = [bind for bind in map(parse_bind, config.bind) if bind.kind == "unix" and not bind.is_abstract]
    places = [("--bind", bind.path) for bind in binds]
    places += [("--master-fifo", config.master_fifo or ""), ("--pid-file", config.pid_file or "")]
    for flag, path in places:
        if path and not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            text = "%s %s: its folder is not there: a start would end with an error; make it, or let systemd (RuntimeDirectory=)"
            logger.warning(text, flag, path)
