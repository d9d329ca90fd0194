"""An ACME authority of a test's own: Pebble, and its DNS (pebble-challtestsrv).

Both are at an address of this machine of no other test, where all ports are free: a server of the test listens there on `http_port` and `tls_port`,
where Pebble looks for the answers to its challenges. All names lead there, until `lead` changes one.
"""

from __future__ import annotations

import http.client
import json
import pathlib
import random
import signal
import socket
import ssl
import subprocess
import sys
import urllib.parse
from typing import Any

import pytest

from .certificates import Authority
from .go_programs import go_program, needs_go_programs
from .waiting import wait_until

needs_pebble = needs_go_programs("pebble", "pebble-challtestsrv")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all addresses of 127.0.0.0/8")
# Below the systems' ports for clients.
GUARD_PORT, DIRECTORY_PORT, MANAGEMENT_PORT, DNS_PORT, DNS_MANAGEMENT_PORT = range(14000, 14005)
NOBODYS_ADDRESS = "127.0.0.254"  # nothing listens there
# It ends with its starting thread, however that ends.
LAUNCHER = ("setpriv", "--pdeathsig", "KILL")


def own_address() -> tuple[str, socket.socket]:
    """Return an address of this machine, no other test's while the socket is open."""
    while True:
        host = "127." + ".".join(str(random.randrange(1, 254)) for _ in range(3))
        guard = socket.socket()
        try:
            guard.bind((host, GUARD_PORT))
        except OSError:
            guard.close()
        else:
            return host, guard


class Pebble:
    """One authority; it keeps all in memory, so `stop` and `start` make it forget its accounts."""

    http_port, tls_port = 80, 443

    def __init__(self, folder: pathlib.Path, authority: Authority, life_seconds: int = 90 * 86400, **env: str) -> None:
        """Start Pebble. `env`: further variables of Pebble's, as PEBBLE_WFE_NONCEREJECT."""
        folder.mkdir(exist_ok=True)
        self.host, self._guard = own_address()
        self.ca = authority.certificate  # of its own certificate
        self.issued = authority.issue(self.host)
        self.context = ssl.create_default_context(cafile=str(self.ca))
        self._folder = folder
        # Validation at once; every order has its challenges; no nonce is refused, unless a test says so.
        self._env = {"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_AUTHZREUSE": "0", "PEBBLE_WFE_NONCEREJECT": "0", **env}
        self._write_configuration(life_seconds)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._run(
            "pebble-challtestsrv", "-dnsserver", f"{self.host}:{DNS_PORT}", "-defaultIPv4", self.host, "-defaultIPv6", "",
            "-management", f"{self.host}:{DNS_MANAGEMENT_PORT}", "-http01", "", "-https01", "", "-doh", "", "-tlsalpn01", "",
        )  # fmt: skip
        try:
            self.start()
        except BaseException:
            self.end()
            raise

    def _write_configuration(self, life_seconds: int) -> None:
        pebble = {
            "listenAddress": self.netloc, "managementListenAddress": f"{self.host}:{MANAGEMENT_PORT}",
            "certificate": str(self.issued.certificate), "privateKey": str(self.issued.key),
            "httpPort": self.http_port, "tlsPort": self.tls_port, "keyAlgorithm": "ecdsa",
            "domainBlocklist": ["blocked.example"],
            "profiles": {"default": {"description": "", "validityPeriod": life_seconds}},
        }  # fmt: skip
        (self._folder / "pebble.json").write_text(json.dumps({"pebble": pebble}))

    def _run(self, name: str, *arguments: str) -> None:
        with open(self._folder / f"{name}.log", "ab") as log:
            self._running[name] = subprocess.Popen(
                [*LAUNCHER, go_program(name), *arguments],
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def netloc(self) -> str:
        """The address and port of its directory."""
        return f"{self.host}:{DIRECTORY_PORT}"

    @property
    def url(self) -> str:
        return f"https://{self.netloc}/dir"

    @property
    def log(self) -> str:
        """Its log's text."""
        return (self._folder / "pebble.log").read_text(errors="replace")

    def lead(self, name: str, address: str) -> None:
        """Have the name lead to this address from now on."""
        record = json.dumps({"host": f"{name}.", "addresses": [address]})
        self.ask("POST", f"http://{self.host}:{DNS_MANAGEMENT_PORT}/add-a", record)

    def ask(self, method: str, url: str, body: str | None = None) -> bytes:
        """Return the body of a response, which must be 200."""
        parts = urllib.parse.urlsplit(url)
        client: Any = http.client.HTTPConnection(parts.netloc, timeout=20)
        if parts.scheme == "https":
            client = http.client.HTTPSConnection(parts.netloc, timeout=20, context=self.context)
        try:
            client.request(method, parts.path, body, {"User-Agent": "tests"})  # RFC 8555 6.1
            response = client.getresponse()
            found = response.read()
        finally:
            client.close()
        assert response.status == 200, (response.status, found)
        return found

    def start(self) -> None:
        """Start Pebble, and wait until it and its DNS answer."""
        self._run("pebble", "-config", str(self._folder / "pebble.json"), "-dnsserver", f"{self.host}:{DNS_PORT}")
        wait_until(self._listens, explain=lambda: self.log)
        # The root of issued certificates, in PEM; another after each start.
        self.root = self.ask("GET", f"https://{self.host}:{MANAGEMENT_PORT}/roots/0").decode()

    def _listens(self) -> bool:
        try:
            for port in (DIRECTORY_PORT, MANAGEMENT_PORT, DNS_PORT, DNS_MANAGEMENT_PORT):
                socket.create_connection((self.host, port), 20).close()
        except ConnectionRefusedError:
            return False
        return True

    def pause(self) -> None:
        """Have Pebble accept connections in silence."""
        self._running["pebble"].send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running["pebble"].send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Kill Pebble: connections are refused."""
        self._running["pebble"].kill()
        self._running["pebble"].wait(20)

    def end(self) -> None:
        """Kill all its processes."""
        for process in self._running.values():
            process.kill()
            process.wait(20)
        self._guard.close()
