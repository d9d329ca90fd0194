"""aserve with types, for `mypy --strict` and pyright; run as a script it serves itself one request."""

from __future__ import annotations

import asyncio
import sys
import urllib.request
from collections.abc import Iterable
from typing import TYPE_CHECKING

import aserve

if TYPE_CHECKING:  # in the standard library from Python 3.11 on; type checkers know it for every version
    from wsgiref.types import StartResponse, WSGIEnvironment


def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Answer with the path."""
    start_response("200 OK", [("Content-Type", "text/plain; charset=utf-8")])
    return [environ["PATH_INFO"].encode("latin-1")]


@aserve.post_fork
def connect() -> None:
    """Open what processes must not share."""


def double(number: bytes) -> bytes:
    """Answer a call of another server."""
    return b"%d" % (2 * int(number))


def fetch(url: str) -> str:
    """Return the body of a response."""
    with urllib.request.urlopen(url) as response:
        body: bytes = response.read()
    return body.decode()


async def main() -> str:
    """Serve, ask, and look at the numbers."""
    aserve.rpc.register("double", double)
    async with aserve.Server(app, aserve.Config(bind="127.0.0.1:0", threads=2)) as server:
        [url] = server.urls
        host, port = server.addresses[0]
        assert url == f"http://{host}:{port}"
        body = await asyncio.to_thread(fetch, f"{url}/hello")
        now: aserve.Statistics = server.statistics()
        assert now.requests == 1 and not now.is_draining
    return body


if __name__ == "__main__":
    try:
        print(asyncio.run(main()))
    except (aserve.BindError, aserve.AserveError) as exc:
        sys.exit(str(exc))
