"""Several apps in one server, each below a path: --mount.

Owns:     the setting; Mounting, which refuses the setting in a program.
Thread:   see Extension.
Not here: loading the apps, and calling the app of a path (lifecycle/mounts.py), PREFIX=WHAT (settings/prefixes.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.patterns import lazy_pattern
from ..extension import Extension
from ..lifecycle.loading import not_loaded
from ..lifecycle.mounts import Mounts
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
