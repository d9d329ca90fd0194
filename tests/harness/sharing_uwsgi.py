"""Another process on the same memory of `import uwsgi`."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

_BEGIN = """\
import os, sys, time
from aserve.compat.uwsgi_api.memory import Memory
from aserve.compat.uwsgi_api.settings import Extras
memory = Memory.open({texts!r}, {fd}, Extras(areas={areas!r}))
def tell(what):
    print(what, flush=True)
def wait():
    sys.stdin.readline()
"""


class Other:
    """A process that runs this code: `memory` is the memory, `tell(text)` and `wait()` speak with the test."""

    def __init__(self, memory: Any, code: str, texts: tuple[str, ...] = ()) -> None:
        areas = tuple(str(area.size) for area in memory.areas)
        source = _BEGIN.format(texts=texts, fd=memory.fd, areas=areas) + code
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", source], pass_fds=[memory.fd], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def hear(self) -> str:
        """Return its next line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().rstrip("\n")

    def go_on(self) -> None:
        """End its wait."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def __enter__(self) -> Other:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.communicate()


def wait_for_runs() -> None:
    """Wait until all begun runs for signals in this process have ended."""
    for thread in threading.enumerate():
        if thread.name.startswith("aserve-uwsgi-signal"):
            thread.join(20)
