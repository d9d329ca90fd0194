"""The end of the command: errors as lines, and the exit status.

Owns:     status_of, the one place where our errors become lines on standard error and an exit status.
Thread:   the main thread.
Not here: what is done (cli.py, compat/gunicorn/serving.py), how a process ends (lifecycle/exits.py).
"""

from __future__ import annotations

import sys
from typing import Callable

from ..core.errors import FAILED, USAGE_ERROR, AserveError, BindError
from ..lifecycle import exits
from ..lifecycle.load_error import LoadError
from ..lifecycle.preconditions import describe_lack
from ..lifecycle.signals import Interrupted, early
from ..settings import ConfigError

INTERRUPTED = 130  # a shell's status for SIGINT


def status_of(task: Callable[[], int]) -> int:
    """Do the command's task; return the exit status: 0 done, 1 the app could not start, 2 wrong flags or settings."""
    try:
        status = task()
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
    except Interrupted as fault:
        sys.stderr.write(f"aserve: {fault}\n")
        status = 128 + fault.number
    except KeyboardInterrupt:
        status = INTERRUPTED
    early.wait()  # a signal that comes now is late, see exits
    exits.bound_exit(status)
    return status
