"""What code of before hands to this process, by variables of its environment that name descriptors.

Owns:     HandedDown: the channel of a trial, what an upgrade in place has left; take_down.
Thread:   the main thread.
Not here: who hands it down (processes/upgrade.py), what is read from it (processes/inheritance.py).
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from typing import NamedTuple

from ..processes.command import INHERITANCE_VARIABLE, TRIAL_VARIABLE
from ..settings import ConfigError


class HandedDown(NamedTuple):
    """Descriptors; None: this process was started by a person, or by a service manager."""

    trial_fd: int | None  # a channel, on which it shows whether it can serve
    inheritance_fd: int | None  # listeners, workers and settings


def take_down(environ: MutableMapping[str, str]) -> HandedDown:
    """
    Take it out of the environment: no other process is to have it.

    Raises:
        ConfigError: a variable was set by another program.
    """
    return HandedDown(_take_fd(environ, TRIAL_VARIABLE), _take_fd(environ, INHERITANCE_VARIABLE))


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
