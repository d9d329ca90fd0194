"""The frames of a thread's stack, and how a person reads them.

Owns:     outer_frames; Call, one of them as it is at a moment; show_calls, a stack as text: the last call first, and what is not the
          app's own in few lines; where_of, the one line of the app's that matters.
Thread:   any; show_calls reads source files.
Not here: what is said of them (connections/stacks.py, features/slow_requests/watch.py, wsgi/deadlines.py).

A request of Django's is twenty frames of Django's, and one or two of the app's, which a reader looks for.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from types import FrameType
from typing import NamedTuple

MAX_CALLS = 30  # of the app's own; those inside the others
# Of the calls from the app's last one on: what it waits in. Guess: a lock or a socket is three calls away.
MAX_INNERMOST = 3
_INSTALLED = re.compile(r".*[/\\](?:site|dist)-packages[/\\]([^/\\.]+)")
_STANDARD = os.path.dirname(os.__file__) + os.sep
_AROUND = os.path.dirname(os.path.dirname(__file__)) + os.sep  # the package


class Call(NamedTuple):
    """Where a frame is."""

    path: str
    line: int
    function: str


def outer_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """
    Yield a frame, and those that it was called by, the innermost first.

    PyPy ends early where another thread is in code that is compiled: 7.3.11 then raises a SystemError, once in some runs.
    """
    while frame is not None:
        yield frame
        try:
            frame = frame.f_back
        except SystemError:
            return


def calls_of(frames: Iterable[FrameType]) -> list[Call]:
    """Return where frames are at this moment: a thread that runs goes on."""
    return [Call(frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name) for frame in frames]


def library_of(path: str) -> str:
    """Return whose code is in a file: the name of an installed package or of a module of Python's; "": the app's own."""
    installed = _INSTALLED.match(path)
    if installed:
        return installed[1]
    for folder, name in ((_AROUND, "aserve"), (_STANDARD, "")):
        if path.startswith(folder):
            return name or path[len(folder) :].partition(os.sep)[0].partition(".")[0]
    return path.strip("<>") if path.startswith("<") else ""


def show_calls(calls: Sequence[Call]) -> str:
    """Return a stack as text, whose innermost call comes first, as in `calls`."""
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
    """Return the app's own call that is the last, or else the last of all, in one line; "" if there is none."""
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
