"""Hints for a name without a module, or with the wrong one.

Owns:     hint_for_module, for a missing module; why_hidden, for a module hidden by a namesake.
Thread:   any; before the server starts.
Not here: importing (lifecycle/loading.py), looking for apps (command/finding.py).
"""

from __future__ import annotations

import os
import sys

from ..core.accounts import name_user
from ..core.near_names import near_names

TO_SERVE = ("run", "serve", "start")  # subcommands by which others serve
# Subcommands of aserve, the most frequent first: of several with the typed beginning the first is proposed.
OWN = ("status", "top", "stacks", "reload", "recycle", "workers", "balancers", "config", "init", "docs", "translate")


def hint_for_module(name: str) -> str:
    """Return a hint about a module that is neither in the current folder nor on sys.path."""
    if name in ("help", "version"):
        return f"for {'the flags' if name == 'help' else 'the version'} write: aserve --{name}"
    if name in TO_SERVE:
        return f"there is no subcommand {name!r}, as aserve serves without one; write: aserve APP"
    if os.path.isfile(name):
        return f"write --config {name}" if name.endswith(".toml") else f"write ./{name} for the file"
    parent, _, last = name.rpartition(".")
    if parent and (hasattr(sys.modules.get(parent), last)):
        return f"did you mean {parent}:{last}?"
    try:
        here = [entry[: -len(".py")] for entry in os.listdir(".") if entry.endswith(".py")]
    except PermissionError:
        who = name_user(os.geteuid())
        return f"{who} may not read the current folder: have the app where it may, as in /opt or /srv, or give it the right"
    near = [word for word in OWN if word.startswith(name)] or near_names(name, [*here, *OWN])
    if near:
        return f"did you mean {'the subcommand ' * (near[0] not in here)}{near[0]}?"
    return "run aserve in the folder that holds it, or install it"


def why_hidden(name: str, folder: str) -> str:
    """
    Return why the import of a name finds another module than the one in this folder, and the cure; "": no such case.

    Python imports a name once: modules imported before by aserve or Python stay.
    """
    top = name.partition(".")[0]
    own = [
        path for path in (f"{top}.py", os.path.join(top, "__init__.py")) if os.path.isfile(os.path.join(folder, path))
    ]
    module = sys.modules.get(top)
    if not own or module is None:
        return ""
    origin = os.path.realpath(getattr(module, "__file__", None) or "")
    if os.path.realpath(os.path.join(folder, own[0])) == origin:
        return ""
    library = os.path.dirname(os.path.realpath(os.__file__))
    parts = os.path.relpath(origin, library).split(os.sep) if origin.startswith(library) else []
    if getattr(module, "__file__", None) is None or (parts and parts[0] not in ("site-packages", "dist-packages")):
        other = f"the standard library's {top}"
    else:
        other = f"{origin}, which is imported already"
    what, instead = (
        (own[0], f", or name the file: {top}.py:NAME") if own[0] == f"{top}.py" else (f"the folder {top}", "")
    )
    return f"{os.path.join(folder, own[0])} is hidden by {other}; rename {what}{instead if name == top else ''}"
