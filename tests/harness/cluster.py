"""Hosts on one machine: network namespaces on a bridge, each with a server, and a balancer in one of them; Linux, as root.

A host has the ports of docs/balancers.md, since no other program uses them: only addresses differ from the page. With CLUSTER_SAVE=1 (`make cluster
ARGS=--save`) the results are kept in benchmarks/results.
"""

from __future__ import annotations

import collections
import contextlib
import os
import pathlib
import platform
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest

from .balancers import BALANCERS, PORT
from .benchmarks import modules
from .client import RawClient
from .front import SEARCH_PATH
from .network import Network, Place
from .process import run_command
from .steady import QUICK, Ask, Steady, summary
from .waiting import wait_until
from .workers import Workers

NAMES = ("one", "two", "three")
SAVES = bool(os.environ.get("CLUSTER_SAVE"))
PATIENCE_SECONDS = 60.0
# As in examples/haproxy/serve.sh, but one process serves, with an end only as late as a balancer needs.
FLAGS = (
    "--bind", ":8000", "--bind", "uwsgi://:8001", "--workers", "1", "--threads", "8", "--metrics", ":9100", "--agent-check", ":9101",
    "--drain-delay", "2", "--max-connection-requests", "1000", "--max-connection-age", "5m",
)  # fmt: skip
APP = '''\
"""{version}"""
import os, time, zlib

HERE = os.path.dirname(os.path.abspath(__file__))
BEGUN = os.open(HERE + "/begun", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
LARGE = bytes(1 << 20)

def app(environ, start_response):
    path = environ["PATH_INFO"]
    if path in ("/get", "/post", "/upload", "/reader"):
        os.write(BEGUN, environ["QUERY_STRING"].encode() + b"\\n")
        with open(HERE + "/pause") as pause:
            time.sleep(float(pause.read()))
    length, check = 0, 0
    while True:
        piece = environ["wsgi.input"].read(65536) if int(environ.get("CONTENT_LENGTH") or 0) > length else b""
        if not piece:
            break
        length, check = length + len(piece), zlib.crc32(piece, check)
    body = b"{version} | %d %d" % (length, check) + (LARGE if path == "/reader" else b"")
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
'''
_ROWS: list[dict[str, Any]] = []  # this run's results


def why_not() -> str:
    """Return the reason for this run's lack of a whole set of cluster tests; "": all are there."""
    return why_not_here() if os.environ.get("CLUSTER") else "`make cluster` runs it, as root"


def why_not_here() -> str:
    """Return why there can be no cluster here; "": there can."""
    if sys.platform != "linux" or os.getuid() != 0:
        return "a cluster takes network namespaces: run it as root, on Linux"
    if not os.path.exists("/dev/net/tun"):
        return "there is no /dev/net/tun, for a bad wire"
    return "" if shutil.which("ip", path=SEARCH_PATH) else "ip is not installed (Debian: iproute2)"


# Of every test here; six servers may start on a busy machine.
MARKS = [pytest.mark.checkout, pytest.mark.slow, pytest.mark.timeout(600)]
whole = pytest.mark.skipif(bool(why_not()), reason=why_not())
short = pytest.mark.skipif(bool(why_not_here()), reason=why_not_here())  # each run of the suite has one


class Gunicorn(Workers):
    """gunicorn, on the same app."""

    command = (sys.executable, "-I", "-m", "gunicorn")
    begun = r"Listening at: (\S+)"

    @property
    def target(self) -> str:
        """The served app."""
        return "site_app:app"


# A balancer's kept connection may idle for as long as with an aserve.
GUNICORN_FLAGS = (
    "--bind", "0.0.0.0:8000", "--workers", "1", "--threads", "8", "--keep-alive", "75", "--pythonpath", ".",
)  # fmt: skip
# HAProxy asks an aserve on separate ports: gunicorn has but the app's port, and no words on load.
NO_AGENT = {
    "check port 9100 inter 2s fall 2 rise 1 agent-check agent-port 9101 agent-inter 1s": "check inter 2s fall 2 rise 1"
}


class Node:
    """One host, with a server to be changed."""

    def __init__(self, place: Place, name: str, folder: pathlib.Path) -> None:
        self.name, self.place = name, place
        self._folder = folder / name
        self._folder.mkdir()
        self._control = str(self._folder / "control")
        self.processes: list[Workers] = []
        self.pause(0)

    @property
    def process(self) -> Workers:
        return self.processes[-1]

    def serve(self, version: str, server: str = "aserve", flags: tuple[str, ...] = FLAGS) -> None:
        """Start a server of this version, and wait for the first answer."""
        app = APP.format(version=f"{version} {self.name}")
        if server == "gunicorn":
            made: Workers = Gunicorn(self._folder, app, *GUNICORN_FLAGS, launcher=self.place.launcher)
        else:
            made = Workers(self._folder, app, *flags, "--control", self._control, launcher=self.place.launcher)
        self.processes.append(made)
        wait_until(self.answers, PATIENCE_SECONDS, lambda: self.process.log)

    def answers(self) -> bool:
        """Tell whether the host answers us, from beside the balancer."""
        return _ask((self.place.address, 8000)) != b""

    def pause(self, seconds: float) -> None:
        """Let the app take so long for each request, from the next on."""
        path = self._folder / "pause"
        path.with_name("pause.new").write_text(str(seconds))
        path.with_name("pause.new").replace(path)

    def tell(self, wish: str) -> None:
        """Type aserve balancers."""
        run_command("balancers", wish, "--control", self._control, check=True)

    def end_server(self) -> None:
        """Send SIGTERM, and wait for a proper end."""
        self.process.signal()
        assert self.process.wait(PATIENCE_SECONDS) == 0, self.process.log

    def kill(self) -> None:
        """Kill all processes, like a machine out of memory."""
        for pid in (self.process.pid, *self.process.workers):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def begun(self) -> list[str]:
        """Return the names of begun requests."""
        path = self._folder / "begun"
        return path.read_text().split() if path.exists() else []

    def end(self) -> None:
        for process in self.processes:
            process.end()


class Cluster:
    """Three hosts, with a balancer in front."""

    def __init__(self, network: Network, folder: pathlib.Path) -> None:
        first, self.wire = network.add_wired(NAMES[0])
        places = [first, *(network.add(name) for name in NAMES[1:])]
        self.nodes = [Node(place, name, folder) for name, place in zip(NAMES, places)]
        self.front = network.add("front")
        self._folder = folder / "front"
        self._folder.mkdir()
        self._process: subprocess.Popen[bytes] | None = None

    def open(
        self, balancer: str, server: str = "aserve", changes: Mapping[str, str] | None = None, serving: int = 3,
        flags: tuple[str, ...] = FLAGS,
    ) -> None:  # fmt: skip
        """Serve the old version, on the first hosts; the balancer knows all hosts. Skip the test if a program is not installed."""
        if shutil.which(BALANCERS[balancer].program, path=SEARCH_PATH) is None:
            pytest.skip(f"{BALANCERS[balancer].program} is not installed")
        if server == "gunicorn":
            pytest.importorskip("gunicorn")
        for node in self.nodes[:serving]:
            node.serve("old", server, flags)
        hosts = {node.name: node.place.address for node in self.nodes}
        self.balancer = BALANCERS[balancer](hosts, self.front.address, self._folder, changes or {})
        self.names = (balancer, server)
        command = [*self.front.launcher, *self.balancer.command()]
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until(lambda: self.answering(1), PATIENCE_SECONDS, lambda: self.log)
        wanted = versions("old", NAMES[:serving])
        wait_until(lambda: self.answering() == wanted, PATIENCE_SECONDS, lambda: self.log)

    @property
    def address(self) -> tuple[str, int]:
        """Where the balancer listens."""
        return self.front.address, PORT

    @property
    def log(self) -> str:
        """The balancer's output."""
        return self.balancer.log_path.read_text(errors="replace")

    def part(self, node: Node) -> None:
        """Cut the link between the balancer and a host; all remaining links stay."""
        self.front.lose(node.place)
        node.place.lose(self.front)

    def heal(self, node: Node) -> None:
        """Let both find each other."""
        self.front.find(node.place)
        node.place.find(self.front)

    def command(self, line: str) -> str:
        """Send HAProxy a command; return the answer."""
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as sock:
            sock.connect(self.balancer.admin)
            sock.sendall(line.encode() + b"\n")
            return b"".join(iter(lambda: sock.recv(4096), b"")).decode()

    def answering(self, count: int = 12) -> set[bytes]:
        """Return the versions and hosts of the answers; a failed request has none."""
        return {_ask(self.address) for _ in range(count)} - {b""}

    def failures(self, load: Steady) -> list[tuple[Ask, set[str]]]:
        """Return wrong or missing answers, each with the hosts that have begun the request, or that it was sent to last.

        HAProxy logs none that came on a kept connection and failed on another: it closes the former, and the client may send it again.
        """
        sent = self.balancer.sent()
        found = []
        for ask in load.asks:
            if not ask.is_answered:
                hosts = {node.name for node in self.nodes if ask.name in node.begun()}
                found.append((ask, hosts | set(sent[ask.name].hosts[-1:] if ask.name in sent else ())))
        return found

    def shares(self, load: Steady) -> list[int]:
        """Return each host's share of the requests answered since the last event, in percent."""
        since = max(map(float, load.marks), default=0.0)
        hosts = [ask.host.decode().rpartition(" ")[2] for ask in load.answered_since(since) if ask.kind in QUICK]
        return [round(100 * hosts.count(node.name) / max(1, len(hosts))) for node in self.nodes]

    def keep(self, scenario: str, load: Steady, note: str = "") -> dict[str, Any]:
        """Count the outcomes of a finished load, for the results; return the row."""
        sent = self.balancer.sent()
        row: dict[str, Any] = {
            "scenario": scenario,
            "balancer": self.names[0],
            "server": self.names[1],
            "note": note,
            "rate": load.rate,
            "again": sum(sent[ask.name].again for ask in load.asks if ask.name in sent) if sent else None,
            "shares": self.shares(load),
            **summary(load.asks, collections.Counter(name for node in self.nodes for name in node.begun())),
            "marks": load.marks,
        }
        _ROWS.append(row)
        print(row)  # for a reader: -s
        return row

    def check_reached(self) -> None:
        """Check the reach of each host, even if only by a refusal: the machine may filter the traffic of bridges."""
        for place in (self.front, *(node.place for node in self.nodes)):
            with contextlib.suppress(ConnectionRefusedError):
                socket.create_connection((place.address, PORT), 10).close()

    def close(self) -> None:
        for node in self.nodes:
            node.end()
        if self._process is not None:
            self._process.terminate()  # nginx has children, else left behind
            self._process.wait(PATIENCE_SECONDS)


def versions(version: str, names: Iterable[str] = NAMES) -> set[bytes]:
    """Return the expected words of hosts of this version."""
    return {f"{version} {name}".encode() for name in names}


def _ask(address: tuple[str, int]) -> bytes:
    """Return the answering version and host; b"": no answer, or a wrong one."""
    with contextlib.suppress(OSError, RawClient.Truncated), contextlib.closing(RawClient(address)) as client:
        reply = client.fetch("/", "Connection: close")
        return reply.body.partition(b" | ")[0] if reply.status == 200 else b""
    return b""


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[Cluster]:
    """A cluster not serving yet."""
    with contextlib.ExitStack() as undo:
        network = Network()
        undo.callback(network.close)
        try:
            network.open()
            made = Cluster(network, tmp_path)
            undo.callback(made.close)
            made.check_reached()
        except (AssertionError, OSError) as fault:
            if os.environ.get("CLUSTER"):
                raise
            pytest.skip(f"root may not make hosts here: {fault}")  # in a container, say
        yield made


@pytest.fixture(scope="session", autouse=True)
def kept_results() -> Iterator[None]:
    """Keep the results, if asked for."""
    yield
    if SAVES and _ROWS:
        [record] = modules("record")
        name = platform.python_implementation()
        run = {**record.describe_run("cluster"), "server": f"{name} {platform.python_version()}"}
        record.write(record.default_path("cluster", name.lower()), {**run, "cluster": _ROWS})
