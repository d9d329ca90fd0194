"""gunicorn's hooks that decide which requests or clients reach the app, and that aserve does not call.

Owns:     note_guards.
Thread:   the main thread.
Spec:     gunicorn's documentation, "Server Hooks": pre_request, ssl_context.
Not here: hooks that are called (gunicorn_hooks.py).
"""

from __future__ import annotations

import dis
from types import CodeType, FunctionType

from .draft import Draft

# What a hook that only writes a line has to name: such are in many files, as gunicorn's own default of pre_request is.
LOGGING = frozenset(
    [
        "log",
        "logger",
        "logging",
        "getLogger",
        "debug",
        "info",
        "warning",
        "error",
        "method",
        "path",
        "uri",
        "query",
        "fragment",
        "version",
        "remote_addr",
        "headers",
        "get",
        "dict",
        "format",
        "print",
        "pid",
        "time",
        "perf_counter",
        "monotonic",
        "datetime",
        "now",
        "start_time",
        "str",
        "len",
    ]
)
# Instructions that refuse a request, or change one: `assert` and `raise`, attributes, items, globals.
CHANGING = ("RAISE_VARARGS", "STORE_ATTR", "STORE_SUBSCR", "STORE_SLICE", "STORE_GLOBAL", "DELETE_")


def note_guards(draft: Draft) -> None:
    """Note pre_request and ssl_context, as guards unless they only log, or have no part in a listener."""
    given = draft.facts.get("pre_request")
    if given is not None:
        text = "it is not called; a WSGI middleware sees each request"
        if _only_names(given.value, LOGGING):
            draft.note(given, f"it has no effect here: {text}")
        else:
            draft.guard(given, f"aserve does not call it, and it may change or refuse requests: {text}")
    given = draft.facts.get("ssl_context")
    if given is not None and "certificate" in draft.settings and not _only_names(given.value, frozenset()):
        draft.guard(
            given,
            "aserve does not call it, and it may say which clients are let in: --client-ca, --client-certificate, --tls-min and --ciphers do that",
        )


def _only_names(function: object, names: frozenset[str]) -> bool:
    """Whether a function uses no other attributes and globals than these, changes and raises nothing, and has no function within or around it."""
    if not isinstance(function, FunctionType):
        return False
    code = function.__code__
    is_alone = not code.co_freevars and not any(isinstance(value, CodeType) for value in code.co_consts)
    changes = any(
        each.opname.startswith(CHANGING) and each.argval != "start_time"  # a note of the hook's own, for a log
        for each in dis.get_instructions(code)
    )
    return is_alone and not changes and names.issuperset(code.co_names)
