"""The server of tests/million.py: the soak's app, an RPC function, and how many requests C has served."""

from collections.abc import Iterable
from typing import Any

from harness import apps

from aserve import rpc
from aserve.connections.lane import native


def join(*arguments: bytes) -> bytes:
    """Join the arguments in reverse order."""
    return b"|".join(arguments[::-1])


def app(environ: Any, start_response: Any) -> Iterable[bytes]:
    """Be the site; beside it, tell how many requests C has served to the end, and how many it has left to Python in the middle."""
    if environ["PATH_INFO"] != "/served":
        return apps.site(environ, start_response)
    engines = [found.engine for found in (ref() for ref in native._natives.copy()) if found is not None]
    start_response("200 OK", apps.PLAIN)
    return [b"%d %d" % (sum(each.plain_count for each in engines), sum(each.promoted_count for each in engines))]


rpc.register("join", join)
