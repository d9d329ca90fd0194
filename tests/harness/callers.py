"""A caller of a control socket, beside a server whose loop the test turns."""

import json
import socket
from typing import Any


class TestCaller:
    """A connection to a control socket that never blocks."""

    __test__ = False

    def __init__(self, path: Any) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(path))
        self.sock.setblocking(False)
        self._octets = b""
        self.is_answered = False  # the server has closed

    def ask(self, **question: Any) -> None:
        """Send a question."""
        self.sock.sendall(json.dumps(question).encode() + b"\n")

    def read(self) -> list[dict[str, Any]]:
        """Return all received whole lines of the answer."""
        while not self.is_answered:
            try:
                octets = self.sock.recv(1 << 16)
            except BlockingIOError:
                break
            except ConnectionResetError:
                octets = b""
            self._octets += octets
            self.is_answered = not octets
        return [json.loads(line) for line in self._octets.split(b"\n")[:-1]]

    def close(self) -> None:
        """Go."""
        self.sock.close()
