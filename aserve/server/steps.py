"""The steps of the engine that each exchange takes before those of extensions.

Owns:     steps_of: times, names, trusted proxies, calls by RPC.
Thread:   event loop only, before it serves.
Not here: what a step does (its own module), the steps of extensions (extension.py).

C takes the same steps for plain requests (connections/lane/plain.py).
"""

from __future__ import annotations

from ..extension import ListenerContext
from ..proxies.trust import Trust, TrustedProxies
from ..rpc import registry
from ..settings import EngineSettings
from ..wsgi.gateway import Before
from ..wsgi.request_id import RequestId
from ..wsgi.rpc_calls import RPCCalls
from ..wsgi.timing import Timing


def steps_of(
    context: ListenerContext, trust: Trust | None, config: EngineSettings, times_requests: bool, names_requests: bool
) -> list[Before]:
    """Return them for one listener, in their order; `trust`: in its proxies, None: it trusts none."""
    steps: list[Before] = []
    if times_requests:
        steps.append(Timing())
    if names_requests or config.request_id_header is not None:
        steps.append(RequestId(config.request_id_header))
    if trust is not None:
        steps.append(TrustedProxies(context.common_fields, trust, context.listener.url))
    if context.listener.bind.protocol == "uwsgi":
        steps.append(RPCCalls(context.common_fields, registry))
    return steps
