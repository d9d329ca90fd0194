"""Where the time of one request goes, function by function: cProfile around aserve, wrk as its clients.

Use:      python benchmarks/bench_profile.py --help; README.md says how to read it.
Rules:    aserve runs with --threads 0: cProfile sees one thread, and there one thread does all. It makes small functions look
          larger than they are, so shares compare functions and promise no gain; benchmarks/README.md has what perf saw.
Owns:     the flags, the sums, the file.
Not here: starting servers (bench_probes.py), the load (clients.py).
"""

from __future__ import annotations

import argparse
import pathlib
import pstats
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

import bench_probes
import clients
import command
import procs
import record
import servers
import tables
from procs import BenchmarkError
from servers import OURS, Pair, Server

BENCH = "profile"
APP = "hello"
CONNECTIONS = 10
SECONDS, QUICK_SECONDS = 3.0, 1.0
LEAST_SHARE = 0.005  # of what is shown
LEAST_CALLS = 0.05  # for each request: a batch has up to 10 of them; at the start a function is called a few hundred times, no more
Calls = Mapping[
    tuple[str, int, str], tuple[int, int, float, float, Any]
]  # pstats: place, then calls, own and all seconds


def main(argv: list[str]) -> int:
    """Run the command; return its exit status: 0 measured, 2 it could not begin."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=command.positive(float), help=f"of the load ({SECONDS:g})")
    command.add_place_flags(parser)
    return command.run("bench_profile", measure, parser.parse_args(argv), "wrk")


def measure(args: argparse.Namespace) -> int:
    """Measure, print the table, write the file; return the exit status."""
    pair = servers.find_pair(args.interpreter, args.aserve, args.peers, needs_peers=False)
    calls = profile(pair, args.seconds or (QUICK_SECONDS if args.quick else SECONDS))
    document = {
        **record.describe_run(BENCH),
        "aserve_python": servers.without_folders(pair.aserve_facts),
        **summary(calls),
    }
    print(tables.profile_table(document))
    command.write_document(BENCH, args, pair, document)
    return 0


def profile(pair: Pair, seconds: float) -> Calls:
    """
    Load aserve for so long under cProfile; return what that has seen.

    Raises:
        BenchmarkError: it does not start, or leaves nothing.
    """
    with tempfile.TemporaryDirectory(prefix="aserve-bench-") as folder:
        path = pathlib.Path(folder, "calls")
        words = f"{{aserve}} -m cProfile -o {path} -m aserve --bind 127.0.0.1:{{port}} --threads 0 apps:{{app}}"
        with bench_probes.running(pair, Server("aserve", words, OURS, runs_on_pypy=True), APP) as it:
            clients.wrk(it.port, CONNECTIONS, seconds, procs.choose_cpus()[1])
        try:  # it is written when aserve has ended
            found: Calls = pstats.Stats(str(path)).stats  # type: ignore[attr-defined]
        except (OSError, ValueError, EOFError, TypeError) as fault:
            raise BenchmarkError(f"cProfile left no figures: {fault}")
    return found


def summary(calls: Calls) -> dict[str, Any]:
    """
    Return the number of requests, and a row for each function by its own time: calls and microseconds a request, its share.

    What requests do not call is left out: the start, and the event loop, which waits.

    Raises:
        BenchmarkError: the app was not called.
    """
    requests = sum(count for (_, _, name), (_, count, *_) in calls.items() if name == APP)
    often = {place: each for place, each in calls.items() if each[1] >= requests * LEAST_CALLS}
    total = sum(own for _, _, own, *_ in often.values())
    if not requests or not total:
        raise BenchmarkError("no request was served under cProfile")
    rows = [
        {
            "function": name_of(place),
            "calls": round(count / requests, 3),
            "us": round(own / requests * 1e6, 3),
            "share": round(own / total, 4),
        }
        for place, (_, count, own, *_) in sorted(often.items(), key=lambda item: -item[1][2])
        if own / total >= LEAST_SHARE
    ]
    return {"app": APP, "requests": requests, "us": round(total / requests * 1e6, 3), "profile": rows}


def name_of(place: tuple[str, int, str]) -> str:
    """Return what a function is called: its file without the folders that it is installed in, and its name."""
    path, _, name = place
    if path == "~":  # written in C
        return name.strip("<>")
    package = pathlib.PurePath(path)
    below = [folder for folder in package.parents if folder.name == "site-packages" or folder == servers.ROOT]
    return f"{package.relative_to(below[0]) if below else package.name}: {name}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
