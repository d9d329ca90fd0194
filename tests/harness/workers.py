"""A command with --workers, in its own processes: its supervisor, its workers, and an app that can change."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import sys
from collections.abc import Sequence
from typing import Any

import aserve

from .process import ServerProcess
from .waiting import wait_until

PACKAGE = pathlib.Path(aserve.__file__).parent

# /: its version and the worker's pid. /wait/PATH: as apps.steered.
APP = '''\
"""{version}"""
import os, sys, time

def app(environ, start_response):
    path = environ["PATH_INFO"]
    if path.startswith("/wait"):
        base, deadline = path[len("/wait"):], time.monotonic() + 280  # no test has longer than 300 s
        open(base + ".in", "w").close()
        while not os.path.exists(base + ".go"):
            assert time.monotonic() < deadline
            time.sleep(0.005)
    if path == "/die":
        os.kill(os.getpid(), 9)
    if path == "/fail":
        raise ValueError("on purpose")
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"{version} %d" % os.getpid()]
'''

# Its import waits for a file `gate`, and tells its begin by `waiting`.
GATED = """\
import os, time
open("waiting", "w").close()
while not os.path.exists("gate"):
    time.sleep(0.005)
def app(environ, start_response):
    start_response("200 OK", [])
    return [b"gated 0"]
"""


class Workers(ServerProcess):
    """`python -m aserve --workers N` on an app in a file written by the test."""

    def __init__(self, folder: pathlib.Path, app: str, *flags: str, launcher: Sequence[str] = (), **env: str) -> None:
        self._app = folder / "site_app.py"
        self.write_app(app)
        super().__init__([self.target, *flags], folder, env, launcher)

    @property
    def target(self) -> str:
        """The served app."""
        return f"{self._app}:app"

    def write_app(self, app: str) -> None:
        """Put another app in place of the served one: a version, or a source."""
        # Another length each time, or Python's bytecode would pass for it within the same second.
        self._length = getattr(self, "_length", 0) + 1
        source = app if "\n" in app else APP.format(version=app)
        self._app.write_text(source + "#" * self._length + "\n")

    @property
    def workers(self) -> list[int]:
        """The pids of its living children."""
        return children_of(self.pid)

    def wait_for_workers(self, count: int) -> list[int]:
        """Wait until it has `count` ready children; return their pids."""

        def look() -> list[int]:
            log = self.log  # first, as to look at all processes takes longer
            if log.count(" is ready") < count:
                return []
            pids = self.workers
            is_ready = all(f"(pid {pid}) is ready" in log for pid in pids)
            return pids if len(pids) == count and is_ready else []

        return wait_until(look, 60, lambda: f"{self.workers}:\n{self.log}")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Let it end; return the exit status, when nothing of it is left."""
        pids = self.workers
        self.signal(number)
        status = self.wait(30)
        wait_until(lambda: not any(map(is_alive, pids)))
        return status

    def end(self) -> None:
        """End it in any case, and its workers with it."""
        pids = self.workers if self.process.poll() is None else []
        super().end()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, pids)))

    def count(self, pattern: str) -> int:
        """Return how often standard error matches."""
        return len(re.findall(pattern, self.log))


class Copied(Workers):
    """A server whose own code the test may change: a copy in its folder."""

    command = (sys.executable, "-m", "aserve")

    def __init__(self, folder: pathlib.Path, app: str, *flags: str, **env: str) -> None:
        shutil.copytree(PACKAGE, folder / "aserve")
        self._folder = folder
        super().__init__(folder, app, *flags, **env)

    def change(self, name: str, old: str, new: str) -> None:
        """Put other text in place of some, in a file of aserve's."""
        path = self._folder / "aserve" / name
        before = path.read_text()
        assert old in before
        path.write_text(before.replace(old, new, 1))

    def break_all(self) -> None:
        """Put broken files in place of all, as an installer does, which writes none anew in its place."""
        for path in [path for path in (self._folder / "aserve").rglob("*") if path.is_file()]:
            path.unlink()
            path.write_text("another release")

    def change_back(self, name: str) -> None:
        """Put a file of aserve's back."""
        shutil.copy2(PACKAGE / name, self._folder / "aserve" / name)


def children_of(pid: int) -> list[int]:
    """Return the pids of a process's children, zombies left out."""
    parent, found = str(pid), []
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat(int(name))
            if fields and fields[1] == parent and fields[0] != "Z":
                found.append(int(name))
    return sorted(found)


def is_alive(pid: int) -> bool:
    """Tell whether there is such a process, and it is no zombie."""
    fields = _stat(pid)
    return bool(fields) and fields[0] != "Z"


def _stat(pid: int) -> list[Any]:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split(None, 3)
    except OSError:
        return []
