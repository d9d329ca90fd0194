"""Servers behind nginx, over uwsgi and SCGI on a unix socket, in turn, each round a fresh server.

Use:      make bench-sidecar ARGS="..."; python benchmarks/bench_sidecar.py --help; README.md says how to read it.
Measured: hello, and the echo of 71,453 octets; nginx opens one connection to the server for each request.
Owns:     the flags.
Not here: see README.md's table.
"""

from __future__ import annotations

import argparse
import sys

import command
import targets

BENCH = "sidecar"
SETS = {targets.SETS[name].app: name for name in targets.sets_for(BENCH, "cpython", targets.numbers_of(BENCH))}


def main(argv: list[str]) -> int:
    """Run the command; return its exit status: 0 measured, 1 aserve was not, 2 it could not begin."""
    args = parse_args(argv)
    return command.run("bench_sidecar", measure, args, "wrk", "nginx")


def parse_args(argv: list[str]) -> argparse.Namespace:
    """Return the flags."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_argument_group("what")
    what.add_argument("--apps", type=command.choice_of(*SETS), default=[*SETS], metavar="APP,...", help=", ".join(SETS))
    what.add_argument("--connections", type=command.counts, metavar="N,...", help="1,10,100")
    what.add_argument("--only", type=command.names, default=[], metavar="NAME,...",
        help="these servers: PROTOCOL:NAME as in the table, and scgi:aserve-lane-off, scgi:aserve-threads-0, "
        "scgi:uwsgi-threads-8")  # fmt: skip
    command.add_flags(parser)
    return parser.parse_args(argv)


def measure(args: argparse.Namespace) -> int:
    """Measure; return the exit status."""
    sets = [SETS[app] for app in args.apps]
    plans = command.plan_sets(BENCH, args, sets, args.only, args.connections, has_pypy_peers=False)
    return command.measure_sets(BENCH, args, plans, targets.numbers_of(BENCH))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
