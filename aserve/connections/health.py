"""Health checks over HTTP, uwsgi and SCGI: which requests they are, and what they get.

Owns:     HealthPaths, what stands below --healthcheck-path.
Thread:   `probe_of` the event loop, and the lane's leader; `answer` the event loop.
Not here: what may be wrong (service.py), sending (wire_loop.py).

The event loop answers, whatever its workers do. So `live` tells that the loop turns, and that the leader or, while
every worker is busy, the loop itself takes what comes (workers/executor.py).
"""

from __future__ import annotations

from ..core.exchange import Exchange
from ..wsgi.environ import build_bodyless_environ
from ..wsgi.response import CommonFields, plain_response

LIVE, READY = "live", "ready"
METHODS = ("GET", "HEAD")
# What `aserve balancers` asks for, and why the server is then not ready; "": it may be.
WISHES = {"ready": "", "drain": "drained by aserve balancers", "maint": "in maintenance by aserve balancers"}


class HealthPaths:
    """The paths at which a server tells how it is."""

    def __init__(self, path: str) -> None:
        self.path = path  # it is in the vars of each request for one of them
        self._probes = {path: READY, f"{path}/{READY}": READY, f"{path}/{LIVE}": LIVE}

    def probe_of(self, exchange: Exchange) -> str:
        """Return what a request asks, LIVE or READY; "": it is the app's. The exchange knows its connection."""
        if self.path not in exchange.vars or exchange.rpc is not None:
            return ""
        environ = build_bodyless_environ(exchange)
        return self._probes.get(environ["PATH_INFO"], "") if environ["REQUEST_METHOD"] in METHODS else ""


def answer(probe: str, warning: str, exchange: Exchange, common_fields: CommonFields) -> bytes:
    """Return the response to a probe; `warning` says why the server is not ready, if it is not."""
    why = warning if probe == READY else ""
    # RFC 9111 5.2.2.5: how it was is of no use to anybody.
    return plain_response(503 if why else 200, why or probe, exchange, common_fields, b"Cache-Control: no-store\r\n")
