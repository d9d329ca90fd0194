"""How long a request head takes to parse, through cffi, beside llhttp through httptools.

Use:      python benchmarks/bench_parse.py [NAME ...]    names below tests/corpus/http1/accept
Reads:    octets of the head and its body, as one call gets them.
Columns:  `parse` is the bare call into C; `+ names` adds what wsgi/environ.py needs of it, the vars block
          as Python strings; `httptools` is llhttp with callbacks that keep the same fields.
Numbers:  the best of several runs, in nanoseconds for each head.
"""

from __future__ import annotations

import pathlib
import platform
import sys
import timeit
from typing import Callable

from aserve._cparsers import ffi, lib

try:
    import httptools
except ImportError:  # PyPy
    httptools = None

CORPUS = pathlib.Path(__file__).parents[1] / "tests" / "corpus" / "http1" / "accept"
NAMES = ["bare-get", "client-curl", "client-wrk", "proxy-nginx-keepalive", "client-firefox", "client-chrome"]
RUNS = 7


def make_head() -> object:
    """Return a http1_head with the server's usual limits."""
    head = ffi.new("http1_head *")
    head.vars = VARS
    head.vars_cap = len(VARS)
    head.max_line_len, head.max_head_len, head.max_fields = 8190, 65536, 100
    return head


VARS = ffi.new("char[]", 2 * 65536 + 256)
VARS_VIEW = ffi.buffer(VARS)
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


def best(function: Callable[[bytes], object], raw: bytes) -> float:
    """Return the best time of one call, in nanoseconds."""
    timer = timeit.Timer(lambda: function(raw))
    number, _ = timer.autorange()
    return min(timer.repeat(RUNS, number)) / number * 1e9


def main(names: list[str]) -> None:
    """Print the table."""
    columns = {"parse": parse, "+ names": parse_and_name}
    if httptools is not None:
        columns["httptools"] = parse_with_httptools
    print(f"{platform.python_implementation()} {platform.python_version()}, {platform.machine()}; ns for each head")
    print(f"{'head':24}{'octets':>8}" + "".join(f"{column:>12}" for column in columns))
    for name in names:
        raw = (CORPUS / f"{name}.raw").read_bytes()
        times = [best(function, raw) for function in columns.values()]
        print(f"{name:24}{len(raw):8}" + "".join(f"{time:12.0f}" for time in times))


if __name__ == "__main__":
    main(sys.argv[1:] or NAMES)
