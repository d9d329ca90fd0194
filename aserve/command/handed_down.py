"""What the previous supervisor hands down to this process: descriptors, named by environment variables.

Owns:     HandedDescriptors: the channel of a trial, the state from an upgrade in place; take_handed_down.
Thread:   the main thread.
Not here: handing them down (processes/upgrade/upgrade.py), reading the state from them (processes/upgrade/inheritance.py).
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping

from ..core.named_tuple import NamedTuple
from ..processes.children.command import INHERITANCE_VARIABLE, TRIAL_VARIABLE
from ..settings import ConfigError


class HandedDescriptors(NamedTuple):
    """Descriptors; None: a user or a service manager has started this process."""

    trial_fd: int | None  # a channel, on which a trial reports whether it can serve
    inheritance_fd: int | None  # listeners, workers and settings


def take_handed_down(environ: MutableMapping[str, str]) -> HandedDescriptors:
    """
    Take the descriptors out of the environment, so that no child inherits the variables.

    Raises:
        ConfigError: a variable was set by another program.
    """
    return HandedDescriptors(_take_fd(environ, TRIAL_VARIABLE), _take_fd(environ, INHERITANCE_VARIABLE))


def _take_fd(environ: MutableMapping[str, str], variable: str) -> int | None:
    text = environ.pop(variable, None)
    if text is None:
        return None
    try:
        fd = int(text)
        os.fstat(fd)
    except (ValueError, OSError):
        raise ConfigError(f"{variable} is for aserve itself, when it is upgraded; unset it") from None
    return fd
