"""uWSGI's internal routing: the routes that are obeyed, and those that guard the app and cannot be.

Owns:     add_routes: all routes of a file, whose order counts.
Thread:   the main thread.
Spec:     uWSGI 2.0.31, core/routing.c and its documentation, "uWSGI internal routing".
Not here: the actions of --route (features/routes/).
"""

from __future__ import annotations

from collections.abc import Iterable

from ...core.patterns import lazy_pattern
from ...settings import ConfigError
from .. import Config, extensions_of
from .draft import Draft, Given

ACTIONS = ("basicauth", "break", "continue", "last", "rpc", "call", "rpcraw", "rpcret")  # of --route
INSTEAD = "have the front server do it, such as nginx"
# An action that may keep a request from the app, after a condition or at the beginning.
_GUARDING = lazy_pattern(
    r"(?:\A|[\s])(?:basicauth|ldapauth|radius|spnego|break(?:-with-status)?|return|access|deny|rpcret|uwsgi|http|proxy\w*)(?:-next)?:"
)
# Actions after which the next route is tried, and that no later route can see.
_PASSING = lazy_pattern(r"(?:\A|[\s])(?:donotlog|donotoffload|log|logvar|(?:add|set|del|rem)header|alarm|setprocname):")
_ACTION = lazy_pattern(rf"({'|'.join(ACTIONS)}):")
_LARGER = lazy_pattern(r"ishigher(equal)?:\$\{CONTENT_LENGTH\};([0-9]{1,15})\s+break:413\b")
_AFTER_THE_APP = ("final-route", "error-route", "response-route")


def add_routes(draft: Draft, routes: Iterable[Given]) -> None:
    """Obey all routes, or none: a rule that is left out may decide whether a later one is met."""
    before = [given for given in routes if not given.key.startswith(_AFTER_THE_APP)]
    read = [(given, _read(given)) for given in before]
    unread = [given for given, text in read if text is None and not _PASSING.search(given.value)]
    is_guarded = any(_GUARDING.search(given.value) for given in before)
    for given, text in read:
        if not unread and text is not None:
            _obey(draft, given, text)
        elif is_guarded and given in unread:
            draft.guard(given, f"aserve cannot obey it, and a route of this file guards the app: {INSTEAD}")
        else:
            _tell(draft, given)
    for given in routes:
        if given not in before:
            _tell(draft, given)


def _tell(draft: Draft, given: Given) -> None:
    draft.note(given, f"it has no effect here: `--route` has the actions {', '.join(ACTIONS)}; for the rest {INSTEAD}")


def _read(given: Given) -> str | None:
    """Return a route of --route; None: there is none that does the same."""
    pattern, action = "", given.value
    if given.key == "route":
        pattern, _, action = given.value.partition(" ")
    elif _LARGER.match(given.value) and given.key == "route-if":
        return ""
    elif given.key != "route-run":
        return None
    action = action.strip()
    text = f"{pattern} {action}".strip()
    try:
        extensions_of(Config(route=(text,)))
    except ConfigError:
        return None
    return text if _ACTION.match(action) else None


def _obey(draft: Draft, given: Given, text: str) -> None:
    if text:
        draft.add("route", text, given)
        return
    match = _LARGER.match(given.value)
    assert match is not None
    most = max(1, int(match[2]) - (1 if match[1] else 0))
    draft.put("max-body", min(most, draft.settings.get("max-body") or most), given)
