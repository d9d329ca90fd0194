"""Process 1 of a container without a supervisor: the server is a child.

Owns:     leave_first_process: forking the server; handing signals on to it; reaping.
Thread:   the main thread, before further threads.
Not here: a supervisor, which reaps without help (processes/children/children.py).

The kernel makes process 1 the parent of each process without a parent. A server that reaped such processes would also take the statuses of the
app's subprocesses from the app: no process can tell its own children from adopted ones.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import MutableMapping
from typing import NoReturn

from ..core import forks
from ..core.descriptors import for_each_above_standard

# Names of the process with the sockets, and the watchdog, of a service manager (systemd.py).
PIDS = ("LISTEN_PID", "WATCHDOG_PID")


def leave_first_process(environ: MutableMapping[str, str]) -> None:
    """As process 1, return in a child, and end with the child's status; do nothing in another process."""
    if os.getpid() != 1:
        return
    forks.flush_output()
    earlier = forks.disown_all_handlers()  # or the fork would restore the earlier handlers
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    server = os.fork()
    if server:
        _stand_by(server)
    forks.own_handlers(earlier, are_first=True)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    environ.update({name: str(os.getpid()) for name in PIDS if environ.get(name) == "1"})


def _stand_by(server: int) -> NoReturn:
    """Hand all signals on, and reap; end with the server, by the same status, or for a signal by the status of shells."""
    # Not os.closerange(): a container may allow 2^30 numbers, and before Python 3.10 each number is a system call.
    for_each_above_standard(os.close)  # passed descriptors are the server's to close
    while True:
        number = signal.sigwait(signal.valid_signals())
        if number != signal.SIGCHLD:
            os.kill(server, number)
            continue
        with contextlib.suppress(ChildProcessError):  # no child is left
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == server:
                    code = os.waitstatus_to_exitcode(ended[1])
                    os._exit(code if code >= 0 else 128 - code)
