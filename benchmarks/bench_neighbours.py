"""Servers whose CPU is not theirs alone: a busy process beside them, a second service, requests that compute.

Use:      make bench-neighbours ARGS="..."; python benchmarks/bench_neighbours.py --help; README.md says how to read it.
Owns:     the flags.
Not here: what is measured, and what is to be reached (targets.py); the neighbour itself (procs.py).
"""

from __future__ import annotations

import argparse
import pathlib
import sys

import command
import targets
from figures import Plan

BENCH = "neighbours"
SETS = targets.sets_for(BENCH, "cpython", targets.numbers_of(BENCH))
SHORT_NAMES = {
    name.rpartition(" ")[2] if name.startswith("neighbour") else name.partition(" ")[0]: name for name in SETS
}


def main(argv: list[str]) -> int:
    """Run the command; return its exit status: 0 measured, 1 aserve was not, 2 it could not begin."""
    return command.run("bench_neighbours", measure, parse_args(argv), "wrk", "nginx")


def parse_args(argv: list[str]) -> argparse.Namespace:
    """Return the flags."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_argument_group("what")
    what.add_argument("--sets", type=command.choice_of(*SHORT_NAMES), default=[*SHORT_NAMES], metavar="SET,...",
        help=", ".join(SHORT_NAMES))  # fmt: skip
    what.add_argument("--connections", type=command.counts, metavar="N,...", help="other numbers than the set's")
    what.add_argument("--before", metavar="PATH",
        help="virtual environment of another aserve, measured beside this one, as NAME-before")  # fmt: skip
    command.add_flags(parser)
    return parser.parse_args(argv)


def measure(args: argparse.Namespace) -> int:
    """Measure; return the exit status."""
    names = [SHORT_NAMES[name] for name in args.sets]
    plans = command.plan_sets(BENCH, args, names, [], args.connections, has_pypy_peers=True)
    if args.before:
        plans = {name: with_before(plan, pathlib.Path(args.before, "bin", "python")) for name, plan in plans.items()}
    return command.measure_sets(BENCH, args, plans, targets.numbers_of(BENCH))


def with_before(plan: Plan, python: pathlib.Path) -> Plan:
    """Return a plan that has each server of ours a second time, on another environment."""
    chosen = []
    for server in plan.servers:
        chosen.append(server)
        if server.is_ours:
            text = server.command.replace("{aserve}", str(python))
            chosen.append(server._replace(name=f"{server.name}-before", command=text))
    return plan._replace(servers=chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
