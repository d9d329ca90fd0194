"""A hunt for lost wake-ups in the lane and in the C path: python tests/hunt.py [REQUESTS] [--seconds N] [FLAGS...]

Pieces of a minute (--seconds) come in turn until REQUESTS (a million) were answered on this commit and interpreter: 1, 2 and 100
streams of HTTP/2 over TLS, to a sleeping, computing or quick app, on a thread and on eight; one or two kept connections; both
with pauses of random length, so that threads sleep and the lane changes owners; and starts, whose first request waits for
the server or comes at once. The server has otherwise a single thread, and a worker or none, beside no or four busy processes. Each request must be answered
within a second of the due time; beside a late answer stands for how long threads of both sides waited for a CPU meanwhile, and less than half of
the time explains nothing. Each ended piece is a line of build/hunt.jsonl; a stopped run goes on behind the last line. Further arguments
are flags for the server, on the same interpreter. Loopback only; the exit status is 1 if an answer on this commit was late
for no such reason.
"""

import argparse
import concurrent.futures
import contextlib
import glob
import itertools
import json
import os
import pathlib
import platform
import random
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

from harness.process import ServerProcess
from whole import ROOT, commit, read_records

RESULTS = ROOT / "build/hunt.jsonl"
APPS = ROOT / "tests/harness/apps.py"
PEM = str(ROOT / "tests/fuzz/server.pem")
DUE_SECONDS, PATIENCE_SECONDS, LOOK_SECONDS = 1.0, 30.0, 0.1
# Behind most requests the next request comes at once; pauses are as often short as long, from a spin to more than any stall in the lane's watch.
PAUSE_SHARE, SHORTEST_SECONDS, LONGEST_SECONDS = 0.2, 1e-6, 0.03
SPLIT_SHARE = 0.01  # of requests whose head comes in two pieces: the connection leaves the lane, and comes back
GET, END = b"GET / HTTP/1.1\r\nHost: hunt\r\n\r\n", b"hello\n"
BLOCK = b"\x82\x87\x84\x01\x04hunt"  # of HPACK: GET, https, /, and the authority
BUSY = "import sys, time\nend = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < end: pass"
PIECES = [
    *itertools.product(("1 stream", "2 streams", "100 streams"), (0, 4), (("--threads", "1"), ("--threads", "8"))),
    *itertools.product(("1 connection", "2 connections", "starts"), (0, 4), ((), ("--workers", "1"))),
]


class Client:
    """A connection; how long answers took, and of late answers, how long threads of both sides waited for a CPU meanwhile."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.answers: list[tuple[float, float]] = []
        self._pids: list[int] = []
        self._looked_at = self._waited = 0.0
        self._sock = socket.create_connection(address, PATIENCE_SECONDS)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def watch(self, server: ServerProcess) -> None:
        """Look at the waits of this server from now on."""
        self._pids = [os.getpid(), server.pid, *children_of(server.pid)]
        self.look()

    def look(self) -> None:
        """Note the waits so far, now and then: a look costs as much as a request."""
        if time.monotonic() - self._looked_at > LOOK_SECONDS:
            self._looked_at, self._waited = time.monotonic(), waited(self._pids)

    def send(self, octets: bytes = GET) -> None:
        """Send a request, or a part."""
        self._sock.sendall(octets)

    def receive(self, since: float) -> None:
        """Wait for the answer to a request due at this time; a missing answer took as long as the wait."""
        octets = b""
        with contextlib.suppress(TimeoutError, socket.timeout):
            while not octets.endswith(END):
                octets += self._sock.recv(1 << 16) or b" [closed]" + END
        if octets and not (octets.startswith(b"HTTP/1.1 200 ") and b"[closed]" not in octets):
            raise SystemExit(f"a wrong answer: {octets!r}")
        took = time.monotonic() - since
        self.answers.append((took, waited(self._pids) - self._waited if took > DUE_SECONDS else 0.0))

    def hunt(self, until: float, rng: random.Random) -> None:
        """Send requests, in turn, and pause before some."""
        while time.monotonic() < until and not (self.answers and self.answers[-1][0] >= PATIENCE_SECONDS):
            if rng.random() < PAUSE_SHARE:
                pause(rng)
            at = rng.randrange(1, len(GET)) if rng.random() < SPLIT_SHARE else 0
            if at:
                self.send(GET[:at])
                pause(rng)
            self.look()
            since = time.monotonic()
            self.send(GET[at:])
            self.receive(since)


class Streams(Client):
    """A connection of HTTP/2 over TLS with up to so many streams at once, whose frames are written here: h2 takes a millisecond for a request."""

    def __init__(self, address: tuple[str, int], count: int) -> None:
        super().__init__(address)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        self._sock = context.wrap_socket(self._sock)
        self._count, self._octets = count, b""
        self._open: dict[int, float] = {}
        self._answered_at = (
            0.0  # many streams wait for a single thread: the next answer is due within a second of the last
        )
        # Settings, and room for all coming responses.
        self.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0) + frame(8, 0, 0, b"\x7f\0\0\0"))

    def hunt(self, until: float, rng: random.Random) -> None:
        """Begin streams, as many as are free or fewer, and pause before some."""
        stream = 1
        while time.monotonic() < until and not (self.answers and self.answers[-1][0] >= PATIENCE_SECONDS):
            if rng.random() < PAUSE_SHARE:
                pause(rng)
            self.look()
            begun = range(stream, stream + 2 * rng.randint(1, max(self._count - len(self._open), 1)), 2)
            stream, since = begun.stop, time.monotonic()
            self._open.update(dict.fromkeys(begun, since))
            self.send(b"".join(frame(1, 5, number, BLOCK) for number in begun))
            self._take(rng.randrange(self._count))
        self._take(0)

    def _take(self, most: int) -> None:
        """Take answers until no more than these streams are open."""
        while len(self._open) > most:
            try:
                received = self._sock.recv(1 << 16)
            except (TimeoutError, socket.timeout):
                self.answers += [(time.monotonic() - since, 0.0) for since in self._open.values()]
                self._open.clear()
                return
            if not received:
                raise SystemExit("the server has closed")
            self._octets += received
            while len(self._octets) >= 9 and len(self._octets) >= (end := 9 + int.from_bytes(self._octets[:3], "big")):
                kind, flags, stream = self._octets[3], self._octets[4], int.from_bytes(self._octets[5:9], "big")
                if kind in (3, 7) or (kind == 0 and self._octets[9:end] != END):
                    raise SystemExit(f"a wrong answer: {self._octets[:end]!r}")
                if kind == 0 and flags & 1:
                    took = time.monotonic() - max(self._open.pop(stream), self._answered_at)
                    self._answered_at = time.monotonic()
                    self.answers.append((took, waited(self._pids) - self._waited if took > DUE_SECONDS else 0.0))
                self._octets = self._octets[end:]


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame (RFC 9113 section 4.1)."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def children_of(pid: int) -> list[int]:
    """Return the children of a process."""
    return [
        int(child)
        for path in glob.glob(f"/proc/{pid}/task/*/children")
        for child in pathlib.Path(path).read_text().split()
    ]


def waited(pids: Sequence[int]) -> float:
    """Return for how many seconds the threads of these processes have been ready to run, and had no CPU; a sleeping thread is not."""
    total = 0
    for path in [path for pid in pids for path in glob.glob(f"/proc/{pid}/task/*/schedstat")]:
        with contextlib.suppress(OSError):  # the process has ended
            total += int(pathlib.Path(path).read_text().split()[1])
    return total / 1e9


def pause(rng: random.Random) -> None:
    """Wait for a random time."""
    time.sleep(SHORTEST_SECONDS * (LONGEST_SECONDS / SHORTEST_SECONDS) ** rng.random())


@contextlib.contextmanager
def busy(count: int, seconds: float) -> Iterator[None]:
    """Let so many processes compute; the processes end by themselves, too."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY, str(seconds + 60)]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextlib.contextmanager
def serving(
    flags: Sequence[str],
    folder: pathlib.Path,
    fds: Sequence[int] = (),
    app: str = "hello",
    launcher: Sequence[str] = (),
) -> Iterator[ServerProcess]:
    """Run a server, and stop it; with a launcher `flags` name the address."""
    server = ServerProcess([f"{APPS}:{app}", "--threads", "1", *flags], folder, {}, launcher, fds)
    try:
        yield server
        server.signal()
        server.wait(60)
    finally:
        server.end()


def hunt_kept(count: int, flags: Sequence[str], folder: pathlib.Path, seconds: float) -> list[tuple[float, float]]:
    """Return the times of requests on so many kept connections."""
    with serving(flags, folder) as server, concurrent.futures.ThreadPoolExecutor(count) as pool:
        clients, until = [Client(server.address) for _ in range(count)], time.monotonic() + seconds
        for client in clients:
            client.watch(server)
        list(pool.map(lambda client: client.hunt(until, random.Random()), clients))
    return [answer for client in clients for answer in client.answers]


def hunt_streams(count: int, flags: Sequence[str], folder: pathlib.Path, seconds: float) -> list[tuple[float, float]]:
    """Return the times of requests on up to so many streams at once."""
    address = ["--bind", "https://127.0.0.1:0", "--certificate", PEM, "--key", PEM, "--http2", "auto"]
    with serving([*address, *flags], folder, app="delayed", launcher=["env"]) as server:
        client = Streams(server.address, count)
        client.watch(server)
        client.hunt(time.monotonic() + seconds, random.Random())
    return client.answers


def hunt_starts(flags: Sequence[str], folder: pathlib.Path, seconds: float) -> list[tuple[float, float]]:
    """Return the times of the first requests of servers: a request from before the server, and a request at once; then a second request."""
    found, until = [], time.monotonic() + seconds
    while not found or time.monotonic() < until:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            early = Client(listener.getsockname())
            early.send()
            with serving(flags, folder, [listener.fileno()]) as server:
                early.watch(server)
                early.receive(time.monotonic())
                early.send()
                early.receive(time.monotonic())
        with serving(flags, folder) as server:
            late = Client(server.address)
            late.watch(server)
            for _ in range(2):
                since = time.monotonic()
                late.send()
                late.receive(since)
        found += early.answers + late.answers
    return found


def hunt(number: int, seconds: float, flags: Sequence[str]) -> dict[str, object]:
    """Run a piece; return the written result."""
    kind, busy_count, processes = PIECES[number % len(PIECES)]
    with tempfile.TemporaryDirectory() as folder, busy(busy_count, seconds):
        where = [*processes, *flags], pathlib.Path(folder), seconds
        if kind == "starts":
            found = hunt_starts(*where)
        else:
            found = (hunt_streams if "stream" in kind else hunt_kept)(int(kind.split()[0]), *where)
    late = sorted(((took, waits) for took, waits in found if took > DUE_SECONDS), reverse=True)
    return {
        "kind": kind, "busy": busy_count, "flags": where[0], "requests": len(found), "slowest_seconds": round(max(found)[0], 4),
        "late": late[:10], "unexplained": sum(took > 2 * waits for took, waits in late),
    }  # fmt: skip


def main() -> int:
    """Run the missing pieces."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("requests", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    options, flags = parser.parse_known_args()
    of, python = commit(), platform.python_implementation()
    RESULTS.parent.mkdir(exist_ok=True)
    records = [
        record for record in read_records(RESULTS) if (record["commit"], record["python"]) == (of, python) and of
    ]
    while sum(record["requests"] for record in records) < options.requests or len(records) < len(PIECES):
        records.append({"commit": of, "python": python, **hunt(len(records), options.seconds, flags)})
        print(json.dumps(records[-1]), flush=True)
        with RESULTS.open("a") as out:
            # Begun on a new line: a killed run may have left a part of a line.
            out.write(f"\n{json.dumps(records[-1])}\n")
    late = [record for record in records if record["unexplained"]]
    total, slowest = sum(record["requests"] for record in records), max(record["slowest_seconds"] for record in records)
    print(f"{total} requests in {len(records)} pieces, the slowest {slowest:g} s; pieces with a late one: {len(late)}")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
