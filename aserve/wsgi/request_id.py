"""A name for each request, for logs, and for who gets the response: what a proxy has given it, or one of ours.

Owns:     RequestId; `request_id_of`.
Thread:   a worker (with --threads 0: the event loop).
Not here: how a log shows it (features/access_log/log_values.py).

A gateway asks it only if the access log's format shows the name, or with --request-id-header; the app finds it as
HTTP_X_REQUEST_ID. The field is a part of the response's form, as in features/queue_wait.py: so it is in whichever head is made.

Measured 2026-11-23, the CPU time of a request's way through here: on CPython 3.11 0.5 us with a name that came, half of it to see that it
is a name; with the field 1.4 us, and 0.4 us on PyPy 3.9.
"""

from __future__ import annotations

import os
import re

from ..core.exchange import Exchange
from .gateway import Before

MAX_REQUEST_ID = 128  # as a log shows it: a UUID has 36, AWS's X-Ray ids have 35. Guess: nobody's is longer.

_NAME = "HTTP_X_REQUEST_ID"
_MARK = f"\0{_NAME}\0"
# What may be told: as long as in a log, and nothing that a front server's vars could hide, such as the end of a line.
_match = re.compile(r"([!-~]{1,128})(?:\0|\Z)").match


def _find(vars: str) -> int:
    """Return where the name stands, with what is around it; -1: nowhere. What is between two names may be the same, as in GET /?HTTP_X_REQUEST_ID."""
    at, before, count = vars.find(_MARK), 0, 0
    while at >= 0:
        count += vars.count("\0", before, at)
        if count % 2:  # each name, but the first, has pairs before it: an odd number of NULs, and its own
            break
        before, at = at, vars.find(_MARK, at + 1)
    return at


class RequestId(Before):
    """Names each request that has no name."""

    __slots__ = ("beginning",)
    is_done_in_c = True

    def __init__(self, field_name: str | None = None) -> None:
        """`field_name`: of the response's field that tells it; None: no field does."""
        self.beginning = f"{field_name}: " if field_name is not None else ""

    def before(self, exchange: Exchange, made: str = "") -> None:
        """Add the name to the vars if it is not there: one that was made already, or a new one."""
        vars = exchange.vars
        at = _find(vars)
        if at < 0:
            at = len(vars)
            # As long and as random as a trace id of OpenTelemetry.
            exchange.vars = f"{vars}{_MARK}{made or os.urandom(16).hex()}"
        if self.beginning:
            found = _match(exchange.vars, at + len(_MARK))
            if found is not None:
                exchange.form = exchange.form.with_line(f"{self.beginning}{found[1]}\r\n".encode("ascii"))


def request_id_of(exchange: Exchange) -> str | None:
    """Return the name that a request has come with, or was given, as a log shows it; None: it has none."""
    parts = iter(exchange.vars.split("\0"))
    sent = dict(zip(parts, parts)).get(_NAME)
    return sent[:MAX_REQUEST_ID] if sent else None
