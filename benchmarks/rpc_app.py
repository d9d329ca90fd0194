"""The RPC function that bench_rpc.py calls: its arguments reversed, joined by `|`.

Use:      SERVER rpc_app:app; aserve and uWSGI alike have the module `uwsgi`.
Not here: what it is called with, and what it must return (servers.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import uwsgi


def myfunc(*arguments: bytes) -> bytes:
    """Return the arguments in reverse order."""
    return b"|".join(arguments[::-1])


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer whatever is no call."""
    start_response("404 Not Found", [("Content-Length", "0")])
    return []


uwsgi.register_rpc("myfunc", myfunc)
