"""systemd's interface to a service: variables of the environment, and the messages of sd_notify(3).

Owns:     the passed sockets (sd_listen_fds(3)), those of them that this service has stored before, the notify
          socket (sd_notify(3)), the watchdog's time, the folders of the service.
Thread:   any; nothing here waits.
Not here: the times of messages (server/running.py, lifecycle/fd_store.py), binds with the name of a socket (settings/bind.py), taking a socket
          (connections/listeners.py).

Without systemd the variables are missing, and this module does nothing. podman and other programs use the same variables.
"""

from __future__ import annotations

import array
import contextlib
import logging
import os
import socket
import time
from collections.abc import Mapping, Sequence

logger = logging.getLogger("aserve")

FIRST_FD = 3  # SD_LISTEN_FDS_START
UNNAMED = "unknown"  # the name of a nameless socket in sd_listen_fds_with_names(3)
STORED = "aserve-stored-"  # the prefix of the names of sockets stored by a process of ours
NONBLOCKING = getattr(socket, "MSG_DONTWAIT", 0)


def passed_sockets(environ: Mapping[str, str] = os.environ) -> dict[str, list[int]]:
    """
    Return the descriptors of sockets passed by systemd to this process, by name, without the stored ones.

    Several may have one name: the sockets of one socket unit.

    Raises:
        ValueError: the sockets are for another process, or the variables contradict each other; the text says so.

    Spec: sd_listen_fds(3).
    """
    return {name: fds for name, fds in _all_sockets(environ).items() if not name.startswith(STORED)}


def stored_sockets(environ: Mapping[str, str] = os.environ) -> dict[str, list[int]]:
    """Return the descriptors stored by this service with systemd before, by name."""
    try:
        return {name: fds for name, fds in _all_sockets(environ).items() if name.startswith(STORED)}
    except ValueError:
        return {}  # the sockets belong to another process


def store_size(environ: Mapping[str, str] = os.environ) -> int:
    """Return the number of descriptors kept by systemd for this service, if known (FileDescriptorStoreMax=); 0: none."""
    text = environ.get("FDSTORE", "")
    return int(text) if text.isascii() and text.isdigit() else 0


def state_folder(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the folder kept by systemd for this service, the first of StateDirectory=; None: no folder. See systemd.exec(5)."""
    return environ.get("STATE_DIRECTORY", "").partition(":")[0] or None


def runtime_folder(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the folder that this service has while it runs, the first of RuntimeDirectory=; None: it has none."""
    return environ.get("RUNTIME_DIRECTORY", "").partition(":")[0] or None


def users_folder(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the folder that a login has for its user while the user is there; None: there is none, or another user's (su). See pam_systemd(8)."""
    folder = environ.get("XDG_RUNTIME_DIR", "")
    with contextlib.suppress(OSError):
        if folder and os.stat(folder).st_uid == os.geteuid():
            return folder
    return None


def _all_sockets(environ: Mapping[str, str]) -> dict[str, list[int]]:
    if "LISTEN_FDS" not in environ:
        return {}
    count, pid = _number_of("LISTEN_FDS", environ), _number_of("LISTEN_PID", environ)
    if pid != os.getpid():
        raise ValueError(
            f"systemd passed its sockets to process {pid}, and this is {os.getpid()}; a script that starts aserve must "
            "do so by exec"
        )
    names = environ["LISTEN_FDNAMES"].split(":") if environ.get("LISTEN_FDNAMES") else [UNNAMED] * count
    if len(names) != count:
        raise ValueError(f"LISTEN_FDNAMES has {len(names)} names, and LISTEN_FDS says {count}")
    found: dict[str, list[int]] = {}
    for fd, name in enumerate(names, FIRST_FD):
        found.setdefault(name, []).append(fd)
    return found


def watchdog_seconds(environ: Mapping[str, str] = os.environ) -> float:
    """Return WatchdogSec= of the unit: after this long without `Notifier.alive` the service is killed; 0: never."""
    usec = environ.get("WATCHDOG_USEC", "")
    is_ours = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    return int(usec) / 1e6 if usec.isdigit() and is_ours else 0.0


def _number_of(name: str, environ: Mapping[str, str]) -> int:
    text = environ.get(name, "")
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{name} is {text!r}, and not a number")
    return int(text)


class Notifier:
    """
    Reports the state of a service to the service manager, if there is one.

    Nothing is raised: a service goes on without a manager. The first lost message is logged; methods with a message of consequence return whether
    the message went out, for a repetition; True without a manager.
    """

    def __init__(self, address: str) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._is_told = False  # whether a lost message was logged

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> Notifier:
        """Return the Notifier of this process's manager."""
        return cls(environ.get("NOTIFY_SOCKET", ""))

    @property
    def is_heard(self) -> bool:
        """Whether there is a manager."""
        return bool(self._address)

    def ready(self, status: str, main_pid: int | None = None) -> bool:
        """Report a serving service, after the start or after `reloading`; `main_pid`: the service's main process."""
        pid = [] if main_pid is None else [f"MAINPID={main_pid}"]
        return self.send("READY=1", *pid, _status(status))

    def reloading(self, status: str) -> bool:
        """Report the begin of a reload; `ready` ends the reload. (Type=notify-reload compares the time with the time of the signal.)"""
        return self.send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}", _status(status))

    def stopping(self, status: str) -> None:
        self.send("STOPPING=1", _status(status))

    def status(self, status: str) -> bool:
        """Set the line of `systemctl status`."""
        return self.send(_status(status))

    def alive(self) -> None:
        """Put off the watchdog."""
        self.send("WATCHDOG=1")

    def store(self, name: str, fds: Sequence[int]) -> None:
        """Let the manager keep copies of descriptors: `passed_sockets` of the next process has them (FileDescriptorStoreMax=)."""
        self.send("FDSTORE=1", f"FDNAME={name}", fds=fds)

    def forget(self, name: str) -> None:
        """Let the manager close the descriptors stored under this name."""
        self.send("FDSTOREREMOVE=1", f"FDNAME={name}")

    def send(self, *fields: str, fds: Sequence[int] = ()) -> bool:
        """Send one message, NAME=VALUE each; return whether the message went out."""
        if not self._address:
            return True
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
                sock.sendmsg(["\n".join(fields).encode("utf-8", "replace")], rights, NONBLOCKING, self._address)
            return True
        except OSError as exc:  # also: a full queue
            if not self._is_told:
                self._is_told = True
                logger.warning(
                    "cannot send %s to systemd: %s: %s; it may take this service for one that has not started",
                    fields[0], self._address.replace("\0", "@"), exc.strerror or exc,
                )  # fmt: skip
            return False


def _status(text: str) -> str:
    return "STATUS=" + text.replace("\n", " ")
