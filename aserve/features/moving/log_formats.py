"""Formats of log lines, in uWSGI's names or gunicorn's.

Owns:     take_log_format.
Thread:   any.
Not here: the values of a line (features/access_log/log_values.py), where lines are written (uwsgi_values.py).
"""

from __future__ import annotations

import re
from typing import Any

from .draft import Draft, Given, check

UWSGI_LINES = "uwsgi"  # the name of uWSGI's own format
_NAMES = re.compile(r"%\(([^()]*)\)")


def take_log_format(draft: Draft, given: Given) -> None:
    """Take log-format; a value that the access log has not is a hyphen, as in uWSGI."""
    form, unknown = _without_unknown(given.value)
    try:
        check("access-log-format", form)
    except ValueError as fault:
        draft.note(given, f"{str(fault).partition(';')[0]}; lines are in the default format")
    else:
        if unknown:
            draft.note(given, f"lines have a hyphen for what is not known: {', '.join(unknown)}")
        draft.put("access-log-format", form, given)


def _without_unknown(form: Any) -> tuple[Any, list[str]]:
    """Return a format with a hyphen for each unknown name, and these names."""
    if isinstance(form, str):
        form = form.replace("%(ftime)", "%(ltime)")  # which it is there, too, without log-format-strftime
    unknown = []
    for name in _NAMES.findall(form) if isinstance(form, str) else ():
        try:
            check("access-log-format", f"%({name})")
        except ValueError:
            unknown.append(name)
            form = re.sub(rf"%\({re.escape(name)}\)(s(?![A-Za-z]))?", "-", form)
    return form, [*dict.fromkeys(unknown)]
