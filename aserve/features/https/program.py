"""The program of the child: reads a job, does the job, prints the result.

Owns:     main; JOBS.
Thread:   the child's only one. No server imports this module, or its imports: account.py, challenges.py, keys.py, order.py.
Not here: starting the child (child.py).
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

from .child import MAX_SECONDS
from .folder import Folder
from .keys import new_placeholder
from .notes import Notes
from .order import order


def make_placeholders(job: Mapping[str, Any]) -> dict[str, Any]:
    """Write a certificate without any client's trust for each name, to be served until there is a real one."""
    folder = Folder(job["folder"])
    for name in job["names"]:
        if os.path.exists(folder.certificate(name)):
            continue  # by now another process has got a certificate
        Notes().write(folder, name)  # first: maybe there was a damaged certificate
        folder.write(folder.certificate(name), new_placeholder(name))
    return {}


JOBS = {"placeholders": make_placeholders, "order": order}


def main() -> None:
    """Do the job on standard input. The parent may be killed: then nothing ends this process but time."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # of the terminal, where the server tells what there is to tell
    signal.alarm(MAX_SECONDS + 10)
    job = json.load(sys.stdin)
    json.dump(JOBS[job["do"]](job), sys.stdout)
