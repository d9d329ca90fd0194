"""The features and event loops of the running interpreter."""

import asyncio
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import pytest

from .combining import marked

IS_PYPY = sys.implementation.name == "pypy"
# Of tests of C alone, of the layout, and of the programs that measure, which CPython runs.
ONCE = pytest.mark.skipif(IS_PYPY, reason="no interpreter has a part in it: CPython's run does")

NEEDS_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="workers need Linux")


def once(*values: Any) -> Any:
    """Return a row of `parametrize` for CPython's run alone: its difference from PyPy's rows is no interpreter's."""
    return pytest.param(*values, marks=ONCE)


def later_on_pypy(*values: Any) -> Any:
    """Return a row of `parametrize` that `make test` leaves out on PyPy: another row shows there the interpreter's part."""
    return pytest.param(*values, marks=pytest.mark.long_on_pypy)


def first_on_pypy(rows: Iterable[Any]) -> list[Any]:
    """Return rows of `parametrize`, of which `make test` runs the first alone on PyPy; a tuple is a row of several values."""
    first, *others = rows
    return [first, *(marked(row, pytest.mark.long_on_pypy) for row in others)]


def has_module(name: str) -> bool:
    """Whether a module can be imported."""
    return importlib.util.find_spec(name) is not None


# The possible values of --native: without the extension, auto is off.
NATIVE_KINDS = ["off", *(["auto"] if has_module("aserve._native") else [])]
LOOP_KINDS = ["asyncio", *(["uvloop"] if has_module("uvloop") else [])]


def new_loop(kind: str) -> asyncio.AbstractEventLoop:
    if kind == "uvloop":
        import uvloop

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()


def can_unshare() -> bool:
    """Whether a test may make a namespace of processes, as of a container."""
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "true"]
    return bool(shutil.which("unshare")) and subprocess.run(command, capture_output=True, check=False).returncode == 0
