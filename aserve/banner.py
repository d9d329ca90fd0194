"""What the command says of itself, and of what it serves.

Owns:     the line of --version, the text of --check, the command's own name for hints.
Thread:   the main thread.
Not here: the log (logs.py), what a running server answers (processes/answers.py), settings one by one (explain.py).
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from importlib.util import find_spec

from .compressors import find_codings
from .layers import nothing_here
from .mounts import Mounts
from .settings import VERSION, Config, parse_bind

LOOP_THREAD = "0, the app runs on the event loop's thread"


def command() -> str:
    """Return what to type for this command: its path, if it is not on PATH."""
    return "aserve" if shutil.which("aserve") else f"{os.path.dirname(sys.executable)}/aserve"


def version_line() -> str:
    """Return which aserve this is, on which Python, with which event loop."""
    from importlib.metadata import version  # 12 ms on CPython 3.11, for this flag only

    loop = "asyncio"
    if find_spec("uvloop"):
        loop = f"uvloop {version('uvloop')}"
    return f"aserve {VERSION} on {platform.python_implementation()} {_python_version()}, {loop}"


def _python_version() -> str:
    pypy = getattr(sys, "pypy_version_info", None)
    own = f" ({'.'.join(map(str, pypy[:3]))})" if pypy else ""
    return platform.python_version() + own


def describe(config: Config, app: object, spec: str | None) -> str:
    """Return what would be served, for --check."""
    app = app.main if type(app) is Mounts else app
    kind = type(app)
    what = "a function" if kind.__name__ == "function" else f"{kind.__module__}.{kind.__qualname__}"
    name = spec or ("none" if app is nothing_here else "the demo app")
    lines = [f"app:     {name} ({what})"]
    lines += [f"mount:   {text}" for text in config.mount] + [f"static:  {text}" for text in config.static]
    if config.compress:
        lines.append(f"compress: {', '.join(find_codings())}")
    lines += [f"bind:    {_where(bind)}" for bind in config.bind]
    lines.append(f"threads: {config.threads or LOOP_THREAD}")
    return "\n".join([*lines, "All is well; without --check this would be served.", ""])


def _where(bind: str) -> str:
    if parse_bind(bind).is_given:
        return str(parse_bind(bind))
    if bind.startswith("https://"):
        return bind.partition("?")[0]
    if bind.startswith("unix:") or "://" in bind:
        return bind
    return f"http://{bind}" if bind[0] != ":" else f"port {bind[1:]} of all interfaces"
