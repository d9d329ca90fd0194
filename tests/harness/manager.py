"""A service manager of the tests' own that hears a service's notifications, as systemd does."""

from __future__ import annotations

import array
import os
import pathlib
import socket

from .waiting import wait_until


class Manager:
    """A notify socket (sd_notify(3)), and its messages."""

    def __init__(self, address: pathlib.Path | str) -> None:
        self.address = str(address)
        self.messages: list[list[str]] = []  # each a list of NAME=VALUE
        self.fds: list[int] = []  # sent with FDSTORE=1; closed in the end
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind("\0" + self.address[1:] if self.address.startswith("@") else self.address)

    @property
    def environ(self) -> dict[str, str]:
        """The service's environment."""
        return {"NOTIFY_SOCKET": self.address}

    def hear(self) -> list[list[str]]:
        """Return all messages, new ones included."""
        while True:
            try:
                data, ancillary, _, _ = self._socket.recvmsg(4096, socket.CMSG_SPACE(64))
            except BlockingIOError:
                return self.messages
            for _, _, rights in ancillary:
                self.fds += array.array("i", rights[: len(rights) // 4 * 4])
            self.messages.append(data.decode().split("\n"))

    def wait_for(self, field: str, count: int = 1) -> list[str]:
        """Wait until `count` messages have this field; return the last of them."""

        def look() -> list[str] | None:
            found = [message for message in self.hear() if field in message]
            return found[count - 1] if len(found) >= count else None

        return wait_until(look, explain=lambda: f"no {field} ({count}) among {self.messages}")

    def close(self) -> None:
        """Hear no more."""
        self._socket.close()
        for fd in self.fds:
            os.close(fd)
