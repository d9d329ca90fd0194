"""Routes: requests that an RPC function or a guard answers, or decides on, before the app is called.

Owns:     the grammar of --route, its actions, Routes, and Routing, the extension.
Thread:   `compile_routes` any; the rest a worker.
Spec:     uWSGI's internal routing with the actions of its rpc plugin;
          where its documentation is silent, uWSGI 2.0.30's behaviour.
Not here: conditions (conditions.py), actions without a function (guards.py), placeholders (arguments.py), the functions (rpc/registry.py), packets that call one (wsgi/rpc_calls.py), calling the app (wsgi/gateway.py).

A route is `[CONDITION] ACTION`, or `label:NAME`, to which `goto:NAME` leads. The condition is a
regular expression that is searched in PATH_INFO, or another one; without it the route is for every request. Actions:
    rpc, call   the result is the body of a 200 response
    rpcraw      the result is a whole HTTP response
    rpcret      the result says how to go on: next, continue, break[ STATUS]
"""

from __future__ import annotations

import http
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from ... import rpc
from ...core.errors import AppError, ResponseTruncated
from ...core.escaping import decode_path, path_of
from ...core.exchange import Exchange
from ...core.forks import end_if_forked, forked
from ...core.named_tuple import NamedTuple
from ...core.patterns import lazy_pattern
from ...extension import Extension, ListenerContext
from ...settings import ConfigError, EngineSettings, row
from ...settings.kinds import Kind, show_texts, texts_of
from ...settings.secrecy import show_route
from ...wsgi.environ import Environ, build_bodyless_environ
from ...wsgi.gateway import Before, Reply
from ...wsgi.head import Headers
from ...wsgi.response import CommonFields, Response, error_response
from .arguments import Pair, Piece, compile_argument, fill
from .changes import set_variable
from .conditions import Condition, compile_condition
from .guards import GUARDS, Guard, compile_guard

logger = logging.getLogger("aserve.rpc")

ACTIONS = ("rpc", "call", "rpcraw", "rpcret")
# uWSGI's other actions with RPC: they need its router, which continues after writing or assigning.
REFUSED_ACTIONS = ("rpcblob", "rpcnext", "rpcvar")
FORM = "write '[CONDITION] ACTION FUNCTION:ARGUMENT ...', as in '^/rpc rpc myfunc:one two'"

_ACTION = lazy_pattern(r"([a-z-]+)(?:\s+|:)(.*)", re.DOTALL)
_FUNCTION = lazy_pattern(r"([^\s:]+)(?:\s+|:\s*|\Z)(.*)", re.DOTALL)
_STATUS_LINE = lazy_pattern(rb"HTTP/1\.[01] ([2-5][0-9]{2}(?: [^\r\n]*)?)")
# aserve frames the response to the client.
_HOP_BY_HOP = frozenset(("connection", "keep-alive", "proxy-connection", "trailer", "upgrade"))


# The grammar

Verdict = Literal["next", "continue"]  # of an rpcret


class Route(NamedTuple):
    """One route, ready to run."""

    text: str
    pattern: re.Pattern[str] | None  # whose groups the arguments may have
    action: str
    function: bytes
    arguments: tuple[tuple[Piece, ...], ...]
    needs_environ: bool
    guard: Guard | None = None  # for an action without a function
    condition: Condition | None = None  # None: every request
    label: str = ""  # of goto and label


def lacks_action(text: str) -> bool:
    """Whether this is only the pattern of a route, and the action is the next argument."""
    return not re.search(r"\s", text) and not _is_action(text)


def _is_action(text: str) -> bool:
    match = _ACTION.match(text)
    return match is not None and match[1] in ACTIONS + REFUSED_ACTIONS + GUARDS


def compile_routes(texts: Iterable[str]) -> tuple[Route, ...]:
    """
    Parse the setting `route`.

    Raises:
        ConfigError: a text is no route; the message says which, and why.
    """
    routes = tuple(_compile(text.strip()) for text in texts)
    names = [route.label if route.action == "label" else None for route in routes]
    for index, route in enumerate(routes):
        # The first label of this name counts, as in uWSGI.
        if route.action == "goto" and (route.label in names[:index] or route.label not in names):
            raise _route_error(route.text, "goto leads to a label behind it: write a route 'label:NAME' there")
    return routes


def _compile(text: str) -> Route:
    before, action_text = "", text
    if not _is_action(text):
        before, action_text = (*text.split(None, 1), "", "")[:2]
    condition, pattern = None, None
    if before:
        try:
            condition, pattern = compile_condition(before)
        except ValueError as fault:
            raise _route_error(text, str(fault)) from None
    action = _ACTION.match(action_text.strip())
    if action is None:
        raise _route_error(text, f"it has no action; {FORM}")
    name, call = action[1], action[2]
    if name in GUARDS:
        try:
            guard = compile_guard(name, call, pattern)
            return Route(
                text, pattern, name, b"", (), True, guard, condition, call.strip() if name in ("goto", "label") else ""
            )
        except ValueError as fault:
            raise _route_error(text, str(fault)) from None
    if name not in ACTIONS:
        raise _route_error(text, f"there is no action {name!r}; there are {', '.join(ACTIONS + GUARDS)}")
    function = _FUNCTION.match(call.strip())
    if function is None:
        raise _route_error(text, f"it names no function; {FORM}")
    if "@" in function[1]:
        raise _route_error(text, f"{function[1]!r} is on another server; a route calls functions of this process only")
    # Split first, so that a variable's value cannot become two arguments. (uWSGI does the same.)
    try:
        arguments = tuple(compile_argument(word, pattern) for word in function[2].split())
    except ValueError as fault:
        raise _route_error(text, str(fault)) from None
    if len(arguments) > rpc.MAX_ARGUMENTS:
        raise _route_error(text, f"it has {len(arguments)} arguments; a function takes {rpc.MAX_ARGUMENTS}")
    has_variables = any(isinstance(piece, (str, Pair)) for pieces in arguments for piece in pieces)
    needs_environ = condition is not None or has_variables
    return Route(text, pattern, name, function[1].encode(), arguments, needs_environ, None, condition)


def _route_error(text: str, why: str) -> ConfigError:
    return ConfigError(f"--route {show_route(text)!r}: {why}")


# Running


class Routes(Before):
    """Answers requests that match a route."""

    __slots__ = ("_common_fields", "_decodes", "_routes")

    def __init__(self, common_fields: CommonFields, routes: tuple[Route, ...], decodes: bool = False) -> None:
        self._common_fields = common_fields
        self._routes = routes
        self._decodes = decodes  # the paths of targets, as uWSGI does

    def before(self, exchange: Exchange) -> Reply | None:
        """Answer by a route; None: the app answers."""
        if self._decodes and "/." in exchange.vars:
            path = decode_path(path_of(exchange.vars.split("\0", 4)[3]))
            set_variable(exchange, {}, "PATH_INFO", path)
        environ: Environ | None = None
        label = ""  # to which a goto leads
        for route in self._routes:
            if label:
                if route.action == "label" and route.label == label:
                    label = ""
                continue
            match: re.Match[str] | None = None
            if route.needs_environ:
                if environ is None:
                    environ = build_bodyless_environ(exchange)
                if route.condition is not None:
                    try:
                        match = route.condition(environ)
                    except ValueError:  # no address, where one of a network is asked for
                        return _break()
                    if match is None:
                        continue
            if route.guard is not None:
                assert environ is not None
                reply = self._decide(route.guard, exchange, environ, match)
            else:
                reply = self._run(route, exchange, environ, match)
            if forked:
                end_if_forked(self._common_fields.forked_count)
            if reply == "next":
                label = route.label if route.action == "goto" else ""
                continue
            return None if reply == "continue" else reply
        return None

    def _decide(
        self, guard: Guard, exchange: Exchange, environ: Environ, match: re.Match[str] | None
    ) -> Reply | Verdict:
        decision = guard(exchange, environ, match)
        if decision == "close":
            return _break()
        if isinstance(decision, str):
            return decision
        response = exchange.response = Response(exchange, self._common_fields)
        return _respond_whole(response, decision[0], list(decision[1]), b"")

    def _run(
        self, route: Route, exchange: Exchange, environ: Environ | None, match: re.Match[str] | None
    ) -> Reply | Verdict:
        """Call the function of a route; return the response, or the verdict of an rpcret."""
        response = exchange.response = Response(exchange, self._common_fields)
        try:
            result = rpc.call_local(route.function, *(fill(pieces, environ, match) for pieces in route.arguments))
            if route.action == "rpcraw":
                return _respond_raw(response, result)
            if route.action == "rpcret":
                return _respond_verdict(response, result)
            return _respond_whole(response, "200 OK", [], result)
        except (rpc.RpcError, AppError) as exc:
            if isinstance(exc, AppError):
                logger.error("--route %r: %s", show_route(route.text), exc)
            response.code, exchange.has_app_failed = 500, True
            return error_response(500, "a function failed; the server's log says why", exchange, self._common_fields)


def _respond_raw(response: Response, result: bytes) -> Reply:
    """
    Answer with the status, fields and body of the result, framed for the connection.

    Raises:
        AppError: the result is not an HTTP response.
    """
    head, end, body = result.partition(b"\r\n\r\n")
    status_line, *lines = head.split(b"\r\n")
    match = _STATUS_LINE.fullmatch(status_line)
    if not end or match is None:
        raise AppError(f"the function must return a whole HTTP response, not {result!r:.60}")
    headers: Headers = []
    for line in lines:
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon:
            raise AppError(f"the function's response has a line that is no field: {line!r:.60}")
        if name.lower() == "transfer-encoding":
            raise AppError("the function's response has a Transfer-Encoding; let Content-Length or its end frame it")
        if name.lower() not in _HOP_BY_HOP:
            headers.append((name, value.strip(" \t")))
    return _respond_whole(response, match[1].decode("latin-1"), headers, body)


def _respond_verdict(response: Response, result: bytes) -> Reply | Verdict:
    """
    Act on the result of an rpcret.

    Raises:
        AppError: the result is no verdict.
    """
    verdict, _, status = result.decode("latin-1").partition(" ")
    if verdict == "break" and status:
        if status.isdecimal() and int(status) in http.HTTPStatus._value2member_map_:
            status = f"{status} {http.HTTPStatus(int(status)).phrase}"
        return _respond_whole(response, status, [], b"")
    if result == b"break":
        return _break()
    if result == b"continue":
        return "continue"
    if result == b"next":
        return "next"
    # Stricter than uWSGI, which continues: this function may guard the app.
    raise AppError(f"the function of rpcret must return next, continue or break[ STATUS], not {result!r:.60}")


def _respond_whole(response: Response, status: str, headers: Headers, body: bytes) -> Reply:
    response.start_response(status, headers)
    reply = response.complete(body)
    if reply is None:
        raise AppError("the function's response ends before its Content-Length")
    return reply


def _break() -> Iterator[bytes]:
    """Close the connection without a response, as uWSGI does."""
    yield b""  # sends nothing, but makes this a generator: the connection aborts when iterating raises
    raise ResponseTruncated("a route said break")


def _parse_routes(value: object) -> tuple[str, ...]:
    # Only split here; Routing parses each.
    return tuple(texts_of(value, str.splitlines))


ROUTES = Kind(
    "ROUTE",
    "'[PATTERN] ACTION FUNCTION:ARGUMENT ...'; on the command line also PATTERN and the rest as two arguments; "
    "in a variable one to a line",
    _parse_routes,
    show_texts,
)


class RouteSettings(EngineSettings):
    """The settings of this feature."""

    # fmt: off
    route: Sequence[str] = row(
        (), "Serving", "--route", ROUTES,
        "requests answered by a registered RPC function, or kept from the app by a password, a status or a redirect; repeatable; see `aserve docs rpc`",
        "For configurations with calls of RPC functions by uWSGI's internal routing.",
        secret=show_route,
        lacks=lacks_action,
    )
    # fmt: on


class Routing(Extension[RouteSettings]):
    """--route."""

    switches = ("route",)

    def __init__(self, config: RouteSettings) -> None:
        super().__init__(config)
        self._routes = compile_routes(config.route)

    def before(self, context: ListenerContext) -> Before | None:
        """See Extension."""
        decodes = context.is_http and getattr(self._config, "environ_as", None) == "uwsgi"
        return Routes(context.common_fields, self._routes, decodes)
