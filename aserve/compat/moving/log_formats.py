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
# A name may be one that the app gives to uwsgi.set_logvar, unless it is one of uWSGI's.
LOGGED = re.compile(r"[A-Za-z_][\w.-]+\Z")
LACKING = re.compile(
    r"(cpu|vszM?|rssM?|tmsecs|tmicros|werr|rerr|ioerr|backlog|modifier[12]|pid_time|memory|metric\..*|func\..*|metric)\Z"
)
_NAMES = re.compile(r"%\(([^()]*)\)")


def take_log_format(draft: Draft, given: Given) -> None:
    """Take log-format; a name that uWSGI has and the access log has not is a hyphen, and any other is the app's, by `set_logvar`."""
    form, unknown = _without_unknown(given.value, has_logged=given.key.startswith("log"))  # gunicorn's has none
    try:
        check("access-log-format", form)
    except ValueError as fault:
        draft.note(given, f"{str(fault).partition(';')[0]}; lines are in the default format")
    else:
        if unknown:
            draft.note(given, f"lines have a hyphen for what is not known: {', '.join(unknown)}")
        draft.put("access-log-format", form, given)


def _without_unknown(form: Any, has_logged: bool) -> tuple[Any, list[str]]:
    """Return a format with a hyphen for each unknown name, and these names; `has_logged`: others may be of `set_logvar`."""
    if isinstance(form, str):
        form = form.replace("%(ftime)", "%(ltime)")  # which it is there, too, without log-format-strftime
    unknown = []
    for name in _NAMES.findall(form) if isinstance(form, str) else ():
        try:
            check("access-log-format", f"%({name})")
        except ValueError:
            is_set = has_logged and LOGGED.match(name) and not LACKING.match(name)
            if not is_set:
                unknown.append(name)
            text = f"%(logvar.{name})" if is_set else "-"
            form = re.sub(rf"%\({re.escape(name)}\)(s(?![A-Za-z]))?", text, form)
    return form, [*dict.fromkeys(unknown)]
