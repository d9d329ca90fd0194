"""The targets that can be had in four minutes, met or not: one short round of each, CPython and PyPy.

Use:      make bench-quick; python benchmarks/bench_quick.py --help; README.md says how to read it.
Owns:     which servers and connections of each set are worth the time; what must be had elsewhere.
Rules:    one round has no median: a figure near its bound says nothing. `make bench-report` decides.
Not here: the targets (targets.py); the probes (bench_probes.py).
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from typing import Any

import bench_probes
import command
import procs
import record
import rounds
import servers
import targets
from figures import Plan, Result
from procs import BenchmarkError

BENCH = "quick"
# Seconds of a load, and before it; by whether it is PyPy.
TIMING = {False: {"seconds": 0.65, "warm_up_seconds": 0.3}, True: {"seconds": 0.7, "warm_up_seconds": 2.5}}
ALL, MANY, FEW_AND_MANY = (1, 10, 100), (100,), (1, 100)
# By interpreter and set: servers, connections. Only those that a target names.
SETS: dict[str, dict[str, tuple[tuple[str, ...], tuple[int, ...]]]] = {
    "cpython": {
        "bare head": (("floor", "aserve", "aserve-threads-0", "bjoern", "freastal", "peregrine-8"), FEW_AND_MANY),
        "browser": (("aserve", "bjoern", "freastal", "peregrine"), FEW_AND_MANY),
        "many heads": (("aserve", "bjoern"), MANY),
        "close": (("aserve", "bjoern", "uwsgi-http"), MANY),
        "sleepy": (("aserve-t40",), MANY),
        "blob": (("aserve", "uwsgi"), MANY),
        "blob from a file": (("aserve", "uwsgi"), MANY),
        "test app": (("aserve-t1", "aserve-t8", "uwsgi-t1", "uwsgi-t8"), (10,)),
        "access log": (("aserve", "aserve+log", "aserve-production"), MANY),
        "chaos": (("aserve", "aserve+bad"), (90,)),
        "TLS kept": (("aserve-tls", "granian-tls"), MANY),
        "TLS handshakes": (("aserve-tls", "openssl"), (10,)),
        "sidecar hello": (("uwsgi:aserve", "uwsgi:uwsgi", "scgi:aserve", "scgi:uwsgi"), ALL),
        "sidecar echo": (("uwsgi:aserve", "uwsgi:uwsgi", "scgi:aserve", "scgi:uwsgi"), FEW_AND_MANY),
        "RPC rpc": (("rpc:aserve-1", "rpc:uwsgi-1", "rpc:aserve-8", "rpc:uwsgi-8"), MANY),
        "RPC route": (("route:aserve-1", "route:uwsgi-1", "route:aserve-8", "route:uwsgi-8"), MANY),
    },
    "pypy": {
        "PyPy hello": (("floor", "aserve", "waitress", "socketify"), FEW_AND_MANY),
        "PyPy fib(36)": (("aserve",), (1,)),
    },
}
PROBES = {"cpython": ["start", "idle", "slow", "spread"], "pypy": ["start"]}
ELSEWHERE = {
    "16": "Django workers: `make bench-preload`",
    "18": "a CPU that is shared: `make bench-neighbours`",
    "17": "60 s of load over reloads: `make bench-reload`",
    "1, 2, 4 to 9 in between": "10 connections, and RPC and the sidecar on PyPy: `make bench-report`",
}


NUMBERS = {target.number for target in targets.TARGETS} | {number for number, *_ in bench_probes.BOUNDS}
NUMBERS -= {int(number) for number in ELSEWHERE if number.isdigit()}


def main(argv: list[str]) -> int:
    """Run the command; return its exit status: 0 measured, 1 aserve was not, 2 it could not begin."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--interpreters", type=command.choice_of(*SETS), default=[*SETS], help="cpython,pypy")
    parser.add_argument("--targets", type=_numbers, metavar="N,...", help="these alone")
    command.add_place_flags(parser)
    return command.run("bench_quick", measure, parser.parse_args(argv), "wrk", "cc", "nginx")


def _numbers(text: str) -> set[int]:
    return {int(part) for part in text.split(",")}


def plans(
    interpreter: str, aserve: str | None, peers: str | None, numbers: set[int] | None = None, is_quick: bool = False
) -> dict[str, Plan]:
    """
    Return what is measured on an interpreter, by the names of the sets; is_quick: moments, of which no figure is used.

    Raises:
        BenchmarkError: an environment is not there.
    """
    found = {}
    needed = {target.set_name for target in targets.TARGETS if numbers is None or target.number in numbers}
    for name, (chosen, connections) in SETS[interpreter].items():
        if name not in needed:
            continue
        bench = targets.SETS[name].bench
        pair = servers.find_pair(interpreter, aserve, peers, has_pypy_peers=bench == "serve")
        timing: dict[str, Any] = {"rounds": 1, "cpus": procs.choose_cpus(), **TIMING[pair.is_pypy]}
        if is_quick:
            timing.update(seconds=0.2, warm_up_seconds=0.1)
        plan = targets.build_plan(name, pair, timing)
        found[name] = plan._replace(servers=servers.choose(pair, chosen, bench=bench), connections=connections)
    return found


def measure(args: argparse.Namespace) -> int:
    """Measure, print the judgement; return the exit status."""
    if args.save:
        raise BenchmarkError("one round is not kept; --json FILE takes it")
    began, judged, failed, results = time.monotonic(), [], False, {}
    for interpreter in args.interpreters:
        try:
            chosen = plans(interpreter, args.aserve, args.peers, args.targets, args.quick)
        except BenchmarkError as fault:
            print(f"{interpreter}: {fault}", file=sys.stderr)
            failed = True
            continue
        measured: dict[str, Result] = {}
        for name, plan in chosen.items():
            with contextlib.suppress(BenchmarkError):
                measured[name] = rounds.run_plan(plan)
                failed |= command.is_ours_missing(measured[name])
                results[name] = (measured[name], targets.SETS[name].base)
        numbers = args.targets or NUMBERS
        judged += targets.judge(measured, numbers)
        asked = [probe for number, probe, *_ in bench_probes.BOUNDS if number in numbers]
        probes = [probe for probe in PROBES[interpreter] if probe in asked]
        if probes:
            pair = servers.find_pair(interpreter, args.aserve, args.peers)
            rows = bench_probes.measure_rows(pair, probes, ["aserve"], 1)
            judged += [row for row in bench_probes.judge(rows, interpreter) if row["target"] in numbers]
    print(targets.format_judgement(sorted(judged, key=lambda row: row["target"])))
    print("one round, without medians; not here:")
    for number, where in ELSEWHERE.items():
        print(f"{number:>6}  {where}")
    print(f"{time.monotonic() - began:.0f} s")
    if args.json:
        record.save(args.json, BENCH, results, judged)
        print(f"written: {args.json}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
