"""Flags of gunicorn and uWSGI that somebody has typed to our command: what they are here.

Owns:     explain_flag.
Thread:   the main thread, in a command that ends with this.
Not here: what becomes of each setting (gunicorn_table.py, uwsgi_table.py), the sentence around it (flags.py).
"""

from __future__ import annotations

from .draft import BY_KEY, Row
from .gunicorn_table import FLAGS
from .gunicorn_table import TABLE as GUNICORN
from .uwsgi_logic import INCLUDES
from .uwsgi_table import TABLE as UWSGI


def explain_flag(flag: str) -> str:
    """Return what a flag of gunicorn's or uWSGI's, as "--timeout", is here; "": neither has it."""
    name = flag.lstrip("-")
    setting = FLAGS.get(flag, name.replace("-", "_"))
    if flag in FLAGS or (flag.startswith("--") and _has(GUNICORN.find(setting), setting)):
        return _explain("gunicorn", GUNICORN.find(setting))
    if not flag.startswith("--"):
        return ""  # uWSGI's short ones mean other things to gunicorn
    if name in INCLUDES:
        return "uWSGI's file is here --uwsgi-ini FILE"
    row = UWSGI.find(name)
    return _explain("uWSGI", row) if _has(row, name) else ""


def _has(row: Row | None, name: str) -> bool:
    """Whether a row is of this name, and not of a family alone."""
    return row is not None and name in row.names


def _explain(server: str, row: Row | None) -> str:
    assert row is not None
    text = row.text.replace("`", "")
    ours = " and ".join("the first argument" if key == "APP" else BY_KEY[key].flag for key in row.to)
    if ours:
        return f"{server} has it, and here it is {ours}" + (f": {text}" if text else "")
    return f"{server} has it; leave it out: {text}"
