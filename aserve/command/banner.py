"""The command's texts about itself, and about what it serves.

Owns:     the line of --version, the text of --check, the command's own name for hints; the banner on a terminal.
Thread:   the main thread.
Not here: the log (lifecycle/logs.py), answers of a running server (processes/answers.py), single settings (explain.py).
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, TextIO

from ..connections.lane.availability import why_python, why_unavailable
from ..core.errors import BindError
from ..extension import ListenerContext
from ..features import Config, extensions_of
from ..lifecycle.mounts import Mounts
from ..proxies.trust import peers_of
from ..settings import VERSION, parse_bind
from ..settings.secrecy import show_app, show_program, show_timed
from ..wsgi.response import CommonFields
from .plans import needs_no_app

PYTHONS = {"cpython": "CPython", "pypy": "PyPy"}
LOOP_THREAD = "0, the app runs on the event loop's thread"
BOLD, DIM, CYAN, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[0m"
FOR_DEVELOPMENT = "saved code is served at once, and tracebacks are shown; do not give --reload to a public server"


def command() -> str:
    """Return how to call this command: by its path, if it is not on PATH."""
    return "aserve" if shutil.which("aserve") else f"{os.path.dirname(sys.executable)}/aserve"


def version_line(reasons: Sequence[str] = ("",)) -> str:
    """
    Return the versions of aserve and Python, the event loop, and whether C serves plain requests (native/README.md).

    `reasons`: of each bind, why Python serves all requests; empty: C serves the plain ones.
    """
    name, version = sys.implementation.name, sys.version.split()[0]
    loop = f"uvloop{_version_of('uvloop')}" if find_spec("uvloop") else "asyncio"
    language, names = "C" if find_spec("aserve._native") else "Python", ", ".join(filter(None, dict.fromkeys(reasons)))
    if names and language == "C":
        language = f"Python ({names})" if all(reasons) else f"C (in Python: {names})"
    native = f", plain requests in {language}" if name == "cpython" else ""  # PyPy needs no C
    return f"aserve {VERSION} on {PYTHONS.get(name, name)} {version}{_own_version()}, {loop}{native}"


def _version_of(package: str) -> str:
    """Return a space and the version of a package; nothing if it is not known. importlib.metadata would take 12 ms (CPython 3.11)."""
    found = find_spec(package)
    if found is None or found.origin is None:  # a folder of that name
        return ""
    folder = os.path.dirname(os.path.dirname(found.origin))
    record = re.compile(rf"{package}-([^-]+)(-py.*)?\.(dist|egg)-info\Z")  # PyPA, "Recording installed projects"
    matches = filter(None, map(record.match, os.listdir(folder)))
    return next((f" {match[1]}" for match in matches), "")


def _own_version() -> str:
    pypy = getattr(sys, "pypy_version_info", None)
    return f" ({'.'.join(map(str, pypy[:3]))})" if pypy else ""


def describe(config: Config, app: object, spec: str | None) -> str:
    """Describe what would be served, for --check."""
    app = app.main if type(app) is Mounts else app
    kind = type(app)
    what = "a function" if kind.__name__ == "function" else f"{kind.__module__}.{kind.__qualname__}"
    name = (spec and show_app(spec)) or ("none" if needs_no_app(config) else "the demo app")
    lines = [f"app:     {name} ({what})"]
    lines += [f"mount:   {show_app(text)}" for text in config.mount] + [f"static:  {text}" for text in config.static]
    if config.compress:
        lines.append(f"compress: {', '.join(config.codings)}")
    lines += [f"bind:    {_where(bind)}" for bind in config.bind] + config.lines_of_check()
    if config.workers is not None:
        most = f", up to {config.max_workers} while all are busy" if config.max_workers else ""
        lines.append(f"workers: {config.workers}{most}")
    lines.append(f"threads: {config.threads or LOOP_THREAD}")
    lines += _beside(config)
    return "\n".join([*lines, "All is well; without --check this would be served.", ""])


def _beside(config: Config) -> list[str]:
    """Return a line for each thing that starts beside the workers: it also starts where the settings are only tried."""
    lines = [f"attach:  {show_program(text)}" for text in config.attach]
    lines += [f"cron:    {show_timed(text)}" for text in config.cron]
    lines += [f"mule:    {text}" for text in config.uwsgi_mule]
    return lines + [f"spooler: {place}" for place in config.spooler]


def _where(bind: str) -> str:
    if parse_bind(bind).is_given:
        return str(parse_bind(bind))
    shown = bind if bind.startswith("unix:") or "://" in bind else f"http://{bind}"
    if bind.startswith("https://"):
        shown = bind.partition("?")[0]
    return f"{shown} (all interfaces)" if "://:" in shown else shown


# At the start


def show_banner(config: Config, spec: str | None, stream: TextIO, environ: Mapping[str, str]) -> None:
    """
    Show what is about to be served, if this is a terminal; elsewhere the log suffices.

    Spec: no-color.org, force-color.org: either variable counts if it is not empty.
    """
    is_forced = bool(environ.get("FORCE_COLOR"))
    if not (is_forced or stream.isatty()):
        return
    has_colors = not environ.get("NO_COLOR") and (is_forced or environ.get("TERM") != "dumb")
    stream.write(banner_of(config, spec, has_colors))
    stream.flush()


def banner_of(config: Config, spec: str | None, has_colors: bool) -> str:
    """Return the banner's lines, aligned."""
    name = (spec and show_app(spec)) or ("none" if needs_no_app(config) else "the demo")
    rows = [("app", name, CYAN), *((("" if i else "at"), _link(bind), BOLD) for i, bind in enumerate(config.bind))]
    rows.append(("with", _describe_threads(config), ""))
    if config.reload:
        rows.append(("for", f"development: {FOR_DEVELOPMENT}", ""))

    def paint(text: str, color: str) -> str:
        return f"{color}{text}{PLAIN}" if has_colors and color else text

    lines = [f"{paint(f'{title:6}', DIM)}{paint(text, color)}" for title, text, color in rows]
    return "\n".join(["", paint(version_line(_why_python(config)), BOLD), *(f"  {line}" for line in lines), "", ""])


def _why_python(config: Config) -> list[str]:
    """Return the `reasons` of version_line."""
    try:
        peers = peers_of(config)
    except BindError:
        peers = None  # the start says that an account does not exist
    flags, extensions, reasons = {one.name: one.flag for one in config.rows()}, extensions_of(config), []
    fields = CommonFields(config.server_name, fields=extensions.fields(is_tls=False))
    for bind in map(parse_bind, config.bind):
        reason = why_unavailable(bind, config, peers) or why_python(config, fields.octets)
        reason = reason or ("--log-level debug" if config.log_level == "debug" else "")
        listener: Any = SimpleNamespace(bind=bind, url=str(bind))
        context = ListenerContext(listener, fields, lambda connection: False)
        reasons.append(reason or flags.get(extensions.wanting_python(context), ""))
    return reasons


def _link(bind: str) -> str:
    """Return a bind as a URL that a browser can open, if there is one."""
    text, parsed = _where(bind), parse_bind(bind)
    if parsed.kind != "tcp" or parsed.protocol not in ("http", "https") or parsed.host not in ("", "0.0.0.0", "::"):
        return text
    return f"{parsed.protocol}://localhost:{parsed.port} (and from elsewhere: all interfaces)"


def _describe_threads(config: Config) -> str:
    threads = f"{config.threads} thread{'' if config.threads == 1 else 's'}" if config.threads else "no threads"
    if config.workers is None:
        return f"one process, {threads}"
    return f"1 worker, {threads}" if config.workers == 1 else f"{config.workers} workers, {threads} each"
