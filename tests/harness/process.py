"""A server as users start it: the command, in its own process."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from . import faults, native
from .waiting import PATIENCE_SECONDS, wait_until

# Takes the place of a shell of systemd's: argv is descriptors, "--" and a command. The descriptors are numbered from 3 on, and LISTEN_PID is known
# only here.
PASSING = """\
import fcntl, os, sys
end = sys.argv.index("--")
fds = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 100) for fd in sys.argv[1:end]]
for number, fd in enumerate(fds, 3):
    os.dup2(fd, number)
os.environ["LISTEN_PID"] = os.environ["WATCHDOG_PID"] = str(os.getpid())
os.execv(sys.argv[end + 1], sys.argv[end + 1:])
"""


class ServerProcess:
    """`python -m aserve` in its own process, on its own port.

    `launcher` starts the command in our place; `fds` are passed as systemd passes sockets. With either, the arguments name the address.
    """

    command = (sys.executable, "-I", "-m", "aserve")
    begun = r"serving on ([^\s,]+)"  # the log's words once it listens

    def __init__(
        self,
        arguments: list[str],
        folder: pathlib.Path,
        env: dict[str, str],
        launcher: Sequence[str] = (),
        fds: Sequence[int] = (),
    ) -> None:
        self.folder = folder
        bind = [] if launcher or fds else ["--bind", "127.0.0.1:0"]
        if fds:
            launcher = [*launcher, sys.executable, "-I", "-c", PASSING, *map(str, fds), "--"]
            env = {"LISTEN_FDS": str(len(fds)), **env}
        self._log_path = folder / f"stderr-{time.monotonic_ns()}"
        clean = {name: v for name, v in os.environ.items() if not name.startswith("ASERVE_")}
        with open(self._log_path, "wb") as log:
            self.process = subprocess.Popen(
                [*launcher, *self.command, *bind, *arguments],
                pass_fds=fds,
                cwd=folder,
                env={**clean, **native.ENV, "PYTHONUNBUFFERED": "1", **env},
                stdout=subprocess.PIPE,
                stderr=log,
            )
        try:
            self.url = self.wait_for_log(self.begun, 60)[1]
        except BaseException:
            self.end()
            raise
        place = self.url.rpartition("://")[2]
        host, _, port = place.rpartition(":")
        self.address: Any = place[len("unix:") :] if place.startswith("unix:") else (host, int(port))

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        """Its standard error."""
        return self._log_path.read_text(errors="replace")

    def wait_for_log(self, pattern: str, seconds: float = PATIENCE_SECONDS) -> re.Match[str]:
        """Wait until standard error matches."""

        def look() -> re.Match[str] | None:
            found = re.search(pattern, self.log)
            assert found or self.process.poll() is None, f"the server has ended:\n{self.log}"
            return found

        return wait_until(look, seconds, lambda: f"no {pattern!r} in:\n{self.log}")

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = 30.0) -> int:
        """Wait for the end; return the exit status."""
        return self.process.wait(seconds)

    def cpu_seconds(self) -> float:
        """Return the used CPU time; Linux only."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self, which: str = "VmRSS") -> int:
        """Return the resident memory, or with VmHWM its peak; Linux only."""
        lines = pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{which}:"))

    def open_files(self) -> list[str]:
        """Return the targets of its file descriptors, without the standard ones."""
        names = []
        for fd in os.listdir(f"/proc/{self.pid}/fd"):
            with contextlib.suppress(OSError):
                if int(fd) > 2:
                    names.append(os.readlink(f"/proc/{self.pid}/fd/{fd}"))
        return sorted(names)

    def faults(self, provoked: tuple[str, ...] = ()) -> str:
        """Return the log's faults that must never happen; "" when all is well."""
        return faults.faults_in(self.log, provoked)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)
        if self.process.stdout is not None:
            self.process.stdout.close()


def run_command(*words: object, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run the command to its end; return status and output."""
    command = [*ServerProcess.command, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **more)


def save(path: pathlib.Path, text: str) -> None:
    """Write a file as an editor does: at once, so that nobody reads a half of it."""
    path.with_name("." + path.name).write_text(text)
    os.replace(path.with_name("." + path.name), path)
