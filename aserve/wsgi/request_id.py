"""A name for each request, for logs and for the client: given by a proxy, or made here.

Owns:     RequestId; `request_id_of`.
Thread:   a worker (with --threads 0: the event loop).
Not here: the form in a log (features/access_log/log_values.py).

A gateway has this step only if the access log's format shows the name, or with --request-id-header; the app finds the name as HTTP_X_REQUEST_ID.
The field is a part of the response's form, as in features/queue_wait.py: so every head has the field.

Measured 2026-11-23, the CPU time of this step: on CPython 3.11 0.5 us for a request with a name, half for the check of the name; with the field 1.4
us, and 0.4 us on PyPy 3.9.
"""

from __future__ import annotations

import os
import re

from ..core.exchange import Exchange
from .gateway import Before

MAX_REQUEST_ID = 128  # in a log: a UUID has 36, AWS's X-Ray ids have 35. Guess: no system's are longer.

_NAME = "HTTP_X_REQUEST_ID"
_MARK = f"\0{_NAME}\0"
# Names fit for the response: as long as in a log, and without line ends and the like, possible in a front server's vars.
_match = re.compile(r"([!-~]{1,128})(?:\0|\Z)").match


def _find(vars: str) -> int:
    """Return the position of the name's pair; -1: none. A value may look like the name, as in GET /?HTTP_X_REQUEST_ID."""
    at, before, count = vars.find(_MARK), 0, 0
    while at >= 0:
        count += vars.count("\0", before, at)
        if count % 2:  # each name, but the first, has pairs in front: an odd number of NULs
            break
        before, at = at, vars.find(_MARK, at + 1)
    return at


class RequestId(Before):
    """Names each request without a name."""

    __slots__ = ("beginning",)
    is_done_in_c = True

    def __init__(self, field_name: str | None = None) -> None:
        """`field_name`: the response's field with the name; None: no such field."""
        self.beginning = f"{field_name}: " if field_name is not None else ""

    def before(self, exchange: Exchange, made: str = "") -> None:
        """Add a missing name to the vars: `made`, or a new one."""
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
    """Return the name of a request, from outside or from here, in a log's form; None: no name."""
    parts = iter(exchange.vars.split("\0"))
    sent = dict(zip(parts, parts)).get(_NAME)
    return sent[:MAX_REQUEST_ID] if sent else None
