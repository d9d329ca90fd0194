"""Several apps in one server, each below a path: --mount.

Owns:     Mounts, an app that calls the app of a path; loading them; nothing_here, the main app if none was named.
Thread:   loading: any, before the server starts; calling: a worker (with --threads 0: the event loop).
Spec:     PEP 3333 "environ Variables": SCRIPT_NAME and PATH_INFO.
Not here: importing an app (lifecycle/loading.py), PREFIX=WHAT (settings/prefixes.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Callable

from ..core.patterns import lazy_pattern
from ..extension import Extension
from ..lifecycle.loading import load_app, not_loaded, whole_spec
from ..settings import ConfigError, EngineSettings, row
from ..settings.kinds import Kind, show_texts
from ..settings.prefixes import Below, parse_below, parsed_texts
from ..settings.secrecy import show_app
from ..wsgi import WSGIApp

_APP = lazy_pattern(r"[^\s=:]+(:.+)?\Z")


def parse_mount(text: str) -> Below:
    """
    Parse `PREFIX=module:app`.

    Raises:
        ValueError: the text has another form.
    """
    below = parse_below(text)
    if not _APP.match(below.what):
        raise ValueError(f"{show_app(below.what)!r} is not an app, such as shop.admin:app")
    return below


def _parse_mounts(value: object) -> tuple[str, ...]:
    texts = parsed_texts(value, parse_mount)
    prefixes = [parse_mount(text).prefix for text in texts]
    for prefix in prefixes:
        if prefixes.count(prefix) > 1:
            raise ValueError(f"{prefix or '/'} is named twice")
    return texts


MOUNTS = Kind(
    "PREFIX=APP",
    "a path's beginning and an app, as in /admin=shop.admin:app; in a variable one to a line",
    _parse_mounts,
    show_texts,
)


class MountSettings(EngineSettings):
    """The settings of this feature."""

    # fmt: off
    mount: Sequence[str] = row(
        (), "Files and mounts", "--mount", MOUNTS,
        "another app for requests below a path; repeatable, the longest wins; see `aserve docs files`",
        "A single app serves most sites. Other requests go to the APP; without an APP the answer is 404.",
        secret=show_app,
    )
    # fmt: on

    @property
    def mounted(self) -> Sequence[Below]:
        """The prefixes, and the apps below them."""
        return [*map(parse_mount, self.mount)]


class Mounts:
    """A WSGI app of several: the longest prefix wins; requests below no prefix go to the main app."""

    def __init__(self, apps: Iterable[tuple[str, WSGIApp]], main: WSGIApp) -> None:
        self._apps = sorted(apps, key=lambda pair: -len(pair[0]))
        self.main = main

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Call the app of the path, with the prefix moved to SCRIPT_NAME."""
        path: str = environ["PATH_INFO"]
        for prefix, app in self._apps:
            if path.startswith(prefix):
                rest = path[len(prefix) :]
                # /admin is no prefix of /administration.
                if not rest or rest[0] == "/":
                    environ["SCRIPT_NAME"] += prefix
                    environ["PATH_INFO"] = rest
                    return app(environ, start_response)
        return self.main(environ, start_response)


def load_with_mounts(texts: Sequence[str], load_main: Callable[[], WSGIApp]) -> WSGIApp:
    """
    Import the main app, and those of the setting `mount`; return an app in front of them, or the main app if alone.

    Raises:
        LoadError: there is no such app, or the app's code raised.
    """
    mounts = [(prefix, whole_spec(spec)) for prefix, spec in map(parse_mount, texts)]
    main = load_main()
    return Mounts([(prefix, load_app(spec)) for prefix, spec in mounts], main) if mounts else main


def nothing_here(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Answer 404: the path is neither a file nor below a mount, and no APP was named."""
    start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
    return [b"404: nothing is served at this path\n"]


class Mounting(Extension[MountSettings]):
    """--mount; an error in a program, where the command does not load the apps."""

    switches = ("mount",)

    def wrap_app(self, app: WSGIApp) -> WSGIApp:
        """
        Return the app, with the mounted apps already loaded by the command.

        Raises:
            ConfigError: there is no command: a program runs the server.
        """
        if type(app) is not Mounts and app is not not_loaded:
            raise ConfigError(
                "--mount is the command's, which imports the apps; in a program give the server one that calls them, such as "
                "werkzeug's DispatcherMiddleware"
            )
        return app
