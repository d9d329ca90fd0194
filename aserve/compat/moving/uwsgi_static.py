"""uWSGI's static files: its folders, their index, types, and how long clients may keep files.

Owns:     place_files; options that keep files from clients there, and not here, as guards.
Thread:   any.
Not here: the other options (uwsgi.py), serving files (features/files/).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from ...settings.kinds import YEAR_SECONDS
from .draft import Draft, Given, check, is_number
from .uwsgi_files import read_text
from .uwsgi_values import text_of

MOST_TYPES = 50  # of an own file; a longer one is a system's, and aserve knows its types. Guess.


def place_files(draft: Draft, folder: str) -> None:
    """Add the folders of static files; a wrong one is a note, and no error: the app can be served without it."""
    for given in draft.facts.get("static", ()):
        prefix, _, path = (part.strip() for part in text_of(given).rpartition("="))
        prefix = prefix.strip("/")
        if given.key == "static-map2":
            path = os.path.join(path, prefix)
        _add_or_note(draft, "static", f"/{prefix}={os.path.join(folder, path)}", given)
    _guard_files(draft)
    for given in draft.facts.get("static-index", ()):
        _add_or_note(draft, "static-index", text_of(given), given)
    if "static" in draft.settings:
        draft.default("static-index", [], "uWSGI has a folder's index sent only with static-index")
    for given in draft.facts.get("static-expires", ()):
        *pattern, seconds = text_of(given).split() or [""]
        if given.key == "static-expires":  # a pattern of the file's path there, and of the request's here
            pattern = [_of_requests(part, draft.settings.get("static", ())) for part in pattern]
        if is_number(seconds) and int(seconds) > YEAR_SECONDS:  # 31557600 is a year, too, as many files have it
            seconds = f"{YEAR_SECONDS:.0f}"
        _add_or_note(draft, "static-expires", " ".join([*pattern, seconds]), given)

    if "static" in draft.settings:
        for given in draft.facts.get("types", ()):
            _add_types(draft, given)


def _guard_files(draft: Draft) -> None:
    has_files = "static" in draft.settings
    for given in draft.facts.get("static-skip-ext", ()) if has_files else ():
        draft.guard(given, "aserve serves files of all names: keep those out of the folders of static-map")
    for given in draft.facts.get("chroot", ()):
        if has_files:
            draft.guard(given, "folders of static-map are below that root there, and here they are the machine's")
        else:
            draft.note(given, "it has no effect here: systemd does it: `RootDirectory=`")


def _add_types(draft: Draft, given: Given) -> None:
    """Add the types of a file in the form of mime.types."""
    try:
        lines = [line.partition("#")[0].split() for line in read_text(text_of(given)).splitlines()]
    except (OSError, ValueError) as fault:
        draft.note(given, f"it has no effect here: it cannot be read: {getattr(fault, 'strerror', fault)}")
        return
    pairs = [(kind, ending) for kind, *endings in filter(None, lines) for ending in endings]
    for kind, ending in pairs if len(pairs) <= MOST_TYPES else ():
        _add_or_note(draft, "static-fields", rf"\.{re.escape(ending)}$ Content-Type: {kind}", given)


def _of_requests(pattern: str, maps: Sequence[str]) -> str:
    """Return a pattern of files' paths as one of requests' paths, if it begins with a folder of static files."""
    begin = pattern[:1] if pattern[:1] == "^" else ""
    for each in maps:
        prefix, _, folder = each.partition("=")
        if pattern[len(begin) :].startswith(folder.rstrip("/")):
            return f"{begin}{prefix.rstrip('/')}{pattern[len(begin) + len(folder.rstrip('/')) :]}"
    return pattern


def _add_or_note(draft: Draft, key: str, value: str, given: Given) -> None:
    try:
        check(key, [value])
    except ValueError as fault:
        draft.note(given, f"it has no effect here: {fault}")
    else:
        draft.add(key, value, given)
