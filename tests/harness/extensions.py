"""A server's extensions, for tests that look into one."""

import types
from typing import Any, TypeVar

from aserve.core.exchange import Exchange
from aserve.extension import Extension, ServerContext
from aserve.server.server import Server
from aserve.workers.busy import Busy

Kind = TypeVar("Kind", bound=Extension)


def extension_of(server: Server, kind: type[Kind]) -> Kind:
    (found,) = [one for one in server._extensions._all if type(one) is kind]
    return found  # type: ignore[return-value]


def flush_ends(server: Server) -> None:
    """Let readers have the waiting ends of requests."""
    if server._commons.ends is not None:
        server._commons.ends.flush()


def new_context(server: Any = None, **changes: Any) -> ServerContext:
    """Return the start context of an extension of this server, or of none."""
    nothing = ServerContext(server, None, None, Busy(1), None, [], lambda name: None)  # type: ignore[arg-type]
    return nothing._replace(**changes)


def new_exchange() -> Exchange:
    """Return an exchange of a client, without a request."""
    exchange = Exchange("", 0)
    exchange.connection = types.SimpleNamespace(remote_addr="10.0.0.1")  # type: ignore[assignment]
    return exchange
