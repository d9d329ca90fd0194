"""One request head through each parser: ours by cffi, llhttp by httptools, h11. Times as JSON, for bench_parse.py.

Use:      .venv-bench/bin/python benchmarks/parsers.py [NAME ...]    names below tests/corpus/http1/accept
Runs on:  the interpreter that is measured, CPython or PyPy; what it has no parser for has no figure.
Keys:     `ours` is the bare call into C; `ours_named` adds what wsgi/environ.py needs of it, the vars block as Python
          strings; `httptools` keeps the same fields by its callbacks; `h11` makes its Request.
Numbers:  the best of several runs, in nanoseconds a head.
Not here: flags, the table, the file (bench_parse.py).
"""

from __future__ import annotations

import json
import pathlib
import sys
import timeit
from typing import Any, Callable

from aserve._cparsers import ffi, lib

try:
    import httptools
except ImportError:  # PyPy
    httptools = None
try:
    import h11
except ImportError:
    h11 = None

CORPUS = pathlib.Path(__file__).parents[1] / "tests" / "corpus" / "http1" / "accept"
NAMES = ["bare-get", "client-curl", "client-wrk", "proxy-nginx-keepalive", "client-firefox", "client-chrome"]
RUNS = 7
VARS = ffi.new("char[]", 2 * 65536 + 256)
VARS_VIEW = ffi.buffer(VARS)


def make_head() -> Any:
    """Return a http1_head with the server's usual limits."""
    head = ffi.new("http1_head *")
    head.vars = VARS
    head.vars_cap = len(VARS)
    head.max_line_len, head.max_head_len, head.max_fields = 8190, 65536, 100
    return head


HEAD = make_head()


def parse(raw: bytes) -> None:
    """Parse one head; leave the result in C."""
    lib.http1_parse_head(raw, len(raw), 0, HEAD)


def parse_and_name(raw: bytes) -> dict[str, str]:
    """Parse one head; return its vars."""
    lib.http1_parse_head(raw, len(raw), 0, HEAD)
    words = VARS_VIEW[: HEAD.vars_len].decode("latin-1").split("\0")
    return dict(zip(words[::2], words[1::2]))


class Callbacks:
    """What a server built on httptools keeps of a head."""

    def __init__(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = []

    def on_url(self, url: bytes) -> None:
        self.url = url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))


def parse_with_httptools(raw: bytes) -> Callbacks:
    """Parse one head with llhttp."""
    seen = Callbacks()
    parser = httptools.HttpRequestParser(seen)
    parser.feed_data(raw)
    parser.get_method()
    return seen


def parse_with_h11(raw: bytes) -> Any:
    """Parse one head with h11; return its Request."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(raw)
    return connection.next_event()


PARSERS: dict[str, Callable[[bytes], object]] = {"ours": parse, "ours_named": parse_and_name}
if httptools is not None:
    PARSERS["httptools"] = parse_with_httptools
if h11 is not None:
    PARSERS["h11"] = parse_with_h11


def best(function: Callable[[bytes], object], raw: bytes) -> float:
    """Return the best time of one call, in nanoseconds."""
    timer = timeit.Timer(lambda: function(raw))
    number = max(1, timer.autorange()[0] // 4)  # 50 ms or more: the best of several short runs is the undisturbed one
    return min(timer.repeat(RUNS, number)) / number * 1e9


def measure(names: list[str]) -> list[dict[str, Any]]:
    """Return a row for each head: its name, its octets, and the time of each parser."""
    heads = {name: (CORPUS / f"{name}.raw").read_bytes() for name in names}
    return [
        {"head": name, "octets": len(raw), **{key: round(best(each, raw)) for key, each in PARSERS.items()}}
        for name, raw in heads.items()
    ]


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1:] or NAMES)))
