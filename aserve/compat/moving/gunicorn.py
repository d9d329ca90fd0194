"""Turns a configuration of gunicorn into settings of aserve.

Owns:     load_gunicorn, and its halves, read_settings and put_together: executing the file, the order of sources, rules over several settings,
          gunicorn's own defaults.
Thread:   the main thread: the file is code, and runs in the process that reads it, again at each reload.
Spec:     gunicorn/app/base.py: the file first, GUNICORN_CMD_ARGS over it, and the command line over both.
Not here: the translation of each setting (gunicorn_table.py), flags (gunicorn_flags.py), hooks (gunicorn_hooks.py).
"""

from __future__ import annotations

import ast
import contextlib
import importlib.machinery
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from ...core.errors import USAGE_ERROR
from ...lifecycle.load_error import LoadError
from ...lifecycle.loading import PASTE
from ...settings import ConfigError, platform_settings
from .draft import Draft, Given, Note, refusing
from .guests import hosting, importing_from
from .gunicorn_cfg import Cfg
from .gunicorn_flags import VARIABLE, WHERE, read_line, read_variable
from .gunicorn_guards import note_guards
from .gunicorn_hooks import IN_SUPERVISOR, IN_WORKER, Hooks, does_nothing
from .gunicorn_stand_in import stand_in
from .gunicorn_table import DAY, TABLE, meant_by
from .gunicorn_values import ACCESS_FORMAT, is_unset, number, place_of, texts, whole
from .unix_rights import put_rights
from .uwsgi_values import MAX_THREADS

DEFAULT_FILE = "./gunicorn.conf.py"  # read with gunicorn's command line, if it is there
TRUSTED = ["127.0.0.1", "::1", "unix"]  # gunicorn's default of forwarded_allow_ips
MOST_THREADS = 4096
SYSLOG = "udp://localhost:514"  # gunicorn's default of syslog_addr
GREENLETS = ("gevent", "eventlet", "tornado", "gaiohttp", "meinheld")


def load_gunicorn(path: str, environ: Mapping[str, str], line: Sequence[str] | None = None) -> tuple[Draft, Hooks]:
    """
    Execute a configuration, and read GUNICORN_CMD_ARGS; an empty path: only the latter. `line`: a command line over both.

    Raises:
        ConfigError: it cannot be read, or a value is wrong.
        LoadError: its code has raised.
    """
    draft = Draft(path or VARIABLE)
    arguments = line if line is not None else ["-c", path] if path else []
    draft.put("argv", ["gunicorn", *arguments], Given("gunicorn's command line", "", ""))
    return put_together(draft, read_settings(draft, path, environ, line), environ)


def read_settings(
    draft: Draft, path: str, environ: Mapping[str, str], line: Sequence[str] | None = None
) -> dict[str, Given]:
    """Return the settings of all sources, see load_gunicorn, by their names; mistakes of a command line go to the draft."""
    words = read_variable(environ.get(VARIABLE, ""), draft)
    if line is not None:
        draft.name = WHERE
        words += read_line(line, draft)
    named = [given.value for given in words if given.key == "config"]
    path = path or (named[-1] if named else DEFAULT_FILE if line is not None and os.path.exists(DEFAULT_FILE) else "")
    settings: dict[str, Given] = {}
    if path:
        draft.name = path if line is None else draft.name
        settings.update(_execute(path, draft))
    settings.update({given.key: given for given in words if given.key != "config"})
    return settings


def put_together(draft: Draft, settings: Mapping[str, Given], environ: Mapping[str, str]) -> tuple[Draft, Hooks]:
    """
    Turn gunicorn's settings into ours.

    Raises:
        ConfigError: a value is wrong.
    """
    for given in settings.values():
        with draft.gathering():
            _take(draft, given)
    with draft.gathering():
        _finish(draft, environ)
    draft.raise_mistakes()
    cfg = Cfg()
    for given in settings.values():
        cfg.set(given.key, given.value)
    functions = {name: draft.facts[name].value for name in (*IN_SUPERVISOR, *IN_WORKER) if name in draft.facts}
    functions = {name: function for name, function in functions.items() if not does_nothing(function)}
    codes = [getattr(function, "__code__", None) for function in functions.values()]
    cfg.filters_requests = any("access_log" in code.co_names for code in codes if code is not None)
    if cfg.needs_logger:
        from .gunicorn_logs import Logs  # with logging.config, 1 MB

        draft.facts["logs"] = Logs(cfg)
    draft.facts["hooks"] = list(functions)
    return draft, Hooks(functions, cfg)


def _take(draft: Draft, given: Given) -> None:
    row = TABLE.find(given.key)
    assert row is not None
    if row.is_told and (is_unset(given.value) or given.value is False or does_nothing(given.value)):
        return
    draft.take(row, given)


# The file


def _execute(path: str, draft: Draft) -> dict[str, Given]:
    """Execute a configuration; return its settings, with the lines that set them."""
    if path.startswith("python:"):
        with _own_folder():
            return _settings_of(vars(_import(path[len("python:") :])), path, {}, draft)
    path = path[len("file:") :] if path.startswith("file:") else path
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as fault:
        raise ConfigError(f"cannot read gunicorn's configuration {path}: {fault.strerror}") from None
    stand_in(source)
    name, full = "__config__", os.path.abspath(path)  # as gunicorn calls it
    spec = importlib.util.spec_from_file_location(name, full, loader=importlib.machinery.SourceFileLoader(name, full))
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with _own_folder(), _reading(path, "executing"):
        exec(compile(source, path, "exec"), vars(module))  # noqa: S102  # such a file is code
    take_server_name(path, draft)
    return _settings_of(vars(module), path, _lines_of(source), draft)


@contextlib.contextmanager
def _own_folder() -> Iterator[None]:
    """Let a configuration import the app's settings from the current folder, as in gunicorn; be in that folder again afterwards."""
    folder = os.getcwd()
    with importing_from(folder):
        try:
            yield
        finally:
            os.chdir(folder)


@contextlib.contextmanager
def _reading(what: str, doing: str) -> Iterator[None]:
    """Run a configuration's code; turn its LoadError into a ConfigError: settings are wrong, and no retry can help as for an app."""
    try:
        with hosting(what, doing):
            yield
    except LoadError as error:
        error.exit_status = USAGE_ERROR
        if isinstance(error.__context__, ModuleNotFoundError) and "gunicorn" not in str(error.__context__.name):
            error.args = (f"{error}{_needed_by(what, error.__context__)}",)
        raise


def _needed_by(path: str, fault: BaseException) -> str:
    """Return the line of a file that has led to an exception, if it is there."""
    lines = [line for frame, line in traceback.walk_tb(fault.__traceback__) if frame.f_code.co_filename == path]
    return f"; {path}:{lines[-1]} needs the module" if lines else ""


def take_server_name(path: str, draft: Draft, module_name: str = "gunicorn") -> None:
    """Read the server name that a file has set in gunicorn's own module, to hide gunicorn's from clients."""
    module = sys.modules.get(module_name)
    for name in ("SERVER_SOFTWARE", "SERVER"):
        value = getattr(module, name, "gunicorn")
        if isinstance(value, str) and not value.startswith("gunicorn"):
            draft.put("server-name", value, Given(f"gunicorn.{name}", value, path))
            setattr(module, name, "gunicorn")  # the next configuration may not set it


def _import(name: str) -> ModuleType:
    with _reading(name, "importing"):
        return importlib.import_module(name)


def _lines_of(source: bytes) -> dict[str, int]:
    """Return the number of the last line that sets each name, for messages."""
    lines: dict[str, int] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            lines[node.id] = max(lines.get(node.id, 0), node.lineno)
        elif isinstance(node, ast.FunctionDef):
            lines[node.name] = node.lineno
    return lines


def _settings_of(names: Mapping[str, Any], path: str, lines: Mapping[str, int], draft: Draft) -> dict[str, Given]:
    found = {}
    for name, value in names.items():
        where = f"{path}:{lines[name]}" if name in lines else path
        given = Given(name, value, where)
        if TABLE.find(name) is not None and not inspect.ismodule(value):
            found[name] = given
        elif name.islower() and name[0] != "_" and isinstance(value, (bool, int, str, float)):
            near = meant_by(name)
            if near is not None and near not in names:
                row = TABLE.find(near)
                given = given._replace(is_secret=row is not None and row.is_secret)
                draft.note(given, f"gunicorn has no such setting, and it has no effect; is {near} meant?")
    return found


# Rules over several settings


def _finish(draft: Draft, environ: Mapping[str, str]) -> None:
    facts = draft.facts
    folder = ""
    if "python-path" in draft.settings:  # the last comes first, and the app's folder behind all, as there
        draft.settings["python-path"].reverse()
        draft.add("python-path", ".", draft.whence["python-path"][0])
    if "chdir" in facts and not is_unset(facts["chdir"].value):
        folder = os.path.abspath(str(facts["chdir"].value))
        draft.put("chdir", folder, facts["chdir"])
        draft.add("python-path", os.getcwd(), facts["chdir"])  # the app may import from there, too, as in gunicorn
    for key in facts.get("paths", ()):
        if draft.settings[key] != "-":
            draft.settings[key] = os.path.join(folder, draft.settings[key])
    if "touch-reload" in draft.settings:
        draft.settings["touch-reload"] = [os.path.join(folder, path) for path in draft.settings["touch-reload"]]
    if "app" in facts and not is_unset(facts["app"].value):
        name = str(facts["app"].value)
        draft.app, draft.app_whence = name if ":" in name else f"{name}:application", facts["app"]
    elif "paste" in facts and not is_unset(facts["paste"].value):
        draft.app, draft.app_whence = f"{PASTE}{os.path.join(folder, str(facts['paste'].value))}", facts["paste"]
    _place_binds(draft, folder, environ)
    _choose_threads(draft)
    _choose_workers(draft, environ)
    _set_rest(draft, environ)
    note_guards(draft)


def _place_binds(draft: Draft, folder: str, environ: Mapping[str, str]) -> None:
    given = draft.facts.get("bind")
    is_proxied = draft.facts.get("proxy_protocol")
    scheme = "https://" if "certificate" in draft.settings else ""
    if is_proxied is not None and is_proxied.value not in (False, None, "", "off"):
        scheme = "proxy+http://"
        draft.note(
            is_proxied,
            "a request without the PROXY line is refused; give health checks one, or a bind of their own: --bind 127.0.0.1:8001",
        )
    if "protocol" in draft.facts and draft.facts["protocol"].value == "uwsgi":
        scheme = "uwsgi://"
    items = texts(given.value) if given is not None else ["127.0.0.1:8000"] if scheme else []
    places = [place_of(item, f"{folder}/" if folder else "") for item in items]
    passed = platform_settings(environ).get("bind")
    if passed is not None and passed.variable == "LISTEN_FDS":
        if given is not None:
            text = "systemd has passed sockets, and they are bound in its place, as by gunicorn"
            draft.replaced.append(Note(given.where, str(given), text))
        given, places = Given("systemd's sockets", "", ""), list(passed.value)
    for place in places:
        draft.add("bind", f"{scheme}{place}", given or Given("gunicorn's default", "", ""))


def _choose_threads(draft: Draft) -> None:
    facts = draft.facts
    given = facts.get("worker_class")
    given = given if given is not None else Given("worker_class", "sync", "")
    # Of a class the names of its bases, too: one of the user's may derive from gevent's.
    name = " ".join(one.__name__ for one in given.value.__mro__) if isinstance(given.value, type) else str(given.value)
    threads = 1
    if "threads" in facts:
        threads = _checked(facts["threads"], whole)
    is_green = any(kind in name.lower() for kind in GREENLETS)
    if is_green:
        connections = _checked(facts["worker_connections"], whole) if "worker_connections" in facts else MAX_THREADS
        threads = max(1, min(connections, MAX_THREADS))
        draft.note(
            given, f"threads = {threads} in its place: aserve runs the app in threads, and the app must not patch them"
        )
    elif "uvicorn" in name.lower() or "asgi" in name.lower():
        draft.note(
            given,
            "such workers serve ASGI apps, and aserve WSGI: name the framework's WSGI app, or wrap it in a2wsgi's ASGIMiddleware",
        )
    elif name.lower().partition(" ")[0].rpartition(".")[2] not in ("sync", "gthread", "syncworker", "threadworker"):
        draft.note(given, "aserve has workers of one kind, which run the app in threads")
    source = given if is_green else facts.get("threads")
    if source is not None:
        bounded = min(threads, MOST_THREADS)
        if bounded != threads:
            draft.note(source, f"more than threads may be; it is {bounded} here")
        draft.put("threads", bounded, source)
    else:
        draft.default("threads", 1, "gunicorn's default; raise it where the app bears that")
    if "timeout" in facts and not is_unset(facts["timeout"].value):
        is_of_one = threads == 1 and not is_green
        with refusing(facts["timeout"]):
            number("request-timeout" if is_of_one else "hang-timeout", 0.0, DAY)(draft, facts["timeout"])


def _choose_workers(draft: Draft, environ: Mapping[str, str]) -> None:
    facts, settings = draft.facts, draft.settings
    if facts.get("preload_app") is not None and facts["preload_app"].value:
        draft.put("preload", True, facts["preload_app"])
    if settings.get("max-requests") and "max_requests_jitter" in facts:
        number("max-requests-jitter", 0, 1_000_000_000)(draft, facts["max_requests_jitter"])
    if sys.platform != "linux":
        for key in ("workers", "preload", "max-requests", "max-requests-jitter", "touch-reload"):
            draft.drop(key, "worker processes need Linux; one process serves")
    elif not environ.get("WEB_CONCURRENCY"):
        draft.default("workers", 1, "gunicorn's default: a master, and one worker")


def _set_rest(draft: Draft, environ: Mapping[str, str]) -> None:
    facts, settings = draft.facts, draft.settings
    line = settings.get("max-request-line", 0)
    if line > settings.get("max-head", 64 << 10):
        draft.put("max-head", line, draft.whence["max-request-line"][0])
    _set_rights(draft, facts.get("umask", Given("umask", 0, "")))
    if "forwarded" not in facts:
        peers = environ.get("FORWARDED_ALLOW_IPS")
        for peer in texts(peers) if peers is not None else TRUSTED:
            draft.add("trusted-proxies", peer, Given("gunicorn's default", "", ""))
    elif "trusted-proxies" in settings and "unix" not in settings["trusted-proxies"]:
        draft.add("trusted-proxies", "unix", Given("gunicorn believes unix sockets, too", "", ""))
    if "syslog" in facts and facts["syslog"].value:
        _put_syslog(draft, facts["syslog"], facts.get("syslog_addr"))
    if "statsd" in settings:
        prefix = str(facts["statsd_prefix"].value or "").strip(".") if "statsd_prefix" in facts else ""
        draft.put("statsd-prefix", ".".join(filter(None, [prefix, "gunicorn"])), draft.whence["statsd"][0])
    if settings.get("access-log"):
        draft.default("access-log-format", ACCESS_FORMAT, "gunicorn's default")
    draft.default("environ-as", "gunicorn", "X-Forwarded-* reach the app as they come, and RAW_URI is there")


def _put_syslog(draft: Draft, given: Given, address: Given | None) -> None:
    """Let the access log go to syslog, where its settings are read without gunicorn's logger, as of a translation."""
    scheme, _, place = str(address.value if address is not None else SYSLOG).partition("://")
    if scheme == "tcp":
        draft.note(address or given, "the access log of aserve goes to syslog by UDP, or by a socket of this machine")
    else:
        draft.put(
            "access-log", f"syslog:udp://{place}" if scheme == "udp" else f"syslog:{place}".partition("#")[0], given
        )


def _set_rights(draft: Draft, given: Given) -> None:
    value = 0 if is_unset(given.value) else given.value
    mask = value if type(value) is int else _checked(given, lambda text: int(_with_o(text), 0))
    put_rights(draft, mask, given)


def _checked(given: Given, read: Any) -> Any:
    with refusing(given):
        value = read(given.value)
        if value < 0:
            raise ValueError(f"{given.value!r} is too small")
        return value


def _with_o(text: str) -> str:
    """Return a number of C, where 007 is octal, as Python's literal."""
    return f"0o{text[1:]}" if text[:1] == "0" and text[1:].isdigit() else text
