"""Another server's settings below aserve's own sources: whose value counts.

Owns:     merge: the values of all sources, with a note of each setting of the other server that gives way; sources_of.
Thread:   the main thread.
Not here: the order of aserve's own sources (settings/sources.py), reading the other server's (uwsgi.py, gunicorn.py).

aserve's own sources win, as everywhere. But a value of the lists JOINED stays when a source adds to its list: a route may guard the app, and
one more route on the command line must not remove it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...features import SETTINGS, Config
from ...settings import Setting, parse_bind
from ...settings.sources import Own
from .draft import Draft, Given, Note

# Lists whose values come first, before those of aserve's own sources. Of one variable in `env` the last value counts.
JOINED = ("route", "env", "add-field")


def merge(draft: Draft, settings: Mapping[str, Any], own: Own) -> dict[str, Any]:
    """
    Return the values of all sources, by the names of settings; note which of the draft's give way. `settings`: those of the draft that count.

    Raises:
        ConfigError: an unknown name or a wrong value in one of aserve's own sources.
    """
    values = Config.merged(own.given, own.environ, {**settings, **own.toml}, own.toml_name)
    for setting in SETTINGS:
        source = own.source_of(setting)
        if source and setting.key in settings:
            theirs = setting.parse(settings[setting.key], setting.key)
            is_joined = setting.key in JOINED
            if is_joined:
                values[setting.name] = (*theirs, *values[setting.name])
            if is_joined or theirs != values[setting.name]:
                _note(draft, setting, f"{source} comes after it" if is_joined else f"{source} wins")
    _set_rights(draft, values)
    return values


def _note(draft: Draft, setting: Setting, text: str) -> None:
    notes = [Note(given.where, str(given), text) for given in draft.whence[setting.key] if given.where]
    draft.replaced += dict.fromkeys(notes)  # each once


def _set_rights(draft: Draft, values: dict[str, Any]) -> None:
    """Give a unix socket of aserve's own sources the rights that the other server's umask gives to its own."""
    rights: Mapping[str, tuple[Any, Given]] = draft.facts.get("rights", {})
    if any(parse_bind(text).kind == "unix" for text in values.get("bind", ())):
        for setting in SETTINGS:
            if setting.key in rights and setting.name not in values:
                values[setting.name] = setting.parse(rights[setting.key][0], setting.key)


def sources_of(draft: Draft, setting: Setting, own: Own) -> str:
    """Return where a value comes from, for messages; "": it is in no source."""
    source, places = own.source_of(setting), draft.whence.get(setting.key, [])
    if source and setting.key not in JOINED:
        return source
    theirs = dict.fromkeys(given.where or draft.name for given in places)
    return " and ".join([", ".join(theirs), source] if theirs and source else [", ".join(theirs) or source])
