"""A million requests of every kind against one server: python tests/million.py [REQUESTS] [--save] [FLAGS...]

In each round come, one behind the other, wrk on kept connections (bodies with a length and in chunks, spooled ones,
streams, files), close_load over HTTP, uwsgi and SCGI, RPC calls, and beside them clients that break off; the access log is on. Then
all connections are gone, garbage is collected, and memory and file descriptors are looked at: after the warm-up neither may grow. Where C
serves plain requests (native/README.md), it must have served most of them. The server runs on the interpreter that runs this; further
arguments are flags for it. --save writes benchmarks/results/million-INTERPRETER.json. Loopback only; takes minutes; the last line is the
result as JSON.
"""

import contextlib
import json
import pathlib
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

import soak
from harness import sidecars
from harness.client import RawClient, Truncated
from harness.process import ServerProcess
from harness.waiting import wait_until

from aserve.connections.lane.native import _native
from aserve.rpc.packets import encode_call, encode_reply

sys.path.append(str(soak.BENCHMARKS))

import reports

CONNECTIONS = 16
LOAD_SECONDS = 1.0  # of wrk in each round; of the others, each half of that
BREAKERS = 4
MOST_ROUNDS = 200
GRACE_SECONDS = 60.0
# The bound on growth, from the median of the rounds of the second quarter to that of the last, of what is resident when
# garbage has been collected and free memory given back; a leak of 16 octets a request is 8 MiB in these. What is resident
# before that is kept as well, and not judged: malloc and PyPy's collector hold what they have once needed.
GROWTH_MIB = 4
# malloc would have eight arenas a core, and which of them a request's memory comes from is chance: each goes on growing
# to the most that it has ever held, in holes. Measured on CPython: 47 to 54 MiB in a million requests; with one, 0.1 more.
ENVIRONMENT = {"MALLOC_ARENA_MAX": "1"}
FLAGS = [
    "--threads", "8", "--body-memory", "16k", "--head-timeout", "1", "--body-timeout", "1",
    "--bind", "uwsgi://127.0.0.1:0", "--bind", "scgi://127.0.0.1:0", "--access-log", "access.log",
]  # fmt: skip

# Every eighth request of wrk is one of these in turn, the others are plain.
MIX = """\
local requests, hello, count = {{ {requests} }}, {hello}, 0
function request()
    count = count + 1
    return count % 8 > 0 and hello or requests[count / 8 % #requests + 1]
end
"""
BODY, SPOOLED = b"x" * 1000, b"y" * 40_000
KEPT = [
    soak.POST + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY,
    soak.POST + b"Content-Length: %d\r\n\r\n" % len(SPOOLED) + SPOOLED,
    soak.POST + b"Transfer-Encoding: chunked\r\n\r\n3e8\r\n" + BODY + b"\r\n0\r\n\r\n",
    soak.POST + b"Transfer-Encoding: chunked\r\n\r\n9c40;a=b\r\n" + SPOOLED + b"\r\n0\r\nA: b\r\n\r\n",
    soak.GET.replace(b"/", b"/stream?3", 1),
    soak.GET.replace(b"/", b"/file?20000", 1),
    soak.GET.replace(b"/", b"/big?100000", 1),
]
BREAK_OFF = [soak.half_head, soak.garbage, soak.broken_body, soak.no_reader, soak.vanish]


def front(protocol: str, body: bytes) -> bytes:
    """Return a request of a front server."""
    vars = {"CONTENT_LENGTH": str(len(body)), "REQUEST_METHOD": "POST" if body else "GET"}
    vars.update(PATH_INFO="/echo" if body else "/", QUERY_STRING="", SERVER_PROTOCOL="HTTP/1.1", HTTP_HOST="soak")
    return sidecars.encode(protocol, vars, body)


# Each on a connection of its own: what is sent, how the reply begins and ends.
COUNTED = b"%d %d" % (len(BODY), sum(BODY))
CLOSING = {
    "close": (soak.GET[:-2] + b"Connection: close\r\n\r\n", b"HTTP/1.1 200 ", soak.HELLO),
    "uwsgi": (front("uwsgi", b""), b"HTTP/1.1 200 ", soak.HELLO),
    "uwsgi-body": (front("uwsgi", BODY), b"HTTP/1.1 200 ", COUNTED),
    "uwsgi-rpc": (encode_call("join", ("one", "two", "three")), encode_reply(b"three|two|one"), b"one"),
    "scgi": (front("scgi", b""), b"Status: 200 ", soak.HELLO),
    "scgi-body": (front("scgi", BODY), b"Status: 200 ", COUNTED),
}


class Million:
    """One run against one server."""

    def __init__(self, server: ServerProcess, folder: pathlib.Path) -> None:
        self._server, self._folder = server, folder
        self._ports = {"close": server.address[1]}
        for protocol in ("uwsgi", "scgi"):
            self._ports[protocol] = int(server.wait_for_log(rf"serving on .*{protocol}://127\.0\.0\.1:(\d+)")[1])
        self.counts = dict.fromkeys(["kept", *CLOSING, "broken off"], 0)
        self._lock = threading.Lock()  # around the count of those that break off
        self.faults: list[str] = []
        # Requests that C has served to the end; those that it has left to Python in the middle.
        self.in_c = {"whole": 0, "begun": 0}
        self.rounds: list[dict[str, Any]] = []
        subprocess.run(["cc", "-O2", "-o", folder / "close_load", soak.BENCHMARKS / "close_load.c"], check=True)
        for name, parts in CLOSING.items():
            (folder / name).mkdir()
            for part, octets in zip(("request", "begin", "end"), parts):
                (folder / name / part).write_bytes(octets)
        requests = ",".join(map(_lua, KEPT))
        (folder / "mix.lua").write_text(MIX.format(requests=requests, hello=_lua(soak.GET)))

    @property
    def total(self) -> int:
        """How many requests there were."""
        return sum(self.counts.values())

    def run(self, requests: int) -> None:
        """Go on until there were so many, and look at the server behind each round."""
        while self.total < requests and not self.faults and len(self.rounds) < MOST_ROUNDS:
            self._run_round(len(self.rounds))
            with contextlib.suppress(AssertionError):
                wait_until(lambda: len(soak.sockets(self._server)) <= len(self._ports), 30)
            before = self._server.memory_bytes() / soak.MIB
            with contextlib.closing(RawClient(self._server.address)) as client:
                client.sock.settimeout(GRACE_SECONDS)
                client.fetch("/collect")
                self.in_c = dict(zip(self.in_c, map(int, client.fetch("/served", "Connection: close").body.split())))
                client.recv_to_end()
            with contextlib.suppress(AssertionError):
                wait_until(lambda: len(soak.sockets(self._server)) <= len(self._ports), 30)
            memory, files = self._server.memory_bytes() / soak.MIB, len(self._server.open_files())
            figures = {"before": round(before, 2), "rss_mib": round(memory, 2)}
            self.rounds.append({"requests": self.total, "fds": files, **figures})
            print(json.dumps(self.rounds[-1]), flush=True)

    def _run_round(self, number: int) -> None:
        is_over = threading.Event()
        seeds = range(number * BREAKERS, (number + 1) * BREAKERS)
        breakers = [threading.Thread(target=self._break_off, args=(seed, is_over), daemon=True) for seed in seeds]
        for breaker in breakers:
            breaker.start()
        try:
            self._count("kept", reports.parse_wrk(self._load("wrk", "-t1", f"-c{CONNECTIONS}", f"-d{LOAD_SECONDS:.0f}s",
                "--timeout", "30s", "--latency", "-s", str(self._folder / "mix.lua"), self._server.url)))  # fmt: skip
            for name in CLOSING:
                port = str(self._ports[name.partition("-")[0]])
                seconds = str(LOAD_SECONDS / 2)
                text = self._load(
                    f"{self._folder}/close_load", port, str(CONNECTIONS), seconds, f"{self._folder}/{name}"
                )
                self._count(name, reports.parse_close_load(text))
        finally:
            is_over.set()
            for breaker in breakers:
                breaker.join(30)

    def _load(self, *command: str) -> str:
        return subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=GRACE_SECONDS, check=False
        ).stdout

    def _count(self, name: str, row: dict[str, Any]) -> None:
        self.counts[name] += row["n"]
        if row["errors"]:
            self.faults.append(f"{name}: {row['errors']}")

    def _break_off(self, seed: int, is_over: threading.Event) -> None:
        rng = random.Random(seed)
        while not is_over.is_set():
            with contextlib.suppress(OSError, Truncated, AssertionError):
                client = RawClient(self._server.address, rng.choice([None, 4096]))
                try:
                    rng.choice(BREAK_OFF)(client, rng)
                finally:
                    client.reset() if rng.random() < 0.5 else client.close()
            with self._lock:
                self.counts["broken off"] += 1

    def judge(self, has_c: bool) -> dict[str, float]:
        """Return the figures of memory; tell what is not flat, and whether it is not C that has served most requests where it should."""
        if has_c and self.in_c["whole"] < self.total / 2:
            self.faults.append(f"C has served only {self.in_c['whole']} of {self.total} requests")
        each, quarter = [one["rss_mib"] for one in self.rounds], max(len(self.rounds) // 4, 1)
        warm, end = statistics.median(each[quarter : 2 * quarter] or each), statistics.median(each[-quarter:])
        if end - warm > GROWTH_MIB:
            self.faults.append(f"memory grew from {warm:.1f} to {end:.1f} MiB, by more than {GROWTH_MIB}")
        files = [one["fds"] for one in self.rounds]
        if max(files) > files[0]:
            self.faults.append(f"file descriptors left: {files}, in the end {self._server.open_files()}")
        return {"warm": round(warm, 2), "end": round(end, 2), "max": max(each), "bound": GROWTH_MIB}


def _lua(octets: bytes) -> str:
    return '"' + "".join(f"\\{octet:03d}" for octet in octets) + '"'


def run(requests: int, flags: list[str], folder: pathlib.Path) -> dict[str, Any]:
    app = f"{pathlib.Path(__file__).parent / 'million_app.py'}:app"
    server = ServerProcess([app, *FLAGS, *flags], folder, ENVIRONMENT)
    started = time.monotonic()
    try:
        million = Million(server, folder)
        million.run(requests)
        memory = million.judge(has_c=_native is not None and "off" not in flags)
        server.signal()
        status = server.wait(30)
    finally:
        server.end()
    if status or server.faults():
        million.faults.append(f"the server ended with status {status}: {server.faults() or server.log[-2000:]}")
    return {
        "server": f"{platform.python_implementation()} {platform.python_version()}",
        "flags": [*FLAGS, *flags],
        "environment": ENVIRONMENT,
        "requests": million.total,
        "counts": million.counts,
        "in_c": million.in_c,
        "seconds": round(time.monotonic() - started),
        "rss_mib": memory,
        "faults": million.faults,
        "rounds": million.rounds,
    }


def main(arguments: list[str]) -> int:
    """Run it from the command line."""
    is_saved = "--save" in arguments
    arguments = [argument for argument in arguments if argument != "--save"]
    requests = int(arguments.pop(0)) if arguments and arguments[0].isdigit() else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        result = run(requests, arguments, pathlib.Path(folder))
    if is_saved:
        soak.save("million", result)
    print(json.dumps(result))
    return 1 if result["faults"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
