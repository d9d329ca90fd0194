"""The app of bench_reload.py: slow to be imported, in a version, for WSGI and ASGI.

Use:      a copy of it is deployed as site_app.py, with another version each time (events.py).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable
from typing import Any

VERSION = b"one"
SLOW_SECONDS = 1.0  # what a request for /slow takes
FIELDS = [("Content-Type", "text/plain"), ("Content-Length", str(len(VERSION)))]

time.sleep(float(os.environ["IMPORT_SECONDS"]))  # what a large program does


def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Answer with the version."""
    if environ["PATH_INFO"] == "/slow":
        time.sleep(SLOW_SECONDS)
    start_response("200 OK", FIELDS)
    return [VERSION]


async def asgi(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answer with the version."""
    if scope["type"] != "http":
        return  # no lifespan
    if scope["path"] == "/slow":
        await asyncio.sleep(SLOW_SECONDS)
    headers = [(name.lower().encode(), value.encode()) for name, value in FIELDS]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": VERSION})
