"""Actions of routes that let a request pass, or not, without a function: basicauth, break, redirect, continue, last, goto, label.

Owns:     GUARDS, their names; compile_guard.
Thread:   compiling: the main thread; a Guard is called in a worker, several at once (with --threads 0: on the event loop).
Spec:     RFC 7617; uWSGI 2.0.31, plugins/router_basicauth, plugins/router_redirect and core/routing.c.
Not here: actions that change the request (changes.py), patterns, and sending the answer (__init__.py), placeholders (arguments.py).
"""

from __future__ import annotations

import base64
import http
import re
from collections.abc import Sequence
from typing import Callable, Literal, Union

from ...core.escaping import escape_url
from ...core.exchange import Exchange
from ...core.patterns import lazy_pattern
from ...wsgi.environ import Environ
from .arguments import compile_text, fill
from .changes import CHANGES, compile_change, set_variable

REDIRECTS = {"redirect": "302 Found", "redirect-permanent": "301 Moved Permanently"}
GUARDS = ("basicauth", "break", "continue", "last", "goto", "label", *REDIRECTS, *CHANGES)

# Status and fields of an answer without a body; "close": no answer; "next": the routes that follow; "continue": the app.
Answer = tuple[str, Sequence[tuple[str, str]]]
Decision = Union[Answer, Literal["close", "next", "continue"]]
Guard = Callable[[Exchange, Environ, "re.Match[str] | None"], Decision]  # the match: of the route's pattern

_STATUS = lazy_pattern(r"([2-5][0-9]{2})(?: ([\x20-\x7e]*))?\Z")
_LABEL = lazy_pattern(r"\s*[\w.-]*[^\W\d][\w.-]*\s*\Z")  # no number, which is the place of a route in uWSGI
_REALM = lazy_pattern(r'[^\x00-\x1f\x7f"\\]*\Z')


def compile_guard(action: str, argument: str, pattern: re.Pattern[str] | None = None) -> Guard:
    """
    Return the function of an action; `pattern`: the route's.

    Raises:
        ValueError: the argument is not of the action's form; the text does not show it.
    """
    if action == "basicauth":
        return _BasicAuth(argument)
    if action in REDIRECTS:
        return _redirect(REDIRECTS[action], argument.strip(), pattern)
    if action in CHANGES:
        return compile_change(action, argument, pattern)
    decision: Decision = "continue"
    if action in ("goto", "label"):
        if not _LABEL.match(argument):
            raise ValueError("the name of a label was expected")
        decision = "next"
    elif action == "break":
        decision = (status_line(argument.strip()), [("Content-Type", "text/plain")]) if argument.strip() else "close"
    return lambda exchange, environ, match: decision


def _redirect(status: str, target: str, pattern: re.Pattern[str] | None) -> Guard:
    pieces = compile_text(target, pattern, "a URL")

    def redirect(exchange: Exchange, environ: Environ, match: re.Match[str] | None) -> Decision:
        place = fill(pieces, environ, match).decode("latin-1")
        return status, [("Location", escape_url(place))]

    return redirect


def status_line(text: str) -> str:
    """
    Return a status with its reason, from "403" or "403 Go away".

    Raises:
        ValueError: it is no status of a response.
    """
    match = _STATUS.match(text)
    if match is None:
        raise ValueError("a status was expected, such as 403")
    code = int(match[1])
    known = http.HTTPStatus(code).phrase if code in http.HTTPStatus._value2member_map_ else "Refused"
    return f"{code} {match[2] or known}"


class _BasicAuth:
    """Lets requests with one user's name and password pass; the app finds the name as REMOTE_USER."""

    def __init__(self, argument: str) -> None:
        from hmac import compare_digest  # and hashlib: a millisecond of a start, for those with such a route

        self._is_equal = compare_digest
        realm, comma, pair = argument.partition(",")
        self._user, colon, _ = pair.partition(":")
        if not comma or not colon or not _REALM.match(realm) or "\0" in pair:
            raise ValueError("it is not of the form basicauth:REALM,USER:PASSWORD; a file of passwords is not read")
        self._token = base64.b64encode(pair.encode("utf-8", "surrogateescape"))
        self._challenge: Answer = ("401 Unauthorized", [("WWW-Authenticate", f'Basic realm="{realm}"')])

    def __call__(self, exchange: Exchange, environ: Environ, match: re.Match[str] | None) -> Decision:
        """Compare the credentials."""
        scheme, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        given = token.strip().encode("latin-1", "replace")
        if scheme.lower() != "basic" or not self._is_equal(given, self._token):
            return self._challenge
        user = self._user.encode("utf-8", "surrogateescape").decode("latin-1")
        set_variable(exchange, environ, "REMOTE_USER", user)
        return "next"
