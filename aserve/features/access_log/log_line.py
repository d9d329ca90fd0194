"""The grammars of two settings: the format of a line, and the requests without one.

Owns:     the names of the values (`ATOMS`), gunicorn's and uWSGI's spellings of a format, `Skip`.
Thread:   any; pure.
Not here: the source of the values, and their escaping (log_format.py); the lines (log.py).
"""

from __future__ import annotations

import fnmatch
import re

from ...core.named_tuple import NamedTuple
from ...core.near_names import near_names
from ...core.patterns import lazy_pattern

# The named formats. The JSON format, without text and placeholders, is in log_format.py.
COMMON = '%(h)s %(l)s %(u)s [%(ltime)s] "%(r)s" %(s)s %(b)s'
# uWSGI's own lines, without its log-format.
UWSGI_LINES = (
    "[pid: %(pid)|app: 0|req: %(counts)] %(addr) (%(remote_user)) {%(vars) vars in %(pktsize) bytes} [%(start.ctime)] %(method) %(uri) => "
    "generated %(rsize) bytes in %(msecs) msecs (%(proto) %(status)) %(headers) headers in %(hsize) bytes (%(switches) switches on core %(core))"
)
NAMED = {"common": COMMON, "combined": COMMON + ' "%(f)s" "%(a)s"', "uwsgi": UWSGI_LINES}
JSON = "json"

# gunicorn's names, of one letter each, and their meaning; then uWSGI's; then our own.
GUNICORN = {
    "h": "addr", "l": "-", "u": "user", "t": "[ltime]", "r": "request", "m": "method", "U": "path", "q": "query",
    "H": "proto", "s": "status", "B": "size", "b": "size_or_dash", "f": "referer", "a": "uagent", "T": "secs", "D": "micros",
    "M": "msecs", "L": "duration", "p": "<pid>",
}  # fmt: skip
UWSGI = {
    "addr", "method", "uri", "user", "host", "proto", "uagent", "referer", "status", "size", "rsize", "msecs", "micros",
    "secs", "time", "epoch", "ctime", "ltime", "pid", "wid", "cl", "vars", "pktsize", "headers", "hsize", "switches", "core",
}  # fmt: skip
OWN = {
    "request",
    "counts",
    "remote_user",
    "path",
    "query",
    "duration",
    "queue_wait",
    "hostname",
    "worker",
    "thread",
    "request_id",
    "end",
    "start.time", "start.ltime", "start.ctime", "tmsecs", "tmicros", "sent",
}  # fmt: skip
ATOMS = frozenset(GUNICORN) | UWSGI | OWN
# Values with a name of the user's: a request field, a response field, a variable (gunicorn: {X}i, {X}o, {X}e).
NAMED_KINDS = {"i": "field", "o": "response_field", "e": "variable"}

_ATOM = lazy_pattern(r"%(?:%|\(([^)]*)\)(s?))")
_NAMED_ATOM = lazy_pattern(r"\{([A-Za-z0-9_-]+)\}([ioe])\Z")
# A few wildcards suffice; a dozen could make one match slow.
_MAX_STARS = 4


class Atom(NamedTuple):
    """A value in a format: the name; `argument`: the `field`, `response_field` or `variable`."""

    name: str
    argument: str = ""


def parse_line_format(text: str) -> list[str | Atom]:
    """
    Return a format's text and values, in order.

    gunicorn writes %(h)s, uWSGI %(addr). An s after a name of several letters is text, as in uWSGI's "%(secs)s", unless
    an s follows every name, as in gunicorn's formats.

    Raises:
        ValueError: a name is not known, or the format has no values.
    """
    matches = [match for match in _ATOM.finditer(text) if match[1] is not None]
    if not matches:
        raise ValueError(f"{text!r} is neither the name of a format nor one that shows a value, such as %(h)s")
    has_suffixes = all(match[2] for match in matches)
    parts: list[str | Atom] = []
    at = 0
    for match in _ATOM.finditer(text):
        parts.append(text[at : match.start()])
        at = match.end()
        if match[1] is None:
            parts.append("%")
            continue
        atom = _atom_of(match[1])
        parts.append(atom)
        if match[2] and not (has_suffixes or len(match[1]) == 1 or match[1][0] == "{"):
            parts.append("s")
    parts.append(text[at:])
    stray = re.search(r"%\S*", _ATOM.sub(" ", text))
    if stray:
        raise ValueError(f"{stray[0]!r} is not of the form %(NAME) or %(NAME)s; a percent sign is %%")
    return [part for part in parts if part]


def _atom_of(name: str) -> Atom:
    named = _NAMED_ATOM.match(name)
    if named:
        return Atom(NAMED_KINDS[named[2]], named[1])
    if name.startswith("var.") and len(name) > len("var."):
        return Atom("variable", name[len("var.") :])
    if name.startswith("logvar.") and len(name) > len("logvar."):
        return Atom("variable", f"uwsgi.logvars{name[len('logvar') :]}")  # of uwsgi.set_logvar
    if name in ATOMS:
        return Atom(GUNICORN.get(name, name))
    near = near_names(name, sorted(ATOMS - set(GUNICORN)), 1)
    hint = near[0] if near else "one letter of gunicorn's, or {NAME}i"
    raise ValueError(f"%({name}) is not known; the nearest is {hint}")


class Skip(NamedTuple):
    """A pattern of requests without a line."""

    path: re.Pattern[str]  # of the path, decoded
    status: re.Pattern[str]  # of the status, in text


def parse_skip(text: str) -> Skip:
    """
    Parse `PATH [STATUS]`.

    Raises:
        ValueError: the text has another form.
    """
    path, *statuses = text.split()
    if not path.startswith(("/", "*")) or len(statuses) > 1:
        raise ValueError(f"{text!r} is not of the form 'PATH [STATUS]', as in '/healthz 2xx'")
    if path.count("*") > _MAX_STARS:
        raise ValueError(f"{path!r} has more than {_MAX_STARS} stars")
    status = statuses[0].lower() if statuses else "xxx"
    if not re.match(r"[0-9x]{3}\Z", status):
        raise ValueError(f"{statuses[0]!r} is not a status such as 200 or 2xx")
    return Skip(re.compile(fnmatch.translate(path)), re.compile(status.replace("x", "[0-9]") + r"\Z"))
