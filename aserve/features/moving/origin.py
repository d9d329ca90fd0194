"""The origin of settings, if they are another server's.

Owns:     Origin; the flags --uwsgi-ini and --gunicorn-conf, and `aserve app.ini`.
Thread:   the main thread.
Not here: reading these files (uwsgi.py, gunicorn.py), aserve's own sources (settings/table.py).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, MutableMapping
from typing import Any, NamedTuple

from ...extension import Extension
from ...lifecycle.loading import PASTE
from ...lifecycle.privileges import is_root
from ...settings import ConfigError
from .draft import Draft
from .gunicorn_hooks import GunicornHooks, Hooks
from .uwsgi_files import FORMS, has_section, split_section

logger = logging.getLogger("aserve")

NO_HOOKS = Hooks({}, {})
UWSGI, GUNICORN = "uwsgi_ini", "gunicorn_conf"
FLAGS = {UWSGI: "--uwsgi-ini", GUNICORN: "--gunicorn-conf"}


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
        return (GunicornHooks(self.hooks),) if self.hooks is not NO_HOOKS else ()

    def log_notes(self) -> None:
        """Log the settings without effect here, or with another one."""
        for note in self.draft.notes:
            logger.warning("%s", note)


def take_flags(given: MutableMapping[str, Any]) -> dict[str, str]:
    """
    Take the flags that name other servers' files out of `given`; an APP that is a file of uWSGI counts as one.

    --paste becomes an APP.

    Raises:
        ConfigError: both are given; or --paste and an APP are; or the APP is an ini file that is not uWSGI's.
    """
    flags = {name: str(given.pop(name)) for name in FLAGS if name in given}
    if "paste" in given:
        if "app" in given:
            raise ConfigError(f"--paste and {given['app']!r}: one of them names the app")
        given["app"] = f"{PASTE}{os.path.abspath(given.pop('paste'))}"
    app = given.get("app")
    if isinstance(app, str) and not flags:
        if is_uwsgi_file(app):
            flags[UWSGI] = str(given.pop("app"))
        elif app.endswith(".ini") and not app.startswith(PASTE):
            found = (
                "has no section [uwsgi]; one of PasteDeploy's is given to --paste"
                if os.path.exists(app)
                else "is not there"
            )
            raise ConfigError(f"the file {app} {found}")
    if len(flags) > 1:
        raise ConfigError(f"{' and '.join(FLAGS.values())}: one of them at a time")
    return flags


def is_uwsgi_file(app: str) -> bool:
    """Whether the APP is a configuration of uWSGI, as in `uwsgi app.ini`."""
    path = app if os.path.exists(app) else split_section(app)[0]
    form = FORMS.get(os.path.splitext(path)[1].lower())
    return form is not None and os.path.isfile(path) and (form != "ini" or has_section(path))


def read_origin(flags: Mapping[str, str], environ: Mapping[str, str]) -> Origin | None:
    """
    Read the files that these flags name; None: they name none.

    Raises:
        ConfigError: a file cannot be read, or a value is wrong.
    """
    if GUNICORN in flags:
        from .gunicorn import load_gunicorn

        return Origin(*load_gunicorn(flags[GUNICORN], environ))
    if UWSGI not in flags:
        return None
    from .uwsgi import load_uwsgi

    draft = load_uwsgi(flags[UWSGI], environ)
    if not is_root():
        for key in ("user", "group"):
            draft.drop(key, "only root may become another; as in uWSGI, it has no effect")
    return Origin(draft)
