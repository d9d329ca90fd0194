"""A module `gunicorn` for configurations that import it where it is not installed.

Owns:     stand_in; type_modules, which have the classes that annotations name.
Thread:   the main thread.
Not here: the classes of programs (compat/gunicorn/), what a file sets in the module (gunicorn.py).

It has what configurations use: the server's name, which some change, `gunicorn.glogging.Logger`, and names of classes for the annotations of
hooks. Any other import of gunicorn's fails.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

VERSION = (23, 0, 0)  # whose names these are
TYPES = {
    "gunicorn.arbiter": ["Arbiter"],
    "gunicorn.http": ["Request"],
    "gunicorn.http.message": ["Request"],
    "gunicorn.http.wsgi": ["Response"],
    "gunicorn.workers": [],
    "gunicorn.workers.base": ["Worker"],
    "gunicorn.workers.sync": ["SyncWorker"],
    "gunicorn.workers.gthread": ["ThreadWorker"],
    "gunicorn.workers.ggevent": ["GeventWorker"],
}


class OfGunicorn:
    """A class of gunicorn's own that annotations may name, and programs may derive from; there is no object of it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            f"gunicorn's {type(self).__name__} has only its name here, for annotations: aserve has processes of its own"
        )


def stand_in(source: bytes) -> None:
    """Put the module into sys.modules, if a file's source names it and it is not installed."""
    if b"gunicorn" not in source or "gunicorn" in sys.modules or importlib.util.find_spec("gunicorn") is not None:
        return
    module = ModuleType("gunicorn")
    software = f"gunicorn/{'.'.join(map(str, VERSION))}"
    vars(module).update(
        __path__=[], version_info=VERSION, __version__=software[9:], SERVER="gunicorn", SERVER_SOFTWARE=software
    )
    sys.modules["gunicorn"] = module
    if b"gunicorn." in source:
        sys.modules.update(type_modules(module))
    if b"glogging" in source:
        from . import gunicorn_logger  # with logging.config, 1 MB

        sys.modules["gunicorn.glogging"] = gunicorn_logger
        vars(module)["glogging"] = gunicorn_logger


def type_modules(parent: ModuleType) -> dict[str, ModuleType]:
    """Return the modules of TYPES, by name, within `parent`, the module gunicorn; those that it has stay."""
    modules = {"gunicorn": parent}
    for name, names in TYPES.items():
        module = modules[name] = ModuleType(name)
        vars(module).update({each: type(each, (OfGunicorn,), {"__module__": name}) for each in names}, __path__=[])
        where, _, leaf = name.rpartition(".")
        modules[name] = vars(modules[where]).setdefault(leaf, module)
    return modules
