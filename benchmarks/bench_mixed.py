"""Kept HTTP connections that carry a mix of requests, as a proxy's do: aserve beside another aserve.

Use:      make bench-mixed ARGS="..."; python benchmarks/bench_mixed.py --help; README.md says how to read it.
          --server "old=/path/to/aserve --bind 127.0.0.1:{port} apps:{app}" adds the one to compare with.
Mix:      mostly plain requests for `hello`; every n-th is a response of unknown length (stream), a chunked
          request (post), two requests at once (pair), or one that expects a 100 (expect), in turn.
Owns:     the flags.
Not here: the sequence (mix.py), the client (mixed_load.c); see README.md's table.
"""

from __future__ import annotations

import argparse
import re
import sys

import command
import mix
import rounds
import servers
from figures import Plan, Result, format_table

BENCH = "mixed"
CONNECTIONS = (10, 100)


def main(argv: list[str]) -> int:
    """Run the command; return its exit status: 0 measured, 1 aserve was not, 2 it could not begin."""
    return command.run("bench_mixed", measure, parse_args(argv), "cc")


def parse_args(argv: list[str]) -> argparse.Namespace:
    """Return the flags."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_argument_group("what")
    what.add_argument("--kinds", type=command.choice_of(*mix.KINDS), default=[*mix.KINDS], metavar="KIND,...",
        help=", ".join(mix.KINDS))  # fmt: skip
    what.add_argument("--every", type=int, default=20, metavar="N", help="one in N is not plain (20); 0: none")
    what.add_argument("--connections", type=command.counts, default=CONNECTIONS, metavar="N,...", help="10,100")
    what.add_argument("--browser", action="store_true", help="send a browser's fields")
    what.add_argument("--only", type=command.names, default=["aserve"], metavar="NAME,...",
        help="these servers of bench_serve's table (aserve)")  # fmt: skip
    what.add_argument("--server", action="append", default=[], metavar="NAME=COMMAND",
        help="another server, for apps:{app}; {port}, {aserve} and {app} are filled in")  # fmt: skip
    what.add_argument("--base", metavar="NAME", help="whom ratios are to (the first --server; aserve)")
    command.add_flags(parser)
    return parser.parse_args(argv)


def measure(args: argparse.Namespace) -> int:
    """Measure, print the table; return the exit status."""
    pair = servers.find_pair(args.interpreter, args.aserve, args.peers, needs_peers=False)
    extra = [servers.parse_server(text) for text in args.server]
    plan = Plan(
        pair,
        servers.choose(pair, args.only, extra),
        app="mixed",
        connections=args.connections,
        has_browser_fields=args.browser,
        way="mixed",
        kinds=tuple(args.kinds),
        every=args.every,
        **command.timing(args, pair),
    )
    base = args.base or (extra[0].name if extra else plan.servers[0].name)
    command.say_estimate([plan])
    result = rounds.run_plan(plan)
    print(format_table(result, base))
    command.write(BENCH, args, {plan.title: (without_folders(result), base)}, [])
    return int(command.is_ours_missing(result))


def without_folders(result: Result) -> Result:
    """Return a result whose commands do not say where a server is installed: files are kept, folders are not."""
    chosen = [
        server._replace(command=re.sub(r"(?<!\S)/\S*/(?=[^/\s])", "", server.command)) for server in result.plan.servers
    ]
    return result._replace(plan=result.plan._replace(servers=chosen))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
