"""Memory of four workers of a Django project with its admin, and how soon a new one answers: an import for each, or one for all.

Use:      make bench-preload ARGS="..."; python benchmarks/bench_preload.py --help
Owns:     the ways of starting, what is measured of each, the file.
Figures:  PSS and USS of the whole tree, supervisor or master included, after each worker has answered; seconds from the end
          of a worker (SIGKILL) to the first answer of its successor. Medians of the rounds.
Not here: starting and stopping (procs.py), the environments (servers.py), the table (tables.py).
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import pathlib
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import command
import procs
import record
import servers
import tables
from procs import BenchmarkError
from servers import OURS, Pair, Server

BENCH = "preload"
WORKERS = 4
ROUNDS, QUICK_ROUNDS = 5, 1
START_SECONDS = 120.0  # Guess: four imports on one CPU
PAGE = "/admin/login/"
SITE = servers.ROOT / "benchmarks" / "django_site"
OURS_COMMAND = "{aserve} -m aserve --bind 127.0.0.1:{port} --workers 4 --threads 4 preload_app:app"
GUNICORN = "{peer} -m gunicorn --bind 127.0.0.1:{port} --workers 4 --worker-class gthread --threads 4 --log-level error preload_app:app"
WAYS = [
    Server("aserve", OURS_COMMAND, OURS, runs_on_pypy=True, note="an import for each worker"),
    Server("aserve-preload", OURS_COMMAND + " --preload", OURS, runs_on_pypy=True),
    Server("aserve-warm", OURS_COMMAND + f" --preload --warm-up 127.0.0.1{PAGE}", OURS, runs_on_pypy=True),
    Server("gunicorn", GUNICORN, "gunicorn", runs_on_pypy=True, note="an import for each worker"),
    Server("gunicorn-preload", GUNICORN + " --preload", "gunicorn", runs_on_pypy=True),
]
# The project, and who answers.
APP = """\
import os, sys
sys.path.insert(0, {site!r})
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
from django.core.wsgi import get_wsgi_application
application = get_wsgi_application()
def app(environ, start_response):
    def start(status, fields, exc_info=None):
        return start_response(status, [*fields, ("X-Pid", str(os.getpid()))], exc_info)
    return application(environ, start)
"""


def main(argv: list[str]) -> int:
    """Run the command; return its exit status: 0 measured, 1 aserve was not, 2 it could not begin."""
    return command.run("bench_preload", measure, parse_args(argv))


def parse_args(argv: list[str]) -> argparse.Namespace:
    """Return the flags."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [way.name for way in WAYS]
    parser.add_argument(
        "--only", type=command.choice_of(*names), default=names, metavar="NAME,...", help=", ".join(names)
    )
    parser.add_argument("--rounds", type=command.positive(int), help=str(ROUNDS))
    command.add_place_flags(parser)
    return parser.parse_args(argv)


def measure(args: argparse.Namespace) -> int:
    """Measure, print the table, write the file; return the exit status."""
    pair = servers.find_pair(args.interpreter, args.aserve, args.peers)
    chosen = [way for way in WAYS if way.name in args.only]
    figures: dict[str, list[dict[str, float]]] = {way.name: [] for way in chosen}
    notes: dict[str, str] = {}
    for _ in range(args.rounds or (QUICK_ROUNDS if args.quick else ROUNDS)):
        for way in chosen:
            try:
                figures[way.name].append(run(pair, way))
                print(f"{way.name}: {figures[way.name][-1]}", file=sys.stderr, flush=True)
            except BenchmarkError as fault:
                notes[way.name] = f"not measured: {fault}"
    rows = [{"server": way.name, "note": notes.get(way.name, way.note), **medians(figures[way.name])} for way in chosen]
    print(tables.preload_table(rows), end="")
    document = {
        **record.describe_run(BENCH),
        "aserve_python": servers.without_folders(pair.aserve_facts),
        "peer_python": servers.without_folders(pair.peer_facts),
        "workers": WORKERS,
        "servers": {way.name: {"command": way.command, "version": pair.version(way)} for way in chosen},
        "rounds": figures,
        "rows": rows,
    }
    command.write_document(BENCH, args, pair, document)
    return int(any(name.startswith("aserve") for name in notes))


def run(pair: Pair, way: Server) -> dict[str, float]:
    """Start it, let all workers answer, look at their memory, and let one be replaced; return the figures."""
    if pair.version(way) is None:
        raise BenchmarkError(f"{way.package} is not installed")
    with _serving(pair, way) as (pid, port):
        pids = _ask_all(port)
        figures = {f"{name}_mb": value for name, value in memory_of(pid).items()}
        began_at = time.monotonic()
        os.kill(min(pids), signal.SIGKILL)
        # As many at once as there are workers: one alone may go by chance to one of before again and again.
        while not set(_ask_some(port, WORKERS)) - pids:
            if time.monotonic() - began_at > START_SECONDS:
                raise BenchmarkError("no successor answers")
        figures["successor_seconds"] = round(time.monotonic() - began_at, 3)
        return figures


@contextlib.contextmanager
def _serving(pair: Pair, way: Server) -> Iterator[tuple[int, int]]:
    """Run the server; yield its pid and port."""
    with tempfile.TemporaryDirectory() as home, open(f"{home}/output", "w+b") as output:
        port = procs.free_port()
        pathlib.Path(home, "preload_app.py").write_text(APP.format(site=str(SITE)))
        env = {**procs.environment(home, home), "DJANGO_SITE_FOLDER": home}
        python = str(pair.aserve if way.is_ours else pair.peer)
        made = subprocess.run([python, str(SITE / "wsgi.py")], env=env, capture_output=True, text=True, check=False)
        if made.returncode:
            raise BenchmarkError(f"no database: {made.stderr.strip().splitlines()[-1]}")
        values = {"aserve": str(pair.aserve), "peer": str(pair.peer), "port": str(port)}
        words = [word.format_map(values) for word in shlex.split(way.command)]
        with procs.running(words, procs.choose_cpus()[0], env, home, output) as process:
            procs.wait_until(lambda: process.poll() is not None or procs.is_listening(port), START_SECONDS)
            yield process.pid, port


def _ask_all(port: int) -> set[int]:
    """Ask until every worker has answered, and once more as often; return their pids."""
    seen: set[int] = set()
    deadline = time.monotonic() + START_SECONDS
    while len(seen) < WORKERS:
        if time.monotonic() > deadline:
            raise BenchmarkError(f"only {len(seen)} of {WORKERS} workers have answered")
        seen |= _ask_some(port, 4 * WORKERS)
    return seen


def _ask_some(port: int, count: int) -> set[int]:
    """Ask over so many connections at once; return the pids of those that have answered."""
    seen, connections = set(), [http.client.HTTPConnection("127.0.0.1", port, timeout=10) for _ in range(count)]
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.request("GET", PAGE, headers={"Connection": "close"})
    for connection in connections:
        with contextlib.suppress(OSError, http.client.HTTPException):
            response = connection.getresponse()
            response.read()
            seen.add(int(response.getheader("X-Pid", "0")))
        connection.close()
    return seen - {0}


def memory_of(pid: int) -> dict[str, float]:
    """Return PSS and USS of a process tree, in MB."""
    sums = {"pss": 0, "uss": 0}
    for each in procs.tree(pid):
        with contextlib.suppress(OSError):
            text = pathlib.Path(f"/proc/{each}/smaps_rollup").read_text()
            sums["pss"] += sum(int(kb) for kb in re.findall(r"^Pss:\s*(\d+)", text, re.M))
            sums["uss"] += sum(int(kb) for kb in re.findall(r"^Private_\w+:\s*(\d+)", text, re.M))
    return {name: round(kb / 1024, 1) for name, kb in sums.items()}


def medians(rows: list[dict[str, float]]) -> dict[str, float]:
    """Return the median of each figure."""
    return {name: statistics.median(row[name] for row in rows) for name in (rows[0] if rows else ())}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
