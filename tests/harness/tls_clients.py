"""TLS clients that are programs: curl and openssl."""

import os
import shutil
import socket
import ssl
import subprocess
import threading

import pytest

from .certificates import MemoryClient

SECONDS = 20  # for a client process
needs_curl_of_http2 = pytest.mark.skipif(
    shutil.which("curl") is None or b"HTTP2" not in subprocess.run(["curl", "-V"], capture_output=True).stdout,
    reason="curl is not installed, or not with HTTP/2",
)


def curl(server, authority, *flags, check=True):
    """Return curl's output; with check=False its exit status."""
    command = ["curl", "-sS", "--max-time", str(SECONDS), "--cacert", authority.certificate, *flags]
    if not flags or not str(flags[-1]).startswith("http"):
        command.append(server.url)
    done = subprocess.run([str(word) for word in command], capture_output=True, timeout=SECONDS * 2)
    if not check:
        return done.returncode
    assert done.returncode == 0, done.stderr
    return done.stdout


def s_client(server, authority, *flags, steps):
    """Run openssl s_client; each step is an input, and then an awaited output. Return all since the last step."""
    host, port = server.address
    command = ["openssl", "s_client", "-connect", f"{host}:{port}", "-CAfile", str(authority.certificate), *flags]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        timer = threading.Timer(SECONDS, process.kill)
        timer.daemon = True
        timer.start()
        try:
            for octets, mark in steps:
                process.stdin.write(octets)
                process.stdin.flush()
                seen = b""
                while mark not in seen:
                    piece = os.read(process.stdout.fileno(), 1 << 16)
                    assert piece, f"no {mark!r} in {seen!r}"
                    seen += piece
            process.stdin.close()
            return seen + process.stdout.read()
        finally:
            timer.cancel()
            process.kill()


class MemorySocket:
    """A client that can close one direction, and keeps the socket's octets."""

    def __init__(self, server, authority, sock=None, **settings):
        self._client = MemoryClient(authority, **settings)
        self.sock = sock or socket.create_connection(server.address, SECONDS)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""
        try:
            while not self._client.shake_hands():
                self._send()
                self._recv()
            self._send()
        except BaseException:
            self.sock.close()
            raise

    @property
    def alpn(self):
        self.sock.close()
        return self._client.session.selected_alpn_protocol()

    def send(self, octets):
        self._client.session.write(octets)
        self._send()

    def close(self):
        self.sock.close()

    def read_to_end(self):
        """Return all octets, up to the closure alert."""
        octets = bytearray()
        while True:
            try:
                piece = self._client.read()
            except ssl.SSLWantReadError:
                self._recv()
                continue
            if not piece:
                return octets
            octets += piece

    def _send(self):
        self.sock.sendall(self._client.outgoing.read())

    def _recv(self):
        piece = self.sock.recv(1 << 16)
        assert piece, "closed without a closure alert"
        self.received += piece
        self._client.incoming.write(piece)
