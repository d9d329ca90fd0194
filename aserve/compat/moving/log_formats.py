"""Formats of log lines, in uWSGI's names or gunicorn's.

Owns:     take_log_format, take_time_form.
Thread:   any.
Not here: the values of a line (features/access_log/log_values.py), where lines are written (uwsgi_values.py).
"""

from __future__ import annotations

import re

from .draft import Draft, Given, check

UWSGI_LINES = "uwsgi"  # the name of uWSGI's own format
# By uWSGI's name: what shows the same value, where the access log has another meaning for that name, or none.
_OURS = {
    "secs": "%(duration)", "size": "%(sent)", "user": "%(var.REMOTE_USER)", "time": "%(start.time)", "ltime": "%(start.ltime)",
    "ftime": "%(start.ltime)", "ctime": "%(start.ctime)", "modifier1": "0", "modifier2": "0",
}  # fmt: skip
# The other names of uWSGI, which are the access log's.
_SAME = {
    "addr", "method", "uri", "host", "proto", "uagent", "referer", "status", "rsize", "hsize", "msecs", "micros", "epoch", "tmsecs", "tmicros",
    "pid", "wid", "cl", "vars", "pktsize", "headers", "switches", "core",
}  # fmt: skip
_LACKING = re.compile(r"(vszM?|rssM?|werr|rerr|ioerr|metric\..*)\Z")
_ADDED = re.compile(r"%\((vars|pktsize|var\.(SERVER_NAME|SERVER_PORT|SCRIPT_NAME|REMOTE_PORT|REQUEST_SCHEME|HTTPS))\)")
_NAMES = re.compile(r"%\(([^()]*)\)")


def take_log_format(draft: Draft, given: Given) -> None:
    """Take log-format, or gunicorn's; a name that the server has and the access log has not is a hyphen."""
    form = given.value
    unknown: dict[str, None] = {}
    if isinstance(form, str):
        form = (_of_uwsgi if given.key.startswith("log") else _of_gunicorn)(form, unknown)
    try:
        check("access-log-format", form)
    except ValueError as fault:
        draft.note(given, f"{str(fault).partition(';')[0]}; lines are in the default format")
    else:
        if given.key.startswith("log") and _ADDED.search(form):
            draft.note(
                given, "lines are without the variables that uWSGI adds to a request of HTTP, such as SERVER_NAME"
            )
        if unknown:
            draft.note(given, f"lines have a hyphen for what is not known: {', '.join(unknown)}")
        draft.put("access-log-format", form, given)
        if "%(ftime)" in str(given.value):
            take_time_form(draft, given._replace(key="ftime"))


def take_time_form(draft: Draft, given: Given) -> None:
    """Take what gives %(ftime) a form of its own, all three together: log-date with a form, logformat-strftime, and the name in log-format."""
    if given.key not in ("log-date", "logdate") or "%" in str(given.value):
        draft.facts[given.key.replace("-", "")] = given
    if {"ftime", "logformatstrftime", "logdate"} <= draft.facts.keys():
        draft.note(draft.facts["logdate"], "%(ftime) has the form of %(ltime), and not this one")


def _of_uwsgi(form: str, unknown: dict[str, None]) -> str:
    """Return uWSGI's format in ours; a name that is none of uWSGI's is the app's, by `set_logvar`."""

    def show(match: re.Match[str]) -> str:
        name = match[1]
        if name in _OURS or name in _SAME or name.startswith("var."):
            return _OURS.get(name, match[0])
        if _LACKING.match(name):
            unknown[name] = None
            return "-"
        return f"%(logvar.{name})"

    form = _NAMES.sub(show, re.sub(r"%(?!\()", "%%", form))
    ends = [form[match.end() : match.end() + 1] for match in _NAMES.finditer(form)]
    return (
        _NAMES.sub(r"\g<0>s", form) if {*ends} == {"s"} else form
    )  # an s behind each name is gunicorn's; there it is text


def _of_gunicorn(form: str, unknown: dict[str, None]) -> str:
    form = form.replace("%(b)s", "%(B)s")  # there 0 for a body without octets, and here a hyphen
    for name in _NAMES.findall(form):
        try:
            check("access-log-format", f"%({name})")
        except ValueError:
            unknown[name] = None
            form = re.sub(rf"%\({re.escape(name)}\)(s(?![A-Za-z]))?", "-", form)
    return form
