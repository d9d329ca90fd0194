"""From the vars block to the environ of PEP 3333.

Owns:     the base environ of a listener, and a copy for each exchange; a cache of field sections.
Thread:   `build_base_environ` on the event loop, once a listener;
          `build_environ` in several workers at once: each step on the cache is one operation of a dict.
Spec:     PEP 3333 "environ Variables"; RFC 3875 section 4.1.
Not here: names, HTTP_ prefixes, and fields stopped early (cparsers/vars.c), wsgi.early_hints (response.py), FileWrapper (gateway.py).
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

from ..core.exchange import REQUEST_LINE_COUNT, Exchange, pairs_of

Environ = dict[str, Any]

# Lenient: some proxies send ws and wss for a WebSocket request.
SCHEMES = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
# RFC 3875 4.1: variables guaranteed to an app, for front servers that omit them. HTTP's parsers always write these.
REQUEST_DEFAULTS = {"REQUEST_METHOD": "GET", "QUERY_STRING": "", "SERVER_PROTOCOL": "HTTP/1.1"}
REQUEST_LINE_PARTS = 2 * REQUEST_LINE_COUNT
# A cache by field section, in the text of the vars: a client sends the same section with each request, but for the request's own pairs. The values:
# the base, and the environ last begun from the base, both None before the second; and the section's pairs.
# With a cached section an environ costs 9,100 instructions with Host alone, 11,200 with the thirteen fields of a browser, 10,000 with nginx's
# fields; without, 21,700 and 43,500 (2026-11-23, callgrind, Debian's CPython 3.11).
# nginx's fields; without, 21,700 and 43,500 (2026-11-23, callgrind, Debian's CPython 3.11).
KnownFields = tuple[Any, Any, Any]
UNKNOWN: KnownFields = (None, None, None)
known_fields: dict[str, KnownFields] = {}
_KNOWN_MAX = 256
_KNOWN_FIELDS_SIZE = 2048  # longer ones are not kept: 512 KiB at most, and five times as much for the values
# A section with a name of such an end is not kept: credentials, and fields with a new value in each request.
_NEVER_KEPT = ("AUTHORIZATION\0", "REQUEST_ID\0", "TRACEPARENT\0")
# One name more than the number at which CPython doubles the room of a dict, to 42 names.
ROOM = 22


class ErrorStream(io.TextIOBase):
    """wsgi.errors: text goes to the current sys.stderr."""

    def write(self, text: str) -> int:
        """Write text; no newline is added."""
        return sys.stderr.write(text)

    def writelines(self, lines: Iterable[str]) -> None:  # type: ignore[override]
        """Write each text."""
        sys.stderr.writelines(lines)

    def flush(self) -> None:
        """Flush standard error."""
        sys.stderr.flush()

    def __del__(self) -> None:
        """Do not flush, as IOBase does here: at the interpreter's end this module may have no `sys` any more."""


class BaseEnviron(dict[str, Any]):
    """The part that every environ of one listener shares, or of its clients with one cipher suite; a copy, as clients of trusted proxies have it, is a plain dict."""


def build_base_environ(
    server_name: str,
    server_port: str,
    *,
    server_software: str,
    scheme: str = "http",
    multithread: bool,
    multiprocess: bool = False,
    file_wrapper: Any,
) -> Environ:
    """
    Return the common part of every environ of one listener, with room for the names of a request; see _make_room.
    """
    tls = {"HTTPS": "on"} if scheme == "https" else {}
    base = BaseEnviron(
        {
            **tls,
            **REQUEST_DEFAULTS,
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": scheme,
            "wsgi.errors": ErrorStream(),
            "wsgi.multithread": multithread,
            "wsgi.multiprocess": multiprocess,
            "wsgi.run_once": False,
            "wsgi.input_terminated": True,
            "wsgi.file_wrapper": file_wrapper,
            "SERVER_NAME": server_name,
            "SERVER_PORT": server_port,
            "SERVER_SOFTWARE": server_software,
            "GATEWAY_INTERFACE": "CGI/1.1",
            "SCRIPT_NAME": "",
            "REMOTE_ADDR": "",
            "REMOTE_PORT": "",
            "wsgi.input": None,
        }
    )
    _make_room(base)
    return base


def extend_base(base: Environ, more: dict[str, str]) -> Environ:
    """Return a base environ with further entries, which many clients share."""
    made = BaseEnviron({**base, **more})
    _make_room(made)
    return made


def _make_room(base: Environ) -> None:
    """
    Let copies take the names of a request without growing.

    In CPython a copy of a dict has as much room as the dict: hello takes 940 instructions of 67,000 less (2026-11-22, callgrind, 3.11). Before 3.10
    the copy of a subclass, such as a base, has room only for the present items.
    """
    fillers = [str(number) for number in range(ROOM - len(base))]  # str: a dict that had other keys stays slower
    base.update(dict.fromkeys(fillers))
    for filler in fillers:
        del base[filler]


def build_environ(exchange: Exchange) -> Environ:
    """Return the environ of one exchange: the listener's base, the vars block, client and body."""
    client = exchange.client or exchange.connection
    base: Environ = client.base_environ
    if exchange.is_from_front:
        count = 2 * exchange.own_count
        parts = exchange.vars.split("\0", count)
        fields = parts.pop() if len(parts) > count else ""
        known = known_fields.get(fields, UNKNOWN)
        environ = known[1].copy() if known[0] is base else _begin_environ(exchange, base, fields)
        own = iter(parts)
        environ.update(zip(own, own))
        if "PATH_INFO" not in environ:
            environ["PATH_INFO"] = _derive_path_info(environ)
        script_name = environ["SCRIPT_NAME"]
        if script_name:
            if exchange.is_mounted:
                environ["PATH_INFO"] = strip_script_name(script_name, environ["PATH_INFO"])
            if script_name[-1] == "/":
                _move_slash(environ)
    else:
        parts = exchange.vars.split("\0", REQUEST_LINE_PARTS)
        fields = parts.pop() if len(parts) > REQUEST_LINE_PARTS else ""  # HTTP/1.0 without a field
        known = known_fields.get(fields, UNKNOWN)
        environ = known[1].copy() if known[0] is base else _begin_environ(exchange, base, fields)
        (
            _, environ["REQUEST_METHOD"], _, environ["REQUEST_URI"], _, environ["PATH_INFO"],
            _, environ["QUERY_STRING"], _, environ["SERVER_PROTOCOL"],
        ) = parts  # fmt: skip
        environ["REMOTE_ADDR"] = client.remote_addr
        environ["REMOTE_PORT"] = client.remote_port
    body = exchange.body
    if body is None:
        environ["wsgi.input"] = io.BytesIO()
    else:
        environ["wsgi.input"] = body.open()
        if body.is_chunked and not body.is_live:
            # The framing is gone and the length is known: show the length, as a front server would.
            environ.pop("HTTP_TRANSFER_ENCODING", None)
            environ["CONTENT_LENGTH"] = str(body.length)
    return environ


def build_bodyless_environ(exchange: Exchange) -> Environ:
    """Return the environ of the app, without the body: only the app may open the body."""
    if exchange.body is None:
        return build_environ(exchange)
    bodyless = Exchange(exchange.vars, exchange.own_count)
    bodyless.connection, bodyless.client = exchange.connection, exchange.client
    bodyless.is_from_front, bodyless.is_mounted = exchange.is_from_front, exchange.is_mounted
    return build_environ(bodyless)


def _begin_environ(exchange: Exchange, base: Environ, fields: str) -> Environ:
    """Return the base with a field section; from the second time on keep the result for the next request."""
    environ = base.copy()
    pairs = known_fields.get(fields, UNKNOWN)[2]
    environ.update(pairs if pairs is not None else _read_fields(fields))
    if exchange.is_from_front:
        _complete_front_environ(environ, base)
    if pairs is not None and type(base) is BaseEnviron:  # a client's own base must not outlive the connection
        known_fields[fields] = (base, environ.copy(), pairs)
    return environ


def _read_fields(fields: str) -> dict[str, str]:
    """Return the pairs of a field section, repeated fields joined; keep them for the next request."""
    pairs = pairs_of(fields)
    if 2 * len(pairs) != fields.count("\0") + 1:
        _join_repeated(pairs, fields)
    if len(fields) <= _KNOWN_FIELDS_SIZE and not any(name in fields for name in _NEVER_KEPT):
        if len(known_fields) >= _KNOWN_MAX:
            known_fields.clear()  # there are many clients: the sections in use are added again
        known_fields[fields] = (None, None, pairs)
    return pairs


def _join_repeated(environ: Environ, vars: str) -> None:
    # RFC 9110 5.2-5.3: the values of a repeated field, in order, separated by commas. RFC 6265 5.4: but cookies by semicolons. (Repeats with a
    # danger of smuggling are refused in C.)
    seen: dict[str, str] = {}
    parts = iter(vars.split("\0"))
    for name, value in zip(parts, parts):
        if name in seen and name.startswith("HTTP_"):  # of a front server's own vars the last wins
            value = seen[name] + ("; " if name == "HTTP_COOKIE" else ", ") + value
        seen[name] = value
    environ.update(seen)


def _complete_front_environ(environ: Environ, base: Environ) -> None:
    """Add the variables of PEP 3333 sent by a front server in another form or not at all."""
    get = environ.get
    https = get("HTTPS")
    if https and https.lower() in ("on", "1"):
        environ["wsgi.url_scheme"] = "https"
    else:
        scheme = get("UWSGI_SCHEME") or get("REQUEST_SCHEME") or "http"
        if scheme != "http":
            scheme = SCHEMES.get(get("UWSGI_SCHEME", "")) or SCHEMES.get(get("REQUEST_SCHEME", "")) or "http"
        environ["wsgi.url_scheme"] = scheme
    # nginx and Apache name themselves; an empty name would break URL building in frameworks.
    if not environ["SERVER_NAME"]:
        environ["SERVER_NAME"] = base["SERVER_NAME"]
    if not environ["SERVER_PORT"]:
        environ["SERVER_PORT"] = base["SERVER_PORT"]


def _move_slash(environ: Environ) -> None:
    """Take the last slash off SCRIPT_NAME: with PATH_INFO the two are the URL's path (PEP 3333). Apache sends /app/ and /."""
    environ["SCRIPT_NAME"] = environ["SCRIPT_NAME"].rstrip("/")
    if environ["PATH_INFO"][:1] != "/":
        environ["PATH_INFO"] = "/" + environ["PATH_INFO"]


def _derive_path_info(environ: Environ) -> str:
    """Return the part behind SCRIPT_NAME in DOCUMENT_URI or REQUEST_URI: nginx's scgi_params have no PATH_INFO."""
    target: str = environ.get("SCRIPT_FILENAME", "")
    if target.startswith(APACHE_SCGI):
        return _split_script_name(environ, target[len(APACHE_SCGI) :])
    path: str = environ.get("DOCUMENT_URI") or ""  # decoded and normalised by nginx
    if not path:
        raw = environ.get("REQUEST_URI", "").partition("?")[0]
        path = unquote(raw, "latin-1")
    return strip_script_name(environ["SCRIPT_NAME"], path)


# How mod_proxy_scgi's SCRIPT_FILENAME begins; host, port and the path after ProxyPass's follow.
APACHE_SCGI = "proxy:scgi://"


def _split_script_name(environ: Environ, target: str) -> str:
    """Cut PATH_INFO off SCRIPT_NAME, with mod_proxy_scgi the whole path; return PATH_INFO."""
    whole: str = environ["SCRIPT_NAME"]
    path = unquote("/" + target.partition("/")[2].lstrip("/"), "latin-1")
    if not whole.endswith(path):
        path = "" if path == "/" else whole  # the mount point itself; or an unknown form
    environ["SCRIPT_NAME"] = whole[: len(whole) - len(path)]
    return path


def strip_script_name(script_name: str, path: str) -> str:
    """Return the path below the mount point; the whole path if elsewhere."""
    script_name = script_name.rstrip("/")
    if script_name and (path == script_name or path.startswith(script_name + "/")):
        return path[len(script_name) :]
    return path
