"""Health checks over HTTP, uwsgi and SCGI: recognizing and answering them.

Owns:     HealthPaths, the paths below --healthcheck-path.
Thread:   `probe_of` the event loop, and the lane's leader; `answer` the event loop.
Not here: the reasons against ready (service.py), sending (wire_loop.py).

The event loop answers, beside busy workers. So `live` shows that the loop runs, and that the leader or, while every worker is busy, the loop itself
receives requests (workers/executor.py).
"""

from __future__ import annotations

from ..core.exchange import Exchange
from ..wsgi.environ import build_bodyless_environ
from ..wsgi.response import CommonFields, plain_response

LIVE, READY = "live", "ready"
METHODS = ("GET", "HEAD")
# The wishes of `aserve balancers`, and the reason of each against ready; "": none.
WISHES = {"ready": "", "drain": "drained by aserve balancers", "maint": "in maintenance by aserve balancers"}


class HealthPaths:
    """The paths of the health checks of a server."""

    def __init__(self, path: str) -> None:
        self.path = path  # in the vars of each request for one of the paths
        self._probes = {path: READY, f"{path}/{READY}": READY, f"{path}/{LIVE}": LIVE}

    def probe_of(self, exchange: Exchange) -> str:
        """Return the kind of a check, LIVE or READY; "": a request for the app. `exchange.connection` must be set."""
        if self.path not in exchange.vars or exchange.rpc is not None:
            return ""
        environ = build_bodyless_environ(exchange)
        return self._probes.get(environ["PATH_INFO"], "") if environ["REQUEST_METHOD"] in METHODS else ""


def answer(probe: str, warning: str, exchange: Exchange, common_fields: CommonFields) -> bytes:
    """Return the response to a probe; `warning`: the reason against ready, if any."""
    why = warning if probe == READY else ""
    # RFC 9111 5.2.2.5: an old answer is of no use.
    return plain_response(503 if why else 200, why or probe, exchange, common_fields, b"Cache-Control: no-store\r\n")
