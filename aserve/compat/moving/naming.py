"""Whether another server's settings are named to the command: by a flag, in place of an APP, or as that server's command line.

Owns:     take_flags, is_uwsgi_file: `--uwsgi-ini`, `--gunicorn-conf`, `--paste`, `aserve app.ini`, and `aserve uwsgi ...`.
Thread:   the main thread.
Not here: reading what is named (origin.py), which most starts do not import.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import MutableMapping
from typing import Any

from ...core.patterns import lazy_pattern
from ...lifecycle.loading import PASTE
from ...settings import ConfigError
from .lines import LINES

UWSGI, GUNICORN = "uwsgi_ini", "gunicorn_conf"
PROGRAM = "gunicorn_program"  # not a flag: a program that runs in this process, see gunicorn_programs.py
FLAGS = {UWSGI: "--uwsgi-ini", GUNICORN: "--gunicorn-conf"}
NAMED = {**FLAGS, **{name: word for word, name in LINES.items()}, PROGRAM: "a program for gunicorn"}
SECTION = "uwsgi"
FORMS = {".ini": "ini", ".xml": "xml", ".yml": "yaml", ".yaml": "yaml", ".json": "json", ".js": "json"}

_DERIVES = lazy_pattern(r"^\s*(from|import)\s+(aserve\.compat\.)?gunicorn\.app\b", re.M)


def take_flags(given: MutableMapping[str, Any]) -> dict[str, Any]:
    """
    Take other servers' files and command lines out of `given`; an APP that is a file of uWSGI counts as one.

    --paste becomes an APP.

    Raises:
        ConfigError: several are given; or --paste and an APP are; or the APP is an ini file that is not uWSGI's, or a program for gunicorn.
    """
    flags = {name: given.pop(name) for name in NAMED if name in given}
    if "paste" in given:
        if "app" in given:
            raise ConfigError(f"--paste and {given['app']!r}: one of them names the app")
        given["app"] = f"{PASTE}{os.path.abspath(given.pop('paste'))}"
    app = given.get("app")
    if isinstance(app, str) and not flags:
        if is_uwsgi_file(app):
            flags[UWSGI] = str(given.pop("app"))
        elif app.endswith(".py") and _is_program(app):
            raise ConfigError(
                f"{app} sets gunicorn up by itself: aserve python {app} runs it so, with aserve underneath; {app}:NAME is the app alone"
            )
        elif app.endswith(".ini") and not app.startswith(PASTE):
            found = (
                "has no section [uwsgi]; one of PasteDeploy's is given to --paste"
                if os.path.exists(app)
                else "is not there"
            )
            raise ConfigError(f"the file {app} {found}")
    if len(flags) > 1:
        raise ConfigError(f"{' and '.join(NAMED[name] for name in flags)}: one of them at a time")
    return flags


def is_uwsgi_file(app: str) -> bool:
    """Whether the APP is a configuration of uWSGI, as in `uwsgi app.ini`."""
    path, form = _form_of(app)
    if not os.path.isfile(path) or path.endswith(".py"):
        return False
    return form not in (None, "ini") or has_section(path)  # such as uwsgi.conf


def _is_program(app: str) -> bool:
    """Whether the APP is a file that derives its application from one of gunicorn's, without the name of an app in it."""
    with contextlib.suppress(OSError, UnicodeError), open(app, encoding="utf-8-sig") as file:
        return _DERIVES.search(file.read()) is not None
    return False


def is_configuration(text: str) -> bool:
    """Whether a word names a configuration of uWSGI by its ending, whether or not it is there."""
    return _form_of(text)[1] is not None


def _form_of(text: str) -> tuple[str, str | None]:
    """Return the path of `app.ini` or `app.ini:section`, and its form; None: it has none of uWSGI's endings."""
    path = text if os.path.exists(text) else split_section(text)[0]
    return path, FORMS.get(os.path.splitext(path)[1].lower())


def split_section(text: str) -> tuple[str, str]:
    """Return the path and the section of `app.ini:section`; either may be empty."""
    path, colon, section = text.rpartition(":")
    return (path, section) if colon else (text, "")


def has_section(path: str) -> bool:
    """Whether a file is an ini file of uWSGI, and not of another program."""
    with contextlib.suppress(OSError, UnicodeError), open(path, encoding="utf-8-sig") as file:
        return any(line.strip() == f"[{SECTION}]" for line in file)
    return False
