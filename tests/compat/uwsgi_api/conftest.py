"""Memory of `import uwsgi`, for a test alone."""

import os
import types

import pytest
from harness.sharing_uwsgi import Other, wait_for_runs

from aserve.compat.uwsgi_api import signals
from aserve.compat.uwsgi_api.memory import NOTHING, Memory


@pytest.fixture
def open_memory():
    """Make memory: open_memory(*texts, fd=None, extras=NOTHING) -> Memory; its file is closed behind the test."""
    opened = []

    def open_(*texts, fd=None, extras=NOTHING):
        opened.append(Memory.open(texts, fd, extras))
        return opened[-1]

    yield open_
    wait_for_runs()  # they let go of their locks, in the file
    for fd in {memory.fd for memory in opened}:
        os.close(fd)


@pytest.fixture
def clock(monkeypatch):
    """The clock of schedules: clock.now; no thread looks at it."""
    clock = types.SimpleNamespace(now=1_000_000 * 60.0)
    monkeypatch.setattr(signals, "_now", lambda schedule: clock.now)
    monkeypatch.setattr(signals.UwsgiSignals, "_run_clock", lambda self: None)
    return clock


@pytest.fixture
def memory(open_memory):
    return open_memory()


@pytest.fixture
def other():
    """Run code in another process: other(memory, code, *texts) -> Other, ended behind the test."""
    others = []

    def start(memory, code, *texts):
        others.append(Other(memory, code, texts))
        return others[-1]

    yield start
    for each in others:
        each.__exit__()
