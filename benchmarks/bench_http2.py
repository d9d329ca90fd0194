"""HTTP/2 over TLS, beside other servers that serve WSGI by it: which streams wait for others, what a bad client can do.

Use:      make bench-http2 ARGS="..."; python benchmarks/bench_http2.py --help; README.md says how to read it.
Probes:   side    ten requests on one connection, each of which sleeps for 100 ms: how long all take
          slow    a response of 5.2 MB that is not read, and requests beside it on the same connection
          floods  frames that bring no request further, for two seconds each
          h2spec  how many of its tests of the protocol pass
Owns:     the probes, the file.
Not here: what requests cost (bench_serve.py), the servers (servers.py), the client (h2_client.py), processes (procs.py).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import command
import procs
import servers
import tls
from h2_client import FLOODS, Client, flood
from procs import BenchmarkError
from servers import Pair, Server

BENCH = "http2"
APP = "http2"
FLOOD_SECONDS = 2.0
START_SECONDS = 30.0  # Guess: on a busy machine
NAPS, BESIDE = 10, 50  # requests
H2SPEC_SECONDS = 120.0
NAMES = {"side": "side by side", "slow": "unread response"}  # of the rows of a probe
MISSING = "not measured"
_SPEC = re.compile(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed")


class Served:
    """A server that runs."""

    def __init__(self, pid: int, port: int) -> None:
        self.pid, self.port = pid, port


@contextlib.contextmanager
def running(pair: Pair, server: Server) -> Iterator[Served]:
    """
    Run a server until the block is over; it has answered once.

    Raises:
        BenchmarkError: it is not installed, or does not answer over HTTP/2.
    """
    if pair.version(server) is None:
        raise BenchmarkError(f"{server.package} is not installed")
    with tempfile.TemporaryDirectory() as home, open(f"{home}/output", "w+b") as output:
        port = procs.free_port()
        values = {**servers.places(pair), **tls.prepare(home, b""), "port": str(port), "app": APP, "log": f"{home}/log"}
        words = servers.build_command(server, values)
        env = procs.environment(home, servers.HERE)
        with procs.running(words, str(procs.choose_cpus()[0]), env, str(servers.HERE), output) as process:
            started = time.monotonic()
            while not _answers(port):
                if process.poll() is not None or time.monotonic() - started > START_SECONDS:
                    output.seek(0)
                    text = " ".join(output.read().decode(errors="replace").split())
                    raise BenchmarkError(f"did not start: {text[-300:]}")
                time.sleep(0.05)
            yield Served(process.pid, port)


def _answers(port: int) -> bool:
    try:
        with contextlib.closing(Client(port)) as client:
            client.wait_for({client.ask("/")})
    except OSError:
        return False
    return True


# Probes: each returns its rows' figures, by the name of the row's probe


def probe_side(it: Served) -> dict[str, dict[str, float]]:
    """Ask for ten naps at once."""
    with contextlib.closing(Client(it.port)) as client:
        began = time.perf_counter()
        ends = client.wait_for({client.ask("/nap") for _ in range(NAPS)})
        return {"side by side": {"all_ms": (max(ends.values()) - began) * 1000}}


def probe_slow(it: Served) -> dict[str, dict[str, float]]:
    """Let a large response wait for room, and ask beside it."""
    before = procs.pss_mb(it.pid)
    with contextlib.closing(Client(it.port, window=1 << 16)) as client:
        client.ask("/blob")
        for event in client.events():
            if type(event).__name__ == "DataReceived":
                break
        times: list[float] = []
        with contextlib.suppress(OSError):
            for _ in range(BESIDE):
                began = time.perf_counter()
                stream = client.ask("/")
                times.append((client.wait_for({stream}, 2.0)[stream] - began) * 1000)
        more = procs.pss_mb(it.pid) - before
    figures = {"answered": float(len(times)), "more_mb": more}
    return {
        "unread response": {**figures, "p50_ms": statistics.median(times), "most_ms": max(times)} if times else figures
    }


def probe_floods(it: Served) -> dict[str, dict[str, float]]:
    """Send each flood."""
    rows = {}
    for way in FLOODS:
        cpu, memory = procs.cpu_seconds(it.pid), procs.pss_mb(it.pid)
        count, ended = flood(it.port, way, FLOOD_SECONDS)
        figures = {
            "frames": float(count),
            "cpu_s": procs.cpu_seconds(it.pid) - cpu,
            "more_mb": procs.pss_mb(it.pid) - memory,
        }
        rows[way.name] = {**figures, **({"ended_s": ended} if ended is not None else {})}
    return rows


def probe_h2spec(it: Served) -> dict[str, dict[str, float]]:
    """Run h2spec."""
    words = [_h2spec(), "-t", "-k", "-h", "127.0.0.1", "-p", str(it.port), "-o", "5"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=H2SPEC_SECONDS, check=False)
    found = _SPEC.search(done.stdout)
    if found is None:
        raise BenchmarkError(f"h2spec says {done.stdout[-200:]!r}")
    return {"h2spec": dict(zip(("tests", "passed", "skipped", "failed"), map(float, found.groups())))}


def _h2spec() -> str:
    path = os.environ.get("H2SPEC") or shutil.which("h2spec")
    if path is None:
        raise BenchmarkError(
            "there is no h2spec: go install github.com/summerwind/h2spec/cmd/h2spec@latest; $H2SPEC names another place"
        )
    return path


PROBES = {"side": probe_side, "slow": probe_slow, "floods": probe_floods, "h2spec": probe_h2spec}


def measure_rows(pair: Pair, probes: list[str], only: list[str]) -> list[dict[str, Any]]:
    """Probe each server, started anew for each probe; return the rows, each with its probe and server."""
    rows = []
    for probe in probes:
        for server in servers.choose(pair, only, bench=BENCH):
            try:
                with running(pair, server) as it:
                    found, note = PROBES[probe](it), f"{server.package} {pair.version(server)}"
            except (BenchmarkError, OSError, subprocess.TimeoutExpired) as fault:
                found, note = {NAMES.get(probe, probe): {}}, f"{MISSING}: {fault}"
            for name, figures in found.items():
                rows.append({"probe": name, "server": server.name, **figures, "note": note})
                print(f"{name}, {server.name}: {figures or note}", file=sys.stderr, flush=True)
    return rows


def main(argv: list[str]) -> int:
    """Run the command; return its exit status: 0 measured, 1 aserve was not, 2 it could not begin."""
    parser = command.probes_parser(__doc__, PROBES)
    return command.run("bench_http2", measure, parser.parse_args(argv))


def measure(args: argparse.Namespace) -> int:
    """Measure, print the tables, write the file; return the exit status."""
    pair = servers.find_pair(args.interpreter, args.aserve, args.peers)
    rows = measure_rows(pair, args.probes, args.only)
    command.write_probes(BENCH, args, pair, rows, [])
    return int(any(row["note"].startswith(MISSING) for row in rows if row["server"] == "aserve"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
