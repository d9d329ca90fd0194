"""The settings of the control socket.

Owns:     ControlSettings; where the socket is without a name; running, where `aserve status` looks for servers.
Thread:   any; pure, but for variables and folders.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import socket
from collections.abc import Iterator

from ...core.systemd import runtime_folder, users_folder
from ...settings import EngineSettings, row
from ...settings.kinds import FILE
from ...settings.paths import whole

UNITS = "/run/aserve"  # where units have their folders, as RuntimeDirectory=aserve/shop


class ControlSettings(EngineSettings):
    """The settings of this feature."""

    # fmt: off
    control: str | None = row(
        None, "Process", "--control", FILE,
        "unix socket of this server for `aserve status`, `stacks`, `reload`, `workers` and `balancers`; for root and the server's user only",
        "By default in a folder with write access for the server's user only: `control` in the RuntimeDirectory= of systemd's "
        "unit, else a file of the server's address in $XDG_RUNTIME_DIR. Without both, there is no socket. `aserve status` "
        "finds the socket there, and below /run/aserve, by itself.",
        fixed=True,
        path=whole,
    )
    # fmt: on

    @property
    def control_socket(self) -> str | None:
        """The path of the server's socket: as named, or in a folder of its user's own; None: there is no such folder."""
        folder, own = runtime_folder(), users_folder()
        if self.control is not None:
            return self.control
        if folder is not None:
            return os.path.join(folder, "control")
        if own is None:
            return None
        address = re.sub("[^a-zA-Z0-9.]+", "-", self.bind[0].partition("?")[0])  # without the options of the bind
        return os.path.join(own, f"aserve-{address[-40:]}.control")  # the ends of two long paths differ


def running() -> Iterator[str]:
    """Yield the sockets in these folders at which servers listen."""
    own = users_folder()
    patterns = [f"{UNITS}/*/control", *([f"{own}/aserve/*/control", f"{own}/aserve-*.control"] if own else [])]
    for path in sorted(path for pattern in patterns for path in glob.glob(pattern)):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as sock:
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):  # a full queue: a server that hangs listens, too
                sock.connect(path)
            yield path
