"""RPC calls: aserve beside uWSGI, with 1 and 8 threads, in turn, each round a fresh server.

Use:      make bench-rpc ARGS="..."; python benchmarks/bench_rpc.py --help; README.md says how to read it.
Ways:     rpc    uwsgi packets over loopback TCP, one connection a call, as the protocol has it
          route  HTTP requests that a route answers, on kept connections
Owns:     the flags.
Not here: the function that is called (rpc_app.py); see README.md's table.
"""

from __future__ import annotations

import argparse
import sys

import command
import targets

BENCH = "rpc"
SETS = {targets.SETS[name].way: name for name in targets.sets_for(BENCH, "cpython", targets.numbers_of(BENCH))}


def main(argv: list[str]) -> int:
    """Run the command; return its exit status: 0 measured, 1 aserve was not, 2 it could not begin."""
    args = parse_args(argv)
    tools = [tool for way, tool in (("route", "wrk"), ("rpc", "cc")) if way in args.ways]
    return command.run("bench_rpc", measure, args, *tools)


def parse_args(argv: list[str]) -> argparse.Namespace:
    """Return the flags."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_argument_group("what")
    what.add_argument("--ways", type=command.choice_of(*SETS), default=[*SETS], metavar="WAY,...", help=", ".join(SETS))
    what.add_argument("--connections", type=command.counts, metavar="N,...", help="1,10,100")
    what.add_argument("--only", type=command.names, default=[], metavar="NAME,...",
        help="these servers: WAY:NAME as in the table")  # fmt: skip
    command.add_flags(parser)
    return parser.parse_args(argv)


def measure(args: argparse.Namespace) -> int:
    """Measure; return the exit status."""
    sets = [SETS[way] for way in args.ways]
    plans = command.plan_sets(BENCH, args, sets, args.only, args.connections, has_pypy_peers=False)
    return command.measure_sets(BENCH, args, plans, targets.numbers_of(BENCH))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
