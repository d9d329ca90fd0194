"""The C library's arenas: one for all threads of PyPy."""

import platform
import subprocess
import sys

import pytest

from aserve.lifecycle import arenas

IN_THREADS = """
import ctypes, os, threading
from aserve.lifecycle.arenas import share_one_arena
assert share_one_arena({})
kept = []
threads = [threading.Thread(target=lambda: kept.extend(bytearray(200_000) for _ in range(5))) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
ctypes.CDLL(None).malloc_stats()
"""


@pytest.mark.skipif(not arenas.IS_PYPY or platform.libc_ver()[0] != "glibc", reason="of PyPy with glibc")
def test_one_for_all_threads():
    done = subprocess.run([sys.executable, "-c", IN_THREADS], capture_output=True, text=True, check=True)
    assert "Arena 0" in done.stderr and "Arena 1" not in done.stderr


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES"])
def test_what_the_environment_says(monkeypatch, name):
    monkeypatch.setattr(arenas, "IS_PYPY", True)
    assert not arenas.share_one_arena({name: "4"})


def test_cpython_keeps_its_arenas(monkeypatch):
    monkeypatch.setattr(arenas, "IS_PYPY", False)
    assert not arenas.share_one_arena({})


@pytest.mark.parametrize("result", [1, 0])
def test_pypy_asks_the_library_once(monkeypatch, result):
    calls = []

    class Library:
        def __init__(self, name):
            assert name is None

        def mallopt(self, *arguments):
            calls.append(arguments)
            return result

    monkeypatch.setattr(arenas, "IS_PYPY", True)
    monkeypatch.setattr("ctypes.CDLL", Library)
    assert arenas.share_one_arena({}) == bool(result) and calls == [(-8, 1)]


@pytest.mark.parametrize("error", [OSError, AttributeError])
def test_another_library_goes_on_unchanged(monkeypatch, error):
    def refuse(name):
        raise error

    monkeypatch.setattr(arenas, "IS_PYPY", True)
    monkeypatch.setattr("ctypes.CDLL", refuse)
    assert not arenas.share_one_arena({})
