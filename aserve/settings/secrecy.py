"""Shows values without secrets.

Owns:     the functions in the column `secret` of the table of settings, one for each form of value.
Thread:   any; pure.
Not here: the function of each setting (table.py), showing a request (core/exchange.py).

Each function takes one text in the user's form, also a wrong one, since messages about wrong values show the text. Unrecognized text is hidden.
"""

from __future__ import annotations

import re

from ..core.patterns import lazy_pattern

HIDDEN = "..."
# With a limit on the name: the lines of a key in base64 may end in = as well.
_VARIABLE = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_.-]{0,59}\Z")
_PROGRAM_NAME = lazy_pattern(r"([a-z0-9][a-z0-9_.-]*=)(?=.)", re.S)
# Not (PASSWORD=x, and not "$(cat key)".
_WORD = lazy_pattern(r"[\w.~/+@-]+\Z")
# Pattern, action and function of a route; arguments follow.
_ROUTE = lazy_pattern(r"(\S+\s+)?(rpc|call|rpcraw|rpcret|rpcblob|rpcnext|rpcvar)(\s+|:\s*)[^\s:]+")
_CONDITION = lazy_pattern(r"if(-not)?:[^\s:]*")  # a field may have to equal a secret
_GUARD = lazy_pattern(r"(\S+\s+)?(basicauth|break|continue|last|goto|label|redirect-permanent|redirect)(?=[\s:])")
_TIME = lazy_pattern(r"[0-9*,/-]{1,40}\Z")
_SCHEME = lazy_pattern(r"[A-Za-z][A-Za-z0-9+.-]*:(?://)?")
# Without a number after the colon, the text is a password whose @ is missing.
_AUTHORITY = lazy_pattern(r"(\[[0-9A-Fa-f:.]*\]|[\w.-]*)(:[0-9]*)?\Z")
_DATABASE = lazy_pattern(r"db=[0-9]{1,6}\Z")


def show_variable(text: str) -> str:
    """Return the name of NAME=VALUE."""
    name, equals, _ = text.partition("=")
    return f"{name}={HIDDEN}" if equals and _VARIABLE.match(name) else HIDDEN


def show_word(text: str) -> str:
    """Return a word of a command, if a file or a module by its look."""
    return text if not text or _WORD.match(text) else show_variable(text)


def show_program(text: str) -> str:
    """Return the name and the first word of [NAME=]COMMAND."""
    match = _PROGRAM_NAME.match(text)
    return f"{match[1]}{_show_command(text[match.end() :])}" if match else _show_command(text)


def show_timed(text: str) -> str:
    """Return the name, the times and the first word of [NAME=]TIMES COMMAND."""
    match = _PROGRAM_NAME.match(text)
    name, line = (match[1], text[match.end() :]) if match else ("", text)
    *times, command = [*line.split(None, 5), ""][:6]
    if len(times) == 5 and all(map(_TIME.match, times)):
        return " ".join([name + times[0], *times[1:], _show_command(command)]).rstrip()
    return f"{name}{HIDDEN}" if name else _show_command(line)


def _show_command(text: str) -> str:
    first, *rest = text.split(None, 1) or [""]
    shown = show_word(first)
    return f"{shown} {HIDDEN}" if rest and not shown.endswith(HIDDEN) else shown


def show_url(text: str) -> str:
    """Return a URL without user and password, and of the options only the database; nothing that may be a secret."""
    scheme = match[0] if (match := _SCHEME.match(text)) else ""
    _, at, place = text[len(scheme) :].rpartition("@")
    place, question, query = place.partition("?")
    authority, slash, path = place.partition("/")
    if not _AUTHORITY.match(authority):
        authority, slash, path = HIDDEN, "", ""
    options = [option if _DATABASE.match(option) else show_variable(option) for option in query.split("&") if option]
    return f"{scheme}{HIDDEN + at if at else ''}{authority}{slash}{path}{question}{'&'.join(options)}"


def show_argument(text: str) -> str:
    """Return an argument left over by all flags: of NAME=VALUE the name, of several words in quotes the first."""
    match = re.search(r"[=\s]", text)
    return f"{text[: match.start()]}{match[0]}{HIDDEN}" if match else show_url(text) if "@" in text else text


def show_route(text: str) -> str:
    """Return a route without the function's arguments; of a text in another form, the first word, maybe a pattern."""
    match = _CONDITION.match(text) or _ROUTE.match(text) or _GUARD.match(text) or re.match(r"[a-z-]+(?=:)|\S*", text)
    shown = match[0] if match else ""
    return f"{shown} {HIDDEN}" if text[len(shown) :].strip(": \n") else text


def show_place(text: str) -> str:
    """Return a path, or a host and a path, without the query."""
    path, question, _ = text.partition("?")
    return f"{path}?{HIDDEN}" if question else path


def show_app(text: str) -> str:
    """Return the name of an app, or of a factory without arguments; text before the name stays."""
    name, _, arguments = text.partition("(")
    if name == "aserve.contrib.flask:load":  # the command is `flask --app NAME aserve`
        return "flask" if arguments == "None)" else f"flask --app {show_app(arguments[1:-2])}"
    return f"{name}({HIDDEN})" if arguments not in ("", ")") else text
