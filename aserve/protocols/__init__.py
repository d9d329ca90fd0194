"""The wire protocols by name and parser, and the lane's exchange factories by name; nothing else."""

from __future__ import annotations

from typing import Any, Callable

from . import http1, scgi, uwsgi
from .base import Limits


def _new_httptools_factory(limits: Limits) -> Any:
    from . import httptools1  # 0.3 MB of each process, for --http-parser httptools

    return httptools1.new_factory(limits)


PROTOCOLS: dict[tuple[str, str], Callable[[Limits], Any]] = {
    ("http", "c"): http1.new_factory,
    ("http", "httptools"): _new_httptools_factory,
    ("uwsgi", "c"): uwsgi.new_factory,
    ("scgi", "c"): scgi.new_factory,
}

EXCHANGE_FACTORIES = {
    "http": http1.new_exchange_factory,
    "uwsgi": uwsgi.new_exchange_factory,
    "scgi": scgi.new_exchange_factory,
}
