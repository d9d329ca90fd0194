"""An app whose garbage calls its requests' start_response, write() and early hints, wherever the collector runs: tests/e2e/test_finalizers.py."""

import contextlib
import gc
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

OCTETS = b"x" * 100_000


class Cycle:
    """Garbage that only the collector frees."""

    def __init__(self, environ: Any, start_response: Any, write: Any) -> None:
        self.itself, self.calls = self, [
            lambda: environ["wsgi.early_hints"]([("Link", "</>")]), lambda: start_response("200 OK", []), lambda: write(b"y"),
        ]  # fmt: skip

    def __del__(self) -> None:
        for call in self.calls:
            with contextlib.suppress(BaseException):
                call()


if sys.implementation.name == "pypy":

    def collect() -> None:
        while True:  # each collection stops all threads for some 50 ms
            gc.collect()
            time.sleep(0.1)

    threading.Thread(target=collect, daemon=True).start()


def app(environ: Any, start_response: Any) -> Any:
    """Answer in the form of the path; garbage may cut the response by writing."""
    gc.set_threshold(1, 1, 1)
    form = environ["PATH_INFO"]
    write = start_response("200 OK", [])
    for _ in range(3):
        Cycle(environ, start_response, write)
    if form == "/written":
        write(OCTETS)
    if form == "/pieces":
        return pieces(environ, start_response, write)
    return [OCTETS if form == "/large" else b"x"]


def pieces(*call: Any) -> Iterator[bytes]:
    """Yield a response, and leave garbage."""
    for _ in range(4):
        Cycle(*call)
        yield OCTETS
