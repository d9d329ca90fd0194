"""Wherever memory is refused to C, C raises a MemoryError or answers rightly, and the next requests are answered as ever.

It happens in a process of its own: no thread of the tests' is to be refused memory.
"""

import gc
import importlib
import os
import pathlib
import subprocess
import sys

import pytest
from harness.environs import from_client, from_front, made_by_native, new_base

TESTS = pathlib.Path(__file__).parent.parent
FIELDS = [
    ("HTTP_HOST", "www.example"),
    ("HTTP_USER_AGENT", "Mozilla/5.0"),
    ("HTTP_X", "\xe9t\xe9"),
    ("HTTP_LONG", "y" * 700),
]
LINE = [
    ("REQUEST_METHOD", "POST"),
    ("REQUEST_URI", "/a%20b?c=d"),
    ("PATH_INFO", "/a b"),
    ("QUERY_STRING", "c=d"),
    ("SERVER_PROTOCOL", "HTTP/1.0"),
]
REQUESTS = [
    from_client(*FIELDS),
    from_client(*FIELDS, line=LINE),
    from_client(*FIELDS, *[(f"HTTP_X_{number}", f"value {number}") for number in range(40)]),  # the dict grows
    from_client(*FIELDS, ("HTTP_AUTHORIZATION", "Basic x")),
    from_client(("HTTP_A", "one"), ("HTTP_A", "two")),  # not plain
    from_front(("PATH_INFO", "/x y"), ("REQUEST_URI", "/x%20y"), ("HTTPS", "on"), ("SERVER_NAME", ""), *FIELDS),
    from_front(("REQUEST_URI", "/x?y"), *FIELDS),
    from_front(("DOCUMENT_URI", "/x y"), ("REQUEST_URI", "/x%20y"), *FIELDS),
    from_front(("PATH_INFO", "/x y"), ("SCRIPT_NAME", "/app"), *FIELDS),  # not plain
]


def refused_times():
    """Refuse each request in turn all memory from the n-th allocation on; return the count of failures."""
    native, api = (importlib.import_module(name) for name in ("aserve._native", "_testcapi"))
    refused = 0
    for request in REQUESTS:
        base = new_base()
        expected = made_by_native(native, base, request)
        for times_before in range(3):  # not seen yet; seen; kept
            nth, answered = 0, 0
            while answered < 5:  # in a row: C keeps less, without an error
                native.forget()
                for _ in range(times_before):
                    made_by_native(native, base, request)
                arguments = (
                    base,
                    request.is_front,
                    request.vars.encode("latin-1"),
                    request.own_count,
                    request.addr,
                    request.port,
                    0,
                )
                made = None
                api.set_nomemory(nth)
                try:
                    made = native.make_environ(*arguments)
                except MemoryError:
                    pass
                finally:
                    api.remove_mem_hooks()
                answered = 0 if made is None else answered + 1
                assert made is None or made == expected
                refused += made is None
                assert [native.make_environ(*arguments) for _ in range(3)] == [expected] * 3
                nth += 1
    native.forget()
    return refused


def main():
    """Run twice, and compare the memory in use."""
    refused = refused_times()
    gc.collect()
    blocks = sys.getallocatedblocks()
    assert refused_times() == refused
    gc.collect()
    assert refused > 100 and abs(sys.getallocatedblocks() - blocks) < 100, (refused, sys.getallocatedblocks() - blocks)


def test_lacking_memory_crashes_and_loses_nothing(native):
    pytest.importorskip("_testcapi", reason="this interpreter comes without its own tests")
    ended = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


if __name__ == "__main__":
    main()
