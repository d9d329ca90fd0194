"""A real Redis or Valkey for a test alone, which can be killed, paused and started again."""

from __future__ import annotations

import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

from .waiting import wait_until

SERVERS = [name for name in ("redis-server", "valkey-server") if shutil.which(name)]


class StoreServer:
    """One server, at its own unix socket; acknowledged writes are on disk."""

    def __init__(self, program: str) -> None:
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="aserve-store-"))  # short: a socket's path has 107 octets
        self.path = str(self._folder / "s")
        self.url = f"unix://{self.path}"
        self._words = [program, "--port", "0", "--unixsocket", self.path, "--dir", str(self._folder)]
        self._words += ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self, *options: str) -> None:
        """Start the server, with these options beside its own, and wait for its first answer."""
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen([*self._words, *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self._answers, 40, lambda: (self._folder / "log").read_text())

    def _answers(self) -> bool:
        try:
            return self.ask("PING") == b"+PONG\r\n"
        except OSError:
            return False

    def ask(self, *words: str) -> bytes:
        """Run a command; return the raw answer."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            client.connect(self.path)
            client.sendall(
                "".join(f"${len(word)}\r\n{word}\r\n" for word in words).join((f"*{len(words)}\r\n", "")).encode()
            )
            return client.recv(65536)

    def kill(self) -> None:
        """Kill the server, as a power cut does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def pause(self) -> None:
        """Have the server accept connections in silence."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """Kill the server, and remove its files."""
        self.kill()
        shutil.rmtree(self._folder)
