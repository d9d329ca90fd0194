"""The frames of a thread's stack, and how a person reads them.

Owns:     outer_frames; Call, a snapshot of a frame; show_calls, a stack as text: the last call first, and code of others in few lines; where_of,
          the one decisive line of the app's code.
Thread:   any; show_calls reads source files.
Not here: the reports with stacks (connections/monitoring/stacks.py, features/slow_requests/watch.py, wsgi/deadlines.py).

The stack of a Django request has twenty frames of Django, and one or two of the app; a reader looks for the app's.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from types import FrameType

from .named_tuple import NamedTuple
from .patterns import lazy_pattern

MAX_CALLS = 30  # of the app's own calls to show
# The most calls to show below the app's last call: the place of the wait. Guess: a lock or a socket is three calls away.
MAX_INNERMOST = 3
_INSTALLED = lazy_pattern(r".*[/\\](?:site|dist)-packages[/\\]([^/\\.]+)")
_STANDARD = os.path.dirname(os.__file__) + os.sep
_AROUND = os.path.dirname(os.path.dirname(__file__)) + os.sep  # the package


class Call(NamedTuple):
    """The place of a frame in the source."""

    path: str
    line: int
    function: str


def outer_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """
    Yield a frame, and its callers, the innermost first.

    PyPy may end early if another thread runs compiled code: 7.3.11 then raises a SystemError, once in some runs.
    """
    while frame is not None:
        yield frame
        try:
            frame = frame.f_back
        except SystemError:
            return


def calls_of(frames: Iterable[FrameType]) -> list[Call]:
    """Return where frames are at this moment: a running thread moves on."""
    return [Call(frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name) for frame in frames]


def library_of(path: str) -> str:
    """Return the library of a file: an installed package or a module of Python's; "": the app's own code."""
    installed = _INSTALLED.match(path)
    if installed:
        return installed[1]
    for folder, name in ((_AROUND, "aserve"), (_STANDARD, "")):
        if path.startswith(folder):
            return name or path[len(folder) :].partition(os.sep)[0].partition(".")[0]
    return path.strip("<>") if path.startswith("<") else ""


def show_calls(calls: Sequence[Call]) -> str:
    """Return a stack as text, the innermost call first, as in `calls`."""
    first_own = next((number for number, call in enumerate(calls) if not library_of(call.path)), None)
    if first_own is None:
        return _show(calls[:MAX_CALLS]) + _show_left_out(calls[MAX_CALLS:])
    lines = [_show(calls[: min(first_own, MAX_INNERMOST)]), _show_left_out(calls[MAX_INNERMOST:first_own])]
    room = MAX_CALLS
    for is_own, group in groupby(calls[first_own:], lambda call: not library_of(call.path)):
        run = list(group)
        shown = run[:room] if is_own else []
        room -= len(shown)
        lines += [_show(shown), _show_left_out(run[len(shown) :])]
    return "".join(lines)


def where_of(calls: Sequence[Call]) -> str:
    """Return the app's innermost call, or else the innermost of all, in one line; "": no call."""
    for call in (*(call for call in calls if not library_of(call.path)), *calls):
        return f'File "{call.path}", line {call.line}, in {call.function}'
    return ""


def _show(calls: Sequence[Call]) -> str:
    return "".join(traceback.format_list([traceback.FrameSummary(*call) for call in calls]))


def _show_left_out(calls: Sequence[Call]) -> str:
    if not calls:
        return ""
    names = list(dict.fromkeys(library_of(call.path) or "the app" for call in calls))
    whose = ", ".join([*names[:4], *(["others"] if names[4:] else [])])
    return f"  ({len(calls)} call{'s' if calls[1:] else ''} of {whose})\n"
