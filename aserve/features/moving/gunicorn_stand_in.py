"""A module `gunicorn` for configurations that import it where it is not installed.

Owns:     stand_in.
Thread:   the main thread.
Not here: the classes of programs (compat/gunicorn/), what a file sets in the module (gunicorn.py).

It has what configurations use: the server's name, which some change, and `gunicorn.glogging.Logger`. Any other import of gunicorn's fails.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

VERSION = (23, 0, 0)  # whose names these are


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
    if b"glogging" in source:
        from . import gunicorn_logger  # with logging.config, 1 MB

        sys.modules["gunicorn.glogging"] = gunicorn_logger
        vars(module)["glogging"] = gunicorn_logger
