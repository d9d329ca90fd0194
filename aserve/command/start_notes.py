"""Notes when the command begins to serve, or checks whether it could: on a terminal, and in the log.

Owns:     tell_start: the banner; log_notes: settings of another server that have no effect or give way, unknown variables, and what the user has not asked for:
          settings of the platform, running as root, the demo.
Thread:   the main thread.
Not here: the banner's text (banner.py), logging the addresses (server/running.py).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping

from ..lifecycle.privileges import is_root
from ..processes.fleet.plan import Plan
from ..settings import platform_settings, service_variables, unbound_sockets
from .banner import command, show_banner
from .plans import config_of, is_demo

logger = logging.getLogger("aserve")


def tell_start(plan: Plan, environ: Mapping[str, str], is_upgrade: bool) -> None:
    """Write the notes; after an upgrade in place only to the log."""
    if not is_upgrade:
        show_banner(config_of(plan), plan.spec, sys.stderr, environ)
    log_notes(plan, environ)


def log_notes(plan: Plan, environ: Mapping[str, str]) -> None:
    """Log the notes; --check logs the same."""
    config, said = config_of(plan), platform_settings(environ)
    if plan.origin is not None:
        plan.origin.note_proxies(config)
        plan.origin.log_notes()
    for name, value in (("bind", config.bind), ("workers", str(config.workers))):
        if name in said and said[name].value == value:
            logger.info(said[name].note)
    for unbound in unbound_sockets(environ, config.bind):
        logger.warning(
            "systemd has passed the socket %s, and no --bind names it: its clients wait and get no answer; --bind systemd:%s serves them",
            unbound,
            unbound,
        )
    of_services = service_variables(environ)
    if of_services:
        logger.info(
            "%s and others describe a service of Kubernetes, and are ignored; enableServiceLinks: false leaves them out",
            of_services[0],
        )
    strange = config.unknown_variables(environ)
    if strange:
        logger.warning(
            "%s: no settings have these variables, which are ignored; `aserve docs settings` has all that there are",
            ", ".join(strange),
        )
    if config.user is None and is_root():
        logger.warning(
            "the app runs as root: a break-in gives away this machine; --user www-data gives up root "
            "after binding, as does User= of a systemd unit"
        )
    if is_demo(plan):
        logger.info("no APP was named, so this is the demo; for yours: %s module:app", command())
