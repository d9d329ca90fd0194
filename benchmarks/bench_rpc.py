"""RPC calls per CPU second of the server: aserve beside uWSGI, in turn, each round a fresh server.

Use:      python benchmarks/bench_rpc.py --uwsgi PATH; --help lists the rest; README.md says how to read it.
Ways:     rpc    uwsgi packets over loopback TCP, one connection a call, as the protocol has it
          route  HTTP requests that a route answers, on kept connections
Owns:     the function, how both servers are started for it, the table.
Not here: processes and /proc (procs.py), the packets' load (rpc_load.c).

The function gets the arguments `one` to `seven`, and returns them reversed and joined by `|`.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import procs
from procs import BenchmarkError, Row

HERE = pathlib.Path(__file__).resolve().parent
WARM_UP_SECONDS = {False: 1.0, True: 5.0}  # by whether it is PyPy: its figures still rise after 3 s
WORDS = ["one", "two", "three", "four", "five", "six", "seven"]
RESULT = "|".join(reversed(WORDS)).encode()
APP = """
import uwsgi

def myfunc(*arguments):
    return b"|".join(arguments[::-1])

uwsgi.register_rpc("myfunc", myfunc)

def app(environ, start_response):
    start_response("404 Not Found", [("Content-Length", "0")])
    return []
"""
ROUTE = f"rpc:myfunc {' '.join(WORDS)}"
ASERVE = "{python} -m aserve rpc_app:app --threads {threads}"
# Without --master: one process, as aserve has. Without a log, as aserve has none by default.
UWSGI = "{uwsgi} --module rpc_app:app --disable-logging --listen 1024 --enable-threads --threads {threads}"
COMMANDS = {
    ("aserve", "rpc"): ASERVE + " --bind uwsgi://127.0.0.1:{port}",
    ("aserve", "route"): ASERVE + " --bind 127.0.0.1:{port} --route '{route}'",
    ("uwsgi", "rpc"): UWSGI + " --socket 127.0.0.1:{port}",
    ("uwsgi", "route"): UWSGI + " --http11-socket 127.0.0.1:{port} --route-run '{route}'",
}


def main(argv: list[str]) -> int:
    """Run the command; return its exit status: 0 measured, 2 it could not begin."""
    args = parse_args(argv)
    procs.exit_on_signals()
    try:
        procs.need_tools("taskset", "cc", *(["wrk"] if "route" in args.ways else []))
        with tempfile.TemporaryDirectory() as folder:
            run(args, pathlib.Path(folder))
    except BenchmarkError as fault:
        print(f"bench_rpc: {fault}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; every server was stopped", file=sys.stderr)
        return 130
    return 0


def parse_args(argv: list[str]) -> argparse.Namespace:
    """Return the flags."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, metavar="PATH", help="a python that has aserve (this one)")
    parser.add_argument("--uwsgi", default="uwsgi", metavar="PATH", help=
        "the uWSGI to compare with; for route one built with PCRE, as pyuwsgi is; '' for none")  # fmt: skip
    parser.add_argument("--ways", type=_list(str), default=["rpc", "route"], metavar="WAY,...", help="rpc,route")
    parser.add_argument("--connections", type=_list(int), default=[1, 10, 100], metavar="N,...", help="1,10,100")
    parser.add_argument("--threads", type=_list(int), default=[1, 8], metavar="N,...", help="1,8")
    parser.add_argument("--flags", default="", help="more flags for aserve")
    parser.add_argument("--rounds", type=int, default=5, help="5")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement (4)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write every figure there")
    return parser.parse_args(argv)


def _list(kind: type) -> Any:
    return lambda text: [kind(part) for part in text.split(",")]


# Measuring


def run(args: argparse.Namespace, folder: pathlib.Path) -> None:
    """Measure everything; print a table for each way, then the ratios."""
    (folder / "rpc_app.py").write_text(APP)
    subprocess.run(["cc", "-O2", "-o", folder / "rpc_load", HERE / "rpc_load.c"], check=True)
    servers = ["aserve", *(["uwsgi"] if args.uwsgi else [])]
    is_pypy = "PyPy" in subprocess.run([args.python, "-VV"], capture_output=True, text=True, check=True).stdout
    rows: list[Row] = []
    cpus = procs.choose_cpus()
    for number in range(args.rounds):
        for way in args.ways:
            for threads in args.threads:
                # Turns about, so that neither always has the warmer machine.
                for server in servers if number % 2 == 0 else servers[::-1]:
                    warm_up = WARM_UP_SECONDS[is_pypy and server == "aserve"]
                    rows += measure(args, folder, server, way, threads, cpus, warm_up)
    print(format_table(args, servers, rows))
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


def measure(
    args: argparse.Namespace,
    folder: pathlib.Path,
    server: str,
    way: str,
    threads: int,
    cpus: tuple[int, int],
    warm_up_seconds: float,
) -> list[Row]:
    """
    Start a server; load it with each number of connections; return a row for each.

    Raises:
        BenchmarkError: it did not start, or answered wrong.
    """
    port = procs.free_port()
    command = COMMANDS[server, way].format(
        python=args.python, uwsgi=args.uwsgi, threads=threads, port=port, route=ROUTE
    )
    words = shlex.split(command + (f" {args.flags}" if server == "aserve" else ""))
    log_path = folder / "log"
    rows = []
    with open(log_path, "wb") as log, procs.running(words, cpus[0], dict(os.environ), str(folder), log) as process:
        is_up = procs.wait_until(lambda: procs.is_listening(port) or process.poll() is not None, 20)
        if not is_up or process.poll() is not None:
            raise BenchmarkError(f"{server} does not listen: {log_path.read_text()[-500:]}")
        for connections in args.connections:
            load(folder, way, port, connections, warm_up_seconds, cpus[1])
            before, began = procs.cpu_seconds(process.pid), time.monotonic()
            row = load(folder, way, port, connections, args.seconds, cpus[1])
            cpu_seconds, seconds = procs.cpu_seconds(process.pid) - before, time.monotonic() - began
            row.update(server=server, way=way, threads=threads, connections=connections, cpu_seconds=cpu_seconds)
            row.update(cpu_share=cpu_seconds / seconds, pss_mb=procs.pss_mb(process.pid))
            row["per_cpu_second"] = row["n"] / cpu_seconds
            if row["errors"]:
                raise BenchmarkError(f"{server}, {way}, {connections} connections: {row['errors']}")
            rows.append(row)
    return rows


def load(folder: pathlib.Path, way: str, port: int, connections: int, seconds: float, cpu: int) -> Row:
    """Load the server; return n, rps, p50_ms, p99_ms and errors."""
    if way == "route":
        return procs.wrk(port, connections, seconds, cpu)
    items = b"".join(len(word).to_bytes(2, "little") + word.encode() for word in ["myfunc", *WORDS])
    packet = b"\xad" + len(items).to_bytes(2, "little") + b"\0" + items
    reply = b"\xad" + len(RESULT).to_bytes(2, "little") + b"\0" + RESULT
    words = ["taskset", "-c", str(cpu), str(folder / "rpc_load"), str(port), str(connections), str(seconds)]
    done = subprocess.run([*words, packet.hex(), reply.hex()], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(f"rpc_load: {done.stderr.strip()}")
    good, bad, elapsed, p50_us, p99_us = done.stdout.split()
    return {
        "n": int(good),
        "rps": int(good) / float(elapsed),
        "p50_ms": int(p50_us) / 1000,
        "p99_ms": int(p99_us) / 1000,
        "errors": {"bad": int(bad)} if int(bad) else {},
    }


# The table


def format_table(args: argparse.Namespace, servers: list[str], rows: list[Row]) -> str:
    """Return medians over the rounds: calls per CPU second, and the ratio to uWSGI in the same rounds."""
    lines = [f"{'way':<6} {'conns':>5} {'threads':>7}  " + "".join(f"{name + ' calls/CPU s':>22}" for name in servers)]
    lines[0] += f"{'ratio':>8}{'rps':>18}{'p99 ms':>16}{'MB':>12}"
    for way in args.ways:
        for connections in args.connections:
            for threads in args.threads:
                key = {"way": way, "connections": connections, "threads": threads}
                mine = [
                    [row for row in rows if row["server"] == name and key.items() <= row.items()] for name in servers
                ]
                medians = [_median(some, "per_cpu_second") for some in mine]
                line = f"{way:<6} {connections:>5} {threads:>7}  " + "".join(f"{value:>22,.0f}" for value in medians)
                ratio = f"{medians[0] / medians[1]:.2f}" if len(medians) > 1 else "-"
                columns = [
                    " / ".join(f"{_median(some, name):{form}}" for some in mine)
                    for name, form in (("rps", ",.0f"), ("p99_ms", ".2f"), ("pss_mb", ".0f"))
                ]
                lines.append(line + f"{ratio:>8}{columns[0]:>18}{columns[1]:>16}{columns[2]:>12}")
    return "\n".join(lines)


def _median(rows: list[Row], name: str) -> float:
    return statistics.median(row[name] for row in rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
