"""uWSGI's internal routing: routes that are obeyed, that guard nothing, and that may guard the app.

Owns:     add_routes: all routes of a file, whose order counts.
Thread:   the main thread.
Spec:     uWSGI 2.0.31, core/routing.c and its documentation, "uWSGI internal routing".
Not here: the actions of --route (compat/routes/).

An action counts as a guard unless the tables say otherwise: there are seventy in uWSGI, and plugins have more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...core.patterns import lazy_pattern
from ...features import Config, extensions_of
from ...settings import ConfigError
from .draft import Draft, Given, check

# Of --route.
ACTIONS = (
    "basicauth", "break", "redirect", "redirect-permanent", "continue", "last", "rpc", "call", "rpcraw", "rpcret",
    "rewrite", "rewrite-last", "seturi", "setpathinfo", "setmethod", "setuser", "addvar",
)  # fmt: skip
# uWSGI's other names of these. Its `return` also has a short body.
SAME = {"redirect-302": "redirect", "redirect-301": "redirect-permanent", "return": "break", "break-with-status": "break"}  # fmt: skip
MOVE_PATHS = ("rewrite", "rewrite-last", "setpathinfo")
INSTEAD = "have the front server do it, such as nginx"
# Actions that neither keep a request from the app, nor change what it or a later route sees; and the reason why each is not needed.
HARMLESS = {
    **dict.fromkeys(("donotlog", "log", "logvar"), "lines of requests are left out by `--access-log-skip`, and have the fields of `--access-log-format`"),
    "alarm": "what watches your logs does it",
    **dict.fromkeys(("donotoffload", "flush", "chunked", "fixcl", "forcecl"), "the server frames and sends each response by itself"),
    "setprocname": "a process has aserve's name",
    "gzip": "`--compress` does it",
    **dict.fromkeys(("addheader", "expires"), "the app sets its fields; `--add-field` adds one to each response"),
    "harakiri": "`--request-timeout` limits each request",
    **dict.fromkeys(("cachestore", "cache-store", "memcachedstore", "memcached-store", "redisstore", "redis-store"), "responses are not kept; nothing reads them"),
    **dict.fromkeys(("metricinc", "metricdec", "metricmul", "metricdiv", "metricset"), "`--metrics` tells Prometheus"),
}  # fmt: skip
# Routes that are tried when the app has answered: final ones behind the response, those of errors on what is an error already.
LATE = {"final-route": "the response has been sent by then", "error-route": "the answer is an error already"}
_LARGER = lazy_pattern(r"ishigher(equal)?:\$\{CONTENT_LENGTH\};([0-9]{1,15})\s+break:413\b")
_STATUS = lazy_pattern(r"[2-5][0-9]{2}\Z")
_CLASS_OF_PCRE = lazy_pattern(r"\[:\^?[a-z]+:\]")  # in Python a set of these letters
_LITERAL = lazy_pattern(r"\^((?:[\w/-]|\\?\.)+)(\$|/?\.\*)?\Z")  # a path, or the beginning of one
_EACH_PATH = ("^/", "/", "^", ".*", "^.*", "^/.*", "^.*$", "^/.*$")


def add_routes(draft: Draft, routes: Iterable[Given]) -> None:
    """Obey all routes; if one that may guard the app cannot be obeyed, only those that keep requests from it."""
    reasons = [(given, _why_harmless(given)) for given in routes]
    deciding = [given for given, why in reasons if why is None and _action_of(given)[1] != "goto"]
    for index, (given, why) in enumerate(reasons):
        if why is not None or not deciding:
            is_reached = all(earlier is not None for _, earlier in reasons[:index])
            _leave_out(draft, given, why or "no route that it leads to, or past, has an effect", is_reached)
    read, is_whole = [], True
    for given in [given for given, why in reasons if why is None and deciding]:
        try:
            read.append((given, *_read(draft, given)))
        except ValueError as fault:
            is_whole = False
            draft.guard(given, f"aserve cannot obey it, and it may keep requests from the app: {fault}; {INSTEAD}")
    for given, name, text in read:
        if is_whole or not name.startswith(("rpc", "call")):
            _obey(draft, given, name, text)
        else:
            draft.note(given, "it has no effect here, as a route that may keep requests from its function has none")


def _action_of(given: Given) -> tuple[str, str, str]:
    """Return the pattern or condition, the action, and its argument."""
    before, action = "", given.value
    if not given.key.endswith("route-run"):
        before, _, action = given.value.partition(" ")
    name, _, argument = action.strip().partition(":")
    return before, name, argument


def _why_harmless(given: Given) -> str | None:
    """Return why a route that has no effect here guards nothing; None: it may guard the app."""
    late = next((why for start, why in LATE.items() if given.key.startswith(start)), None)
    if given.key.endswith("route-label"):
        return "it is a place, and no rule"
    return late if late is not None else HARMLESS.get(_action_of(given)[1])


def _leave_out(draft: Draft, given: Given, reason: str, is_reached: bool) -> None:
    """Note a route, or take the setting that does the same; `is_reached`: by each request of its pattern."""
    pattern, name, argument = _action_of(given)
    if given.key == "route-run" and name == "addheader" and _is_field(argument):
        draft.add("add-field", argument.strip(), given)
    elif given.key == "route" and name == "donotlog" and is_reached and (match := _LITERAL.match(pattern)):
        path = re.sub(r"\\?\.", lambda dot: dot[0][1:] or "?", match[1])
        draft.add("access-log-skip", path if match[2] == "$" else f"{path}*", given)
    else:
        draft.note(given, f"it has no effect here: {reason}")


def _is_field(text: str) -> bool:
    """Whether --add-field takes this, and it is the same for each request."""
    try:
        check("add-field", [text.strip()])
    except ValueError:
        return False
    return "$" not in text


def _read(draft: Draft, given: Given) -> tuple[str, str]:
    """
    Return an action and its route, for --route; or max-body, and the largest one.

    Raises:
        ValueError: no route of --route does the same; the text says why, without values.
    """
    if given.key == "route-if" and (match := _LARGER.match(given.value)):
        return "max-body", str(max(1, int(match[2]) - (1 if match[1] else 0)))
    if given.key not in ("route", "route-run"):
        raise ValueError("`--route` has no such condition")
    pattern, name, argument = _action_of(given)
    name = SAME.get(name, name) if name not in ("return", "break-with-status") or _STATUS.match(argument) else ""
    if name not in ACTIONS:
        raise ValueError(f"`--route` has the actions {', '.join(ACTIONS)}")
    if _CLASS_OF_PCRE.search(pattern):
        raise ValueError("Python's regular expressions lack such classes of characters")
    if pattern not in ("", *_EACH_PATH) and "mount" in draft.settings:
        raise ValueError("in uWSGI its pattern may be for the path below a mount, and here it is for the whole path")
    if name in MOVE_PATHS and not {"mount", "static"}.isdisjoint(draft.settings):
        raise ValueError("in uWSGI files and mounts are found by the path as it came, and here by the new one")
    text = f"{pattern} {name}:{argument}".strip()
    try:
        extensions_of(Config(route=(text,)))
    except ConfigError:
        raise ValueError("its pattern or its argument is not one of `--route`") from None
    return name, text


def _obey(draft: Draft, given: Given, name: str, text: str) -> None:
    if name == "max-body":
        draft.put(name, min(int(text), draft.settings.get(name) or int(text)), given)
    else:
        draft.add("route", text, given)
