"""The origin of settings, if they are another server's.

Owns:     Origin; read_origin.
Thread:   the main thread.
Not here: the flags and names of these files (naming.py), reading them (uwsgi.py, gunicorn.py), aserve's own sources (settings/table.py).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ...core.named_tuple import NamedTuple
from ...extension import Extension
from ...lifecycle.privileges import is_root
from ...settings import ConfigError, Setting
from ...settings.sources import Own
from ...wsgi import WSGIApp
from .draft import Draft, Note
from .gunicorn_hooks import GunicornHooks, Hooks
from .lines import LINES
from .merging import merge, sources_of
from .naming import GUNICORN, PROGRAM, UWSGI
from .settings import MovingSettings
from .unix_rights import drop_accounts, is_account

logger = logging.getLogger("aserve")

NO_HOOKS = Hooks({}, None)


class Origin(NamedTuple):
    """The settings of another server, and what else its files define."""

    draft: Draft
    hooks: Hooks = NO_HOOKS  # of gunicorn's configuration

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of aserve, by their TOML keys."""
        return self.draft.settings

    @property
    def options(self) -> Mapping[str, Any]:
        """Return the value of `uwsgi.opt` for the app."""
        options: Mapping[str, Any] = self.draft.facts.get("options", {})
        return options

    @property
    def extensions(self) -> tuple[Extension[Any], ...]:
        """Return the extensions that these settings need."""
        logs = self.draft.facts.get("logs")
        found: list[Extension[Any]] = [logs.extension] if logs is not None else []
        if self.hooks is not NO_HOOKS:
            found.append(GunicornHooks(self.hooks))
        return (*found, *self.draft.facts.get("extensions", ()))

    def wrap(self, app: WSGIApp) -> WSGIApp:
        """Return the app with what the other server's settings put around it."""
        logs = self.draft.facts.get("logs")
        wrapped: WSGIApp = logs.wrap(app) if logs is not None else app
        return wrapped

    def settings_beside(self, flags: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that go with these flags of aserve: --reload, for development, imports the app in each worker."""
        is_default = any(not given.where for given in self.draft.whence.get("preload", ()))
        left_out = ("preload",) if is_default and flags.get("reload") else ()
        return {key: value for key, value in self.settings.items() if key not in left_out}

    def merge(
        self, given: Mapping[str, Any], environ: Mapping[str, str], toml: Mapping[str, Any], toml_name: str
    ) -> dict[str, Any]:
        """Return the values of all sources, aserve's own included; see merging.merge."""
        return merge(self.draft, self.settings_beside(given), Own(given, environ, toml, toml_name))

    def source_of(self, setting: Setting, own: Own) -> str:
        """Return where the value of a setting comes from; see merging.sources_of."""
        return sources_of(self.draft, setting, own)

    def check_guards(self, dropped_guards: str) -> None:
        """
        Refuse a file with a rule that keeps clients from the app, and that has no effect here, unless --dropped-guards says otherwise.

        Raises:
            ConfigError: there are such rules; a line for each.
        """
        lines = list(dict.fromkeys(map(str, self.draft.guards)))
        if lines and dropped_guards == "refuse":
            which = "it" if len(lines) == 1 else "them"
            raise ConfigError("\n".join(lines) + f". --dropped-guards warn serves the app without {which}")

    def note_proxies(self, config: MovingSettings) -> None:
        """Note that X-Forwarded-* of any client count, as in uWSGI, if no proxy is named."""
        given = next((one for one in self.draft.facts.get("socket", ()) if one.key.startswith("http")), None)
        if given is not None and config.environ_as == "uwsgi" and not config.trusted_proxies:
            self.draft.note(
                given,
                "X-Forwarded-* of any client reach the app, and X-Forwarded-Proto is the scheme, as in uWSGI; "
                "--trusted-proxies ADDRESS believes those of your proxy alone, and --environ-as aserve removes all",
            )

    def log_notes(self) -> None:
        """Log the settings without effect here, or with another one; and those that give way to aserve's own sources."""
        for note in sorted(self.draft.notes, key=Note.place):
            logger.warning("%s", note)
        for note in self.draft.replaced:
            logger.info("%s", note)


def read_origin(flags: Mapping[str, Any], environ: Mapping[str, str]) -> Origin | None:
    """
    Read the files and command lines that these flags name; None: they name none.

    Raises:
        ConfigError: a file cannot be read, or a value is wrong.
        LoadError: the code of a file, or of a class that it names, has raised.
    """
    if PROGRAM in flags:
        from .gunicorn_programs import load_program

        return _of_gunicorn(*load_program(flags[PROGRAM], environ))
    if GUNICORN in flags or LINES["gunicorn"] in flags:
        from .gunicorn import load_gunicorn

        return _of_gunicorn(*load_gunicorn(flags.get(GUNICORN, ""), environ, flags.get(LINES["gunicorn"])))
    if UWSGI not in flags and LINES["uwsgi"] not in flags:
        return None
    from .uwsgi import load_uwsgi

    draft = load_uwsgi(flags.get(UWSGI, ""), environ, flags.get(LINES["uwsgi"]))
    if not (is_root() or is_account(draft)):
        drop_accounts(draft, "only root may become another; as in uWSGI, it has no effect")
    return Origin(draft)


def _of_gunicorn(draft: Draft, hooks: Hooks) -> Origin:
    if "logs" in draft.facts:
        draft.facts["logs"].find()
        draft.facts["logs"].take_requests(draft)
    return Origin(draft, hooks)
