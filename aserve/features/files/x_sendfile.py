"""Files named by the app in place of a body: --x-sendfile.

Owns:     XSendfile, a WSGI app in front of yours, which sends the file that the app names in X-Sendfile or X-Accel-Redirect.
Thread:   a worker (with --threads 0: the event loop).
Spec:     none; Apache's mod_xsendfile and nginx's X-Accel-Redirect.
Not here: opening the file (opening.py), the response (reply.py), the setting's grammar (settings.py).
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote_to_bytes

from ...wsgi import WSGIApp
from ...wsgi.returned import close, iterate
from .conditions import Validators, is_tag, parse_date, validators_of
from .content_types import content_type
from .opening import FoundFile, ServedFolder
from .reply import Fields, StartResponse, refuse, send_file, send_whole
from .settings import FileSettings, parse_sent

logger = logging.getLogger("aserve")

SENDFILE, REDIRECT = "x-sendfile", "x-accel-redirect"
# Fields about the app's own body, or made for the file.
_DROPPED = frozenset(
    ("content-length", "content-range", "accept-ranges", "transfer-encoding", "etag", "last-modified", SENDFILE)
)


class XSendfile:
    """A WSGI app that sends a file in place of the app's body."""

    def __init__(self, app: WSGIApp, config: FileSettings) -> None:
        self._app = app
        sent = [parse_sent(text) for text in config.x_sendfile]
        self._folders = [(prefix, ServedFolder(path, config.static_symlinks)) for prefix, path in sent]
        # Without a prefix X-Accel-Redirect is for a front server: pass the field on.
        has_prefix = any(prefix is not None for prefix, _ in sent)
        self._names = frozenset((SENDFILE, REDIRECT) if has_prefix else (SENDFILE,))

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answer as the app does, or with the file named by the app."""
        start = _Start(start_response, self._names)
        iterable = self._app(environ, start)
        if not start.is_called:
            iterable = _begin(iterable)
        if start.named is None:
            return iterable
        close(iterable)
        status, fields, start_response = start.status, start.fields, start.begin
        found = self._find(*start.named)
        if found is None:
            logger.error("--x-sendfile: %s %r of the app is no file in the folders of --x-sendfile", *start.named)
            return refuse(start_response, "404 Not Found", "there is no such file")
        try:
            return _reply(environ, start_response, status, fields, found, start.named[1])
        finally:
            found.close()

    def _find(self, name: str, value: str) -> FoundFile | None:
        """Open the file of a field; None: no such file, or not for sending."""
        octets = value.strip().encode("latin-1")
        if name == REDIRECT:
            octets = unquote_to_bytes(octets.partition(b"?")[0])
        path = os.path.normpath(octets)
        if not path.startswith(b"/") or b"\0" in path:
            return None
        for prefix, folder in self._folders:
            if name == REDIRECT:
                roots = [] if prefix is None else [prefix.encode("latin-1")]
            else:
                # The app may have resolved the links in the path.
                roots = [os.fsencode(folder.path), os.fsencode(os.path.realpath(folder.path))]
            for root in roots:
                if path == root or path.startswith(root + b"/"):
                    found = folder.find(path[len(root) + 1 :].split(b"/") if path != root else [])
                    if found is not None:
                        if found.is_file:
                            return found
                        found.close()
        return None


class _Start:
    """The app's start_response, with a search for a field about a file."""

    def __init__(self, start_response: StartResponse, names: frozenset[str]) -> None:
        self._start_response = start_response
        self._names = names
        self.is_called = False
        self.named: tuple[str, str] | None = None  # a field's name in lower case, and the value
        self.status = ""
        self.fields: Fields = []
        self._exc_info: tuple[Any, ...] = ()

    def begin(self, status: str, fields: Fields) -> Any:
        """Start the response in the app's place, at a restart with the app's exc_info."""
        exc_info, self._exc_info = self._exc_info, ()  # the traceback holds the app's frames
        return self._start_response(status, fields, *exc_info)

    def __call__(self, status: str, fields: Fields, *exc_info: Any) -> Any:
        self.is_called = True
        try:
            named = [(name.lower(), value) for name, value in fields if name.lower() in self._names]
        except (TypeError, ValueError, AttributeError):
            named = []  # the server reports the error in them
        self.named = named[0] if named else None
        if self.named is None:
            return self._start_response(status, fields, *exc_info)
        self.status, self.fields, self._exc_info = status, list(fields), exc_info
        return _drop


def _drop(octets: bytes) -> None:
    """Take the place of write(): discard, since the file is the body."""


def _begin(iterable: Iterable[bytes]) -> Iterable[bytes]:
    """Take the first item: some apps call start_response only then."""
    begun = _Begun(iterable)
    try:
        begun.step()
    except BaseException:
        begun.close()
        raise
    return begun


class _Begun:
    """An iterable whose first item has been taken."""

    def __init__(self, iterable: Iterable[bytes]) -> None:
        self._iterable = iterable
        self._rest: Iterator[bytes] = iter(())
        self._first: list[bytes] = []

    def step(self) -> None:
        """Take the first item."""
        self._rest = iterate(self._iterable)
        self._first = list(itertools.islice(self._rest, 1))

    def __iter__(self) -> Iterator[bytes]:
        yield from self._first
        yield from self._rest

    def close(self) -> None:
        """Close the app's iterable."""
        close(self._iterable)


def _reply(
    environ: dict[str, Any], start_response: StartResponse, status: str, fields: Fields, found: FoundFile, named: str
) -> Iterable[bytes]:
    """Answer with the file, and with the app's other fields."""
    said = {name.lower(): value for name, value in fields}
    kept = [(name, value) for name, value in fields if name.lower() not in _DROPPED and name[:8].lower() != "x-accel-"]
    if "content-type" not in said:
        kept.append(("Content-Type", content_type(named.partition("?")[0])))
    size, own = found.status.st_size, validators_of(found.status)
    if status[:3] != "200" or environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
        return send_whole(environ, start_response, found.take_fd(), size, status, kept)
    # The app's validators win: the app's tag may belong to a document copied into this file.
    etag = said.get("etag", "").strip()
    date = parse_date(said.get("last-modified", ""))
    validators = Validators(etag if is_tag(etag) else own.etag, own.modified if date is None else date)
    return send_file(environ, start_response, found.take_fd(), size, validators, kept)
