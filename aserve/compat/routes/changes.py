"""Actions of routes that change the request for later routes and for the app: rewrite, seturi, setpathinfo, setmethod, setuser, addvar.

Owns:     CHANGES, their names; compile_change; set_variable.
Thread:   compiling: the main thread; a Change is called in a worker, several at once (with --threads 0: on the event loop).
Spec:     uWSGI 2.0.31, core/routing.c and plugins/router_rewrite.
Not here: patterns (__init__.py), placeholders (arguments.py), decoding (core/escaping.py).
"""

from __future__ import annotations

import re
from typing import Callable, Literal

from ...core.escaping import decode_path
from ...core.exchange import Exchange
from ...core.patterns import lazy_pattern
from ...wsgi.environ import REQUEST_LINE_PARTS, Environ
from .arguments import Piece, compile_text, fill

SETTERS = {
    "seturi": "REQUEST_URI", "setpathinfo": "PATH_INFO", "setmethod": "REQUEST_METHOD", "setuser": "REMOTE_USER",
}  # fmt: skip
CHANGES = ("rewrite", "rewrite-last", "addvar", *SETTERS)

Change = Callable[[Exchange, Environ, "re.Match[str] | None"], Literal["next", "continue"]]

# Where HTTP's vars have the values of the request line (core/exchange.py).
_PLACES = {"REQUEST_METHOD": 1, "REQUEST_URI": 3, "PATH_INFO": 5, "QUERY_STRING": 7}
# A variable that only the app reads: no other of the request, and none that says who the client is or how the body is framed.
_ADDED = lazy_pattern(
    r"(?!(HTTPS|SCRIPT_NAME|PATH_INFO|QUERY_STRING|HTTP_TRANSFER_ENCODING|(REQUEST|REMOTE|SERVER|CONTENT|UWSGI)_\w+)=)"
    r"([A-Z][A-Z0-9_]*)=(.*)\Z"
)


def compile_change(action: str, argument: str, pattern: re.Pattern[str] | None) -> Change:
    """
    Return the function of an action; `pattern`: the route's.

    Raises:
        ValueError: the argument is not of the action's form; the text does not show it.
    """
    if action.startswith("rewrite"):
        return _rewrite(compile_text(argument, pattern, "a path"), "continue" if action == "rewrite-last" else "next")
    if action == "addvar":
        match = _ADDED.match(argument)
        if match is None:
            raise ValueError(
                "NAME=VALUE was expected, with the name of a variable that is not one of the request's own"
            )
        return _set(match[3], compile_text(match[4], pattern, "a value"))
    return _set(SETTERS[action], compile_text(argument, pattern, "a value"))


def _set(name: str, pieces: tuple[Piece, ...]) -> Change:
    def change(exchange: Exchange, environ: Environ, match: re.Match[str] | None) -> Literal["next"]:
        value = fill(pieces, environ, match).decode("latin-1")
        set_variable(exchange, environ, name, value.partition(":")[0] if name == "REMOTE_USER" else value)
        return "next"

    return change


def _rewrite(pieces: tuple[Piece, ...], decision: Literal["next", "continue"]) -> Change:
    def change(exchange: Exchange, environ: Environ, match: re.Match[str] | None) -> Literal["next", "continue"]:
        path, mark, query = fill(pieces, environ, match).decode("latin-1").partition("?")
        before = environ["QUERY_STRING"]
        set_variable(exchange, environ, "PATH_INFO", decode_path(path))
        if mark:
            set_variable(exchange, environ, "QUERY_STRING", f"{query}&{before}" if before else query)
        return decision

    return change


def set_variable(exchange: Exchange, environ: Environ, name: str, value: str) -> None:
    """Let the app, later routes (`environ`) and the access log find a variable with this value; a NUL in it is left out."""
    value = environ[name] = value.replace("\0", "")
    if exchange.is_from_front:  # the last of its own pairs counts
        parts = exchange.vars.split("\0", 2 * exchange.own_count)
        parts[2 * exchange.own_count : 2 * exchange.own_count] = [name, value]
        exchange.own_count += 1
    else:
        parts = exchange.vars.split("\0", REQUEST_LINE_PARTS)
        if name in _PLACES:
            parts[_PLACES[name]] = value
        else:
            fields = parts[REQUEST_LINE_PARTS].split("\0") if len(parts) > REQUEST_LINE_PARTS else []
            kept = [text for pair in zip(fields[::2], fields[1::2]) if pair[0] != name for text in pair]
            parts[REQUEST_LINE_PARTS:] = [*kept, name, value]
    exchange.vars = "\0".join(parts)
