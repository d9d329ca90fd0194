"""Hosts on one machine: network namespaces on a bridge, each with an aserve, and HAProxy in one of them; Linux, as root.

A host has the ports of docs/balancers.md, since nobody else is there: only addresses differ from the page.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from .client import RawClient
from .front import HAPROXY, SEARCH_PATH, Page, replaced
from .waiting import wait_until
from .workers import Workers

NAMES = ("one", "two", "three")
FLAGS = ("--bind", ":8000", "--workers", "1", "--metrics", ":9100", "--agent-check", ":9101", "--drain-delay", "1")


def why_not() -> str:
    """Return why there can be no cluster here; "": there can."""
    if sys.platform != "linux" or os.getuid() != 0:
        return "a cluster takes network namespaces: run it as root, on Linux"
    missing = [name for name in ("ip", "haproxy") if shutil.which(name, path=SEARCH_PATH) is None]
    if missing:
        return f"{' and '.join(missing)} not installed (Debian: iproute2, haproxy)"
    return ""


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


class Network:
    """A bridge, and namespaces on it."""

    def __init__(self) -> None:
        # Of this process alone: others may run the same beside it.
        number = os.getpid()
        self._stem, self._net = f"as{number}", f"10.{200 + number % 50}.{number // 50 % 250}"
        self.bridge = f"{self._stem}b"
        self._spaces: list[str] = []

    def open(self) -> None:
        """Make the bridge, on which we are, too."""
        _ip("link", "add", self.bridge, "type", "bridge")
        _ip("addr", "add", f"{self._net}.254/24", "dev", self.bridge)
        _ip("link", "set", self.bridge, "up")

    def add(self, name: str) -> tuple[str, list[str]]:
        """Make a namespace; return its address, and what a command begins with that is to run there."""
        space, number = f"{self._stem}-{name}", len(self._spaces) + 1
        outer, address = f"{self._stem}v{number}", f"{self._net}.{number}"
        _ip("netns", "add", space)
        self._spaces.append(space)
        _ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
        _ip("link", "set", outer, "master", self.bridge, "up")
        for words in (
            ("addr", "add", f"{address}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("link", "set", "lo", "up"),
        ):
            _ip("-n", space, *words)
        return address, ["ip", "netns", "exec", space]

    def close(self) -> None:
        """Remove all of it; what is in the namespaces has ended."""
        for space in self._spaces:
            _ip("netns", "del", space)
        with contextlib.suppress(AssertionError):  # it was not made
            _ip("link", "del", self.bridge)


class Node:
    """One host, whose server may be another after a while."""

    def __init__(self, name: str, address: str, launcher: list[str], folder: pathlib.Path) -> None:
        self.name, self.address = name, address
        self._launcher, self._folder = launcher, folder / name
        self._folder.mkdir()
        self._control = str(self._folder / "control")
        self.logs: list[Workers] = []

    @property
    def process(self) -> Workers:
        """Its server."""
        return self.logs[-1]

    def serve(self, version: str) -> None:
        """Start a server of this version."""
        flags = (*FLAGS, "--control", self._control)
        self.logs.append(Workers(self._folder, f"{version} {self.name}", *flags, launcher=self._launcher))
        self.process.wait_for_workers(1)

    def tell(self, wish: str) -> None:
        """Type aserve balancers."""
        command = [sys.executable, "-I", "-m", "aserve", "balancers", wish, "--control", self._control]
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    def end(self) -> None:
        """End all that is left."""
        for process in self.logs:
            process.end()


class Cluster:
    """Three hosts, with HAProxy in front of them as docs/balancers.md has it."""

    def __init__(self, network: Network, folder: pathlib.Path) -> None:
        self.nodes = [Node(name, *network.add(name), folder) for name in NAMES]
        self._address, self._launcher = network.add("front")
        self._folder = folder
        self._haproxy: subprocess.Popen[bytes] | None = None

    def open(self, version: str) -> None:
        """Serve."""
        for node in self.nodes:
            node.serve(version)
        one, two, three = (node.address for node in self.nodes)
        changes = {
            "bind :80": f"bind {self._address}:80",
            "inter 2s": "inter 100ms",
            "agent-inter 1s": "agent-inter 100ms",
            "server one 10.0.0.1:8000": f"server one {one}:8000",
            "server two 10.0.0.2:8000\n": f"server two {two}:8000\n    server three {three}:8000\n",
        }
        path = self._folder / "haproxy.cfg"
        path.write_text(HAPROXY.format(user="", block=replaced(Page("balancers").block("HAProxy", "haproxy"), changes)))
        with open(self._folder / "haproxy.log", "wb") as log:
            command = [*self._launcher, "haproxy", "-db", "-f", str(path)]
            self._haproxy = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until(self._answers, 60, lambda: self.log)

    @property
    def log(self) -> str:
        """What HAProxy has written."""
        return (self._folder / "haproxy.log").read_text(errors="replace")

    def connect(self) -> RawClient:
        """Return a client of HAProxy's."""
        return RawClient((self._address, 80))

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), contextlib.closing(self.connect()) as client:
            return client.fetch().status == 200
        return False

    def answering(self, count: int = 12) -> set[bytes]:
        """Return what so many requests were answered: a version and a host."""
        found = set()
        for _ in range(count):
            with contextlib.closing(self.connect()) as client:
                found.add(b" ".join(client.fetch("/", "Connection: close").body.split()[:2]))
        return found

    def close(self) -> None:
        """End all of it."""
        if self._haproxy is not None:
            self._haproxy.send_signal(signal.SIGKILL)
            self._haproxy.wait(10)
        for node in self.nodes:
            node.end()


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[Cluster]:
    """A cluster that does not serve yet."""
    with contextlib.ExitStack() as undo:
        network = Network()
        undo.callback(network.close)
        network.open()
        made = Cluster(network, tmp_path)
        undo.callback(made.close)
        yield made
