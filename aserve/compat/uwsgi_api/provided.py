"""All that the module `uwsgi` has in a process, but for RPC.

Owns:     PROVIDED, what is there in any case; names_of, which adds the values of a process, and what is there with settings.
Thread:   the one that imports the module.
Spec:     uWSGI 2.0.30, "The uWSGI API - Python".
Not here: the functions (facts.py, functions.py, request.py ...), the module, and RPC (module.py), why other names are not there (names.py).
"""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from ...settings import VERSION
from .areas import AREAS
from .facts import FACTS
from .functions import FUNCTIONS
from .harakiri import set_user_harakiri
from .metrics import METRICS
from .mules import functions as mules
from .process import Process
from .queues import QUEUE
from .request import REQUEST
from .settings import Extras, parse_queue
from .spooler import functions as spooler
from .websocket import WEBSOCKET

PROVIDED: dict[str, Any] = {
    "set_user_harakiri": set_user_harakiri,
    **FACTS,
    **FUNCTIONS,
    **mules.FUNCTIONS,
    **REQUEST,
    **WEBSOCKET,
}
PROVIDED["version"] = f"aserve {VERSION}".encode()
PROVIDED["version_info"] = (2, 0, 30, 0, b"")  # of the uWSGI whose module this one follows
PROVIDED["numproc"] = 1
PROVIDED["hostname"] = socket.gethostname().encode()
PROVIDED["started_on"] = int(time.time())
PROVIDED["applications"] = {}
PROVIDED["loop"] = PROVIDED["unbit"] = None
PROVIDED["cores"], PROVIDED["has_threads"], PROVIDED["buffer_size"] = 1, 1, 4096
PROVIDED["is_a_reload"] = False  # a value, as in uWSGI; a worker cannot tell whether it was started by a reload
# Threads are always enabled, and Python's own fork hooks are called: monitoring agents refuse to start, or warn, without
# these options.
PROVIDED["opt"] = {"enable-threads": True, "py-call-uwsgi-fork-hooks": True}


def names_of(process: Process) -> dict[str, Any]:
    """Return all names of the module in a process."""
    found = {**PROVIDED, "numproc": process.numproc, "cores": process.threads, "opt": _options(process)}
    if process.spoolers:
        found.update(spooler.FUNCTIONS, spoolers=tuple(map(os.fsencode, process.spoolers)))
    return {**found, **_extras(process.extras)}


def _options(process: Process) -> dict[str, Any]:
    """Return `uwsgi.opt`: the options of the file, and the true values of those that monitoring agents check."""
    truths: dict[str, Any] = dict(PROVIDED["opt"])
    if process.masterpid:
        truths["master"] = True
    if not process.is_preloaded:
        truths["lazy-apps"] = True
    options = {key: value for key, value in process.options.items() if key not in ("master", "lazy", "lazy-apps")}
    if process.spoolers:
        folders = [os.fsencode(folder) for folder in process.spoolers]
        truths["spooler"] = folders[0] if len(folders) == 1 else folders
    if process.mules and not {"mule", "mules"} & options.keys():
        truths["mules"] = b"%d" % process.mules
    return {**options, **truths}


def _extras(extras: Extras) -> dict[str, Any]:
    """Return the functions that are there with a queue, areas or metrics, as in uWSGI."""
    found: dict[str, Any] = {}
    if extras.queue:
        found.update(QUEUE, queue_size=parse_queue(extras.queue).items)
    return {**found, **(AREAS if extras.areas else {}), **(METRICS if extras.metrics else {})}
