"""A start: from the flags to the server's end, for the command and for a program that serves by itself.

Owns:     start; start_trial, for a process that shows whether its code can serve.
Thread:   the main thread.
Not here: the flags (flags.py), the plan (plans.py), the processes of options beside the workers (Extension.processes), serving (serving.py), the trial's work (as_child.py).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, MutableMapping
from typing import Callable

from ..core.errors import USAGE_ERROR
from ..core.start_folder import StartFolder
from ..extension import BesideContext
from ..features import processes
from .apps import enter, load, load_worker
from .plans import read_again, read_plan, read_settings
from .serving import serve
from .showing import show_check, show_found


def start(args: Mapping[str, object], inheritance_fd: int | None, environ: MutableMapping[str, str]) -> int:
    """Serve what the flags name, or check it, or be one of the processes beside workers; return the exit status. `inheritance_fd`: see HandedDescriptors."""
    args = dict(args)
    for variable, run in processes().items():
        value = environ.pop(variable, None)
        if value is not None:
            read = functools.partial(read_settings, args)
            return run(value, BesideContext(read, functools.partial(load, is_spooler=True), environ))
    folder, own = StartFolder.of_this_process(environ), frozenset(sys.modules)
    is_check = args.pop("check", False)
    inherited = None
    if inheritance_fd is not None:
        from .with_workers import read_inheritance

        inherited = read_inheritance(inheritance_fd)
    plan = (inherited.plan if inherited else None) or read_plan(args, is_check=bool(is_check))
    if inherited is None and show_found(plan):
        return USAGE_ERROR
    if is_check:
        show_check(plan, environ)
        return 0
    read_anew = functools.partial(read_again, args, folder, own)
    return serve(plan, inherited, read_anew, functools.partial(load_worker, folder, own), environ)


def start_trial(args: Callable[[], Mapping[str, object]], channel_fd: int) -> int:
    """Show the supervisor, which runs the old code, whether this code can serve."""
    from .as_child import run_trial

    return run_trial(channel_fd, lambda: read_plan(args()), load, enter)
