"""Files in front of the app: --static.

Owns:     StaticFiles: the file of a path, the response fields, and the requests left to the app.
Thread:   a worker (with --threads 0: the event loop).
Spec:     RFC 9110 sections 9.3, 12.5.3 and 15.5.6; RFC 8615 (.well-known).
Not here: opening a file (opening.py), the response (reply.py), the settings and their grammar (settings.py).

A WSGI app in front of yours: all responses have the same limits, log and time-outs. An open file is sent without a worker thread. To open one takes
a thread for a moment, since disks can be slow, and must not hold up the event loop: while the app uses every thread, files wait, too.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from ...wsgi import WSGIApp
from .codings import ranked
from .conditions import validators_of
from .content_types import content_type, is_compressible
from .opening import FoundFile, ServedFolder
from .reply import Fields, StartResponse, refuse, send_file
from .settings import AddedField, Expiry, FileSettings, parse_added_field, parse_expiry, parse_static

logger = logging.getLogger("aserve")

# Suffixes of compressed siblings, by coding: the usually smallest first.
SUFFIXES = {"br": b".br", "zstd": b".zst", "gzip": b".gz"}
CODINGS = tuple(SUFFIXES)

# The names in a path. None is empty or begins with a dot, the mark of settings and histories, but .well-known, a public name (RFC 8615). A
# backslash separates names on other systems, and no name has a NUL.
_PATH = re.compile(r"(?:/(?:\.well-known|[^/.\\\0][^/\\\0]*))*/?\Z")

METHODS = ("GET", "HEAD")
# RFC 9111 5.2.2.4: revalidated at each use, and answered by 304. Without the field browsers guess, and show old files.
ASK = "no-cache"


def warn_of_missing(config: FileSettings) -> None:
    """Log, once for all processes, the missing folders."""
    paths = [path for _, path in map(parse_static, config.static) if not os.path.exists(path)]
    if paths:
        does = "does not exist; until it does, its" if len(paths) == 1 else "do not exist; until they do, their"
        logger.warning("--static: %s %s requests go to the app", ", ".join(dict.fromkeys(paths)), does)


class StaticFiles:
    """A WSGI app that answers with files; another app answers all other requests."""

    def __init__(self, app: WSGIApp, config: FileSettings) -> None:
        self._app = app
        maps = sorted(map(parse_static, config.static), key=lambda below: -len(below.prefix))
        self._folders = [(prefix, ServedFolder(path, config.static_symlinks)) for prefix, path in maps]
        self._index_names = config.static_index
        self._expiries: list[Expiry] = [parse_expiry(text) for text in config.static_expires]
        self._added: list[AddedField] = [parse_added_field(text) for text in config.static_fields]

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answer with the file of the path, or call the app."""
        path: str = environ["PATH_INFO"]
        for prefix, folder in self._folders:
            if path.startswith(prefix):
                rest = path[len(prefix) :]
                # /static is no prefix of /staticity.
                if (not rest or rest[0] == "/") and _PATH.match(rest):
                    reply = self._reply(folder, rest, environ, start_response)
                    if reply is not None:
                        return reply
        return self._app(environ, start_response)

    def _reply(
        self, folder: ServedFolder, rest: str, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes] | None:
        """Return the response for a file below a folder; None: there is none."""
        names = rest.encode("latin-1").split(b"/")[1:]
        is_read = environ["REQUEST_METHOD"] in METHODS
        if names and not names[-1]:
            index = self._find_index(folder, names[:-1]) if is_read else None
            return self._send(*index, environ, start_response) if index is not None else None
        found = folder.find(names)
        if found is None:
            return None
        if found.is_file and is_read:
            return self._send(found, names[-1].decode("latin-1") if names else folder.path, environ, start_response)
        found.close()
        if found.is_folder:
            return self._redirect(folder, names, environ, start_response) if is_read else None
        allow = [("Allow", ", ".join(METHODS))]
        return refuse(start_response, "405 Method Not Allowed", "a file can only be read", allow)

    def _find_index(self, folder: ServedFolder, names: list[bytes]) -> tuple[FoundFile, str] | None:
        """Return a folder's index file, open, and the name; None: no index."""
        for index in self._index_names:
            found = folder.find([*names, os.fsencode(index)])
            if found is not None:
                if found.is_file:
                    return found, index
                found.close()
        return None

    def _redirect(
        self, folder: ServedFolder, names: list[bytes], environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes] | None:
        """Redirect to the folder's path with a slash, if the folder has an index: the index's relative links need the slash."""
        index = self._find_index(folder, names)
        if index is None:
            return None
        index[0].close()
        # Never //, as the name of another host: no name is empty.
        path = quote(environ["SCRIPT_NAME"] + environ["PATH_INFO"] + "/", encoding="latin-1")
        query = environ.get("QUERY_STRING")
        # Not permanent: a file may replace the folder one day.
        fields = [("Location", f"{path}?{query}" if query else path), ("Cache-Control", ASK)]
        start_response("302 Found", fields)
        return []

    def _send(
        self, found: FoundFile, name: str, environ: dict[str, Any], start_response: StartResponse
    ) -> Iterable[bytes]:
        """Answer with a file; close the file, or hand it over to the response."""
        path = environ["PATH_INFO"]
        fields = [("Content-Type", content_type(name)), ("Cache-Control", self._cache_control(path))]
        if self._added:
            fields = self._with_added(fields, path)
        kind = fields[0][1]
        try:
            if is_compressible(kind):
                # Also without a sibling: one may be added, while caches keep this response.
                fields.append(("Vary", "Accept-Encoding"))
                for coding in ranked(environ.get("HTTP_ACCEPT_ENCODING", ""), CODINGS):
                    if found.take_sibling(SUFFIXES[coding]):
                        fields.append(("Content-Encoding", coding))
                        break
            status = found.status
            return send_file(environ, start_response, found.take_fd(), status.st_size, validators_of(status), fields)
        finally:
            found.close()

    def _with_added(self, fields: Fields, path: str) -> Fields:
        """Return these fields in order, with the fields of --static-fields in place of the same names, or at the end."""
        added: dict[str, tuple[str, str]] = {}
        for pattern, name, value in self._added:
            if pattern is None or pattern.search(path):
                added.setdefault(name.lower(), (name, value))
        return list({**{field[0].lower(): field for field in fields}, **added}.values())

    def _cache_control(self, path: str) -> str:
        for pattern, cache_control in self._expiries:
            if pattern is None or pattern.search(path):
                return cache_control
        return ASK
