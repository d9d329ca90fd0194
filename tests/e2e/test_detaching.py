"""Kept connections go from process to process while their clients ask: none is lost or connected anew."""

import json
import pathlib
import socket
import subprocess
import sys
import threading

import pytest
from harness import faults
from harness.client import RawClient
from harness.interpreter import IS_PYPY, LOOP_KINDS
from harness.waiting import wait_until

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="SOCK_SEQPACKET pairs"), pytest.mark.long_on_pypy]

SCRIPT = pathlib.Path(__file__).parent / "detaching_server.py"
CONNECTIONS = 300
THREADS = 6
ROUNDS = 6  # at least; each there and back
WAYS = [("tcp", 4, "auto"), ("unix", 0, "off")]
BRIEF = [(way, loop) for way, loop in zip(WAYS, LOOP_KINDS * 2)]  # each value once
if not IS_PYPY:  # its halves are in one of the two above
    WAYS += [("unix", 4, "auto"), ("tcp", 4, "off"), ("tcp", 0, "auto")]
CASES = [
    pytest.param(
        (way, loop), marks=() if (way, loop) in BRIEF else pytest.mark.long, id="-".join(map(str, (*way, loop)))
    )
    for way in WAYS
    for loop in LOOP_KINDS
]


class Process:
    """One of two servers."""

    def __init__(self, end, loop, settings, log):
        self._log = log
        with open(log, "wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(SCRIPT), str(end.fileno()), loop, json.dumps(settings)],
                pass_fds=[end.fileno()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
            )  # fmt: skip
        end.close()
        self.pid = self._process.pid

    def read(self):
        line = self._process.stdout.readline()
        assert line, self._log.read_text()
        return json.loads(line)

    def order(self, text):
        self._process.stdin.write(text.encode() + b"\n")
        self._process.stdin.flush()
        return self.read()

    def end(self):
        self._process.kill()
        self._process.wait(30)
        self._process.stdin.close()
        self._process.stdout.close()
        assert not faults.faults_in(self._log.read_text(), ()), self._log.read_text()


@pytest.fixture(params=CASES)
def processes(request, tmp_path):
    """Return two servers that can exchange connections, and the first's address."""
    (kind, threads, lane), loop_kind = request.param
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    found = []
    for name, end in zip("ab", pair):
        bind = f"unix:{tmp_path / name}" if kind == "unix" else "127.0.0.1:0"
        settings = {"bind": bind, "threads": threads, "lane": lane, "drain_seconds": 10}
        found.append(Process(end, loop_kind, settings, tmp_path / f"{name}.log"))
    [address], _ = [process.read() for process in found]
    yield found, tuple(address) if kind == "tcp" else address
    for process in found:
        process.end()


class Clients:
    """Clients of one thread that ask in turn, without end."""

    def __init__(self, address, count, is_over):
        self._clients = [RawClient(address) for _ in range(count)]
        self._is_over = is_over
        self.pids, self.count, self.error = set(), 0, None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            while not self._is_over.is_set():
                self.ask()
        except BaseException as exc:
            self.error = exc
            raise

    def ask(self):
        """Each asks once, and is the same client for whoever answers."""
        for client in self._clients:
            reply = client.fetch("/pieces" if self.count % 5 == 0 else "/")
            pid, _, port = reply.body.decode().partition(" ")
            name = client.sock.getsockname()
            assert reply.status == 200 and port == ("" if isinstance(name, str) else str(name[1]))
            assert reply.get("Connection") != "close"
            self.pids.add(int(pid))
            self.count += 1

    def close(self):
        for client in self._clients:
            client.close()


def test_connections_that_go_to_and_fro(processes):
    """Two processes serve 300 clients that never stop asking; then the first process ends, and no client notices."""
    (a, b), address = processes
    is_over, rounds = threading.Event(), []
    groups = [Clients(address, CONNECTIONS // THREADS, is_over) for _ in range(THREADS)]

    def go_to_and_fro():
        assert not any(group.error for group in groups)
        rounds.append([process.order("give") for process in (a, b)])
        return len(rounds) >= ROUNDS and all(group.pids == {a.pid, b.pid} for group in groups)

    wait_until(go_to_and_fro, 60)
    is_over.set()
    for group in groups:
        group.thread.join(30)
        assert group.error is None and not group.thread.is_alive()
    wait_until(lambda: a.order("count")["adopted"] == b.order("count")["given"])
    wait_until(lambda: a.order("give")["open"] == 0)
    ended = a.order("end")
    assert ended["is_clean"] and ended["refused"] == 0
    for group in groups:
        group.pids.clear()
        for _ in range(3):
            group.ask()
        assert group.pids == {b.pid}
        group.close()
    other = b.order("end")
    assert (
        other["adopted"] == ended["given"] >= CONNECTIONS
        and ended["adopted"] == other["given"]
        and not other["refused"]
    )
