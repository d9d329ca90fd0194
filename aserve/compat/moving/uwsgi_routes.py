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
    "rewrite", "rewrite-last", "seturi", "setpathinfo", "setmethod", "setuser", "addvar", "goto",
)  # fmt: skip
PASSING = ("continue", "last", "goto", "label")  # they only lead past other routes
# The options of uWSGI whose conditions --route has, as in `host:PATTERN` for route-host.
SUBJECTS = ("host", "uri", "qs", "remote-addr", "remote-user", "user-agent", "referer")
CONDITIONS = (*SUBJECTS, "if", "if-not")
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
_CODINGS = lazy_pattern(r"contains?:\$\{HTTP_ACCEPT_ENCODING\};gzip\Z")
_LITERAL = lazy_pattern(r"\^((?:[\w/-]|\\?\.)+)(\$|/?\.\*)?\Z")  # a path, or the beginning of one
_EACH_TEXT = ("^", ".*", "^.*", "^.*$")
_EACH_PATH = (*_EACH_TEXT, "^/", "/", "^/.*", "^/.*$")


def add_routes(draft: Draft, routes: Iterable[Given]) -> None:
    """Obey all routes; if one that may guard the app cannot be obeyed, only those that keep requests from it."""
    reasons = [(given, _why_harmless(given)) for given in routes]
    deciding = [given for given, why in reasons if why is None]
    # A route of responses leads past others of responses only, and each of these is a note, or ends the start.
    deciding = [each for each in deciding if each.key[:8] != "response" or _action_of(each)[1] not in PASSING]
    if all(_action_of(given)[1] in PASSING for given in deciding):
        deciding = []
    for index, (given, why) in enumerate(reasons):
        if why is not None:
            earlier = [each for each, its_why in reasons[:index] if its_why is None]
            _leave_out(draft, given, why, earlier)
    read, is_whole = [], True
    for index, given in enumerate(deciding):
        try:
            read.append((given, *_read(draft, given, deciding[index + 1 :])))
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
    if given.key.endswith("route-label"):
        return "", "label", given.value.strip()
    if not given.key.endswith("route-run"):
        before, _, action = given.value.partition(" ")
    name, _, argument = action.strip().partition(":")
    return before, name, argument


def _why_harmless(given: Given) -> str | None:
    """Return why a route that has no effect here guards nothing; None: it may guard the app."""
    late = next((why for start, why in LATE.items() if given.key.startswith(start)), None)
    return late if late is not None else HARMLESS.get(_action_of(given)[1])


def _leave_out(draft: Draft, given: Given, reason: str, earlier: Iterable[Given]) -> None:
    """Note a route, or take the setting that does the same; `earlier`: the routes before it that may keep a request from it."""
    pattern, name, argument = _action_of(given)
    is_for_all = given.key == "route-run" or pattern in _patterns_of_each(given.key)
    is_reached = all(_is_for_others(each, pattern) for each in earlier)
    if is_for_all and name == "addheader" and _is_field(argument) and is_reached:
        draft.add("add-field", argument.strip(), given)
    elif name == "gzip" and (is_for_all or (given.key == "route-if" and _CODINGS.match(pattern))):
        draft.put("compress", True, given)
    elif given.key == "route" and name == "donotlog" and is_reached and (match := _LITERAL.match(pattern)):
        draft.add("access-log-skip", _path_in(match) + ("" if match[2] == "$" else "*"), given)
    else:
        draft.note(given, f"it has no effect here: {reason}")


def _patterns_of_each(key: str) -> tuple[str, ...]:
    """Return the patterns of an option that every request matches."""
    return _EACH_PATH if key == "route" else _EACH_TEXT if key[len("route-") :] in SUBJECTS else ()


def _path_in(literal: re.Match[str]) -> str:
    return re.sub(r"\\?\.", lambda dot: dot[0][1:] or "?", literal[1])


def _is_for_others(earlier: Given, pattern: str) -> bool:
    """Whether no path is for both, a route and a pattern."""
    before, name, _ = _action_of(earlier)
    first, second = _LITERAL.match(before), _LITERAL.match(pattern)
    if earlier.key != "route" or name in MOVE_PATHS or first is None or second is None:
        return name == "label"
    path, other = _path_in(first), _path_in(second)
    return "?" not in path + other and not re.search(before, other) and not re.search(pattern, path)


def _is_field(text: str) -> bool:
    """Whether --add-field takes this, and it is the same for each request."""
    try:
        check("add-field", [text.strip()])
    except ValueError:
        return False
    return "$" not in text


def _read(draft: Draft, given: Given, later: Iterable[Given]) -> tuple[str, str]:
    """
    Return an action and its route, for --route; or max-body, and the largest one; `later`: the routes behind it.

    Raises:
        ValueError: no route of --route does the same; the text says why, without values.
    """
    if given.key == "route-if" and (match := _LARGER.match(given.value)):
        return "max-body", str(max(1, int(match[2]) - (1 if match[1] else 0)))
    kind = given.key[len("route-") :]
    if given.key[:5] != "route" or kind not in ("", "run", "label", *CONDITIONS):
        raise ValueError("`--route` has no such condition")
    pattern, name, argument = _action_of(given)
    if kind.startswith("if") and pattern.startswith("lord:"):
        raise ValueError("there are no legions here: let the balancer choose the host")
    name = SAME.get(name, name) if name not in ("return", "break-with-status") or _STATUS.match(argument) else ""
    if name not in (*ACTIONS, "label"):
        raise ValueError(f"`--route` has the actions {', '.join(ACTIONS)}")
    if _CLASS_OF_PCRE.search(pattern):
        raise ValueError("Python's regular expressions lack such classes of characters")
    is_of_path = "PATH_INFO" in pattern if kind else pattern not in ("", *_EACH_PATH)
    if is_of_path and "mount" in draft.settings:
        raise ValueError("in uWSGI its pattern may be for the path below a mount, and here it is for the whole path")
    if name in MOVE_PATHS and not {"mount", "static"}.isdisjoint(draft.settings):
        raise ValueError("in uWSGI files and mounts are found by the path as it came, and here by the new one")
    if kind in CONDITIONS:
        pattern = f"{kind}:{pattern}"
    elif pattern.partition(":")[0] in CONDITIONS:
        raise ValueError("its pattern looks like a condition of `--route`")
    text = f"{pattern} {name}:{argument}".strip()
    labels = [f"label:{argument}"] if any(_action_of(each) == ("", "label", argument) for each in later) else []
    try:
        extensions_of(Config(route=(text, *labels)))
    except ConfigError:
        raise ValueError("its condition or its argument is not one of `--route`") from None
    return name, text


def _obey(draft: Draft, given: Given, name: str, text: str) -> None:
    if name == "max-body":
        draft.put(name, min(int(text), draft.settings.get(name) or int(text)), given)
    else:
        draft.add("route", text, given)
