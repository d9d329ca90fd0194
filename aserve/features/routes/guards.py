"""Actions of routes that let a request pass, or not, without a function: basicauth, break, continue, last.

Owns:     GUARDS, their names; compile_guard.
Thread:   compiling: the main thread; a Guard is called in a worker, several at once (with --threads 0: on the event loop).
Spec:     RFC 7617; uWSGI 2.0.31, plugins/router_basicauth and core/routing.c.
Not here: patterns, and sending the answer (__init__.py).
"""

from __future__ import annotations

import base64
import http
from collections.abc import Sequence
from typing import Callable, Literal, Union

from ...core.exchange import Exchange
from ...core.patterns import lazy_pattern
from ...wsgi.environ import Environ

GUARDS = ("basicauth", "break", "continue", "last")

# Status and fields of an answer without a body; "close": no answer; "next": the routes that follow; "continue": the app.
Answer = tuple[str, Sequence[tuple[str, str]]]
Decision = Union[Answer, Literal["close", "next", "continue"]]
Guard = Callable[[Exchange, Environ], Decision]

_STATUS = lazy_pattern(r"([2-5][0-9]{2})(?: ([\x20-\x7e]*))?\Z")
_REALM = lazy_pattern(r'[^\x00-\x1f\x7f"\\]*\Z')


def compile_guard(action: str, argument: str) -> Guard:
    """
    Return the function of an action.

    Raises:
        ValueError: the argument is not of the action's form; the text does not show it.
    """
    if action == "basicauth":
        return _BasicAuth(argument)
    decision: Decision = "continue"
    if action == "break":
        decision = (status_line(argument.strip()), ()) if argument.strip() else "close"
    return lambda exchange, environ: decision


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

    def __call__(self, exchange: Exchange, environ: Environ) -> Decision:
        """Compare the credentials."""
        scheme, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        given = token.strip().encode("latin-1", "replace")
        if scheme.lower() != "basic" or not self._is_equal(given, self._token):
            return self._challenge
        user = self._user.encode("utf-8", "surrogateescape").decode("latin-1")
        exchange.vars = f"{exchange.vars}\0REMOTE_USER\0{user}"
        return "next"
