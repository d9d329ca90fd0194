"""Where the CPU time of a request goes, ours beside a peer's: kernel, Python, each server's own C, cffi.

Use:      python benchmarks/bench_shares.py --help; README.md says how to read it.
Owns:     which sets and servers are looked at; microseconds from shares; the file.
Not here: the samples (samples.py), the load (rounds.py), one request by function (bench_profile.py).
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import command
import procs
import record
import rounds
import servers
import tables
import targets
from figures import Plan, Result
from samples import NAMES

BENCH = "shares"
SECONDS, QUICK_SECONDS = 1.5, 0.3
# By set: which servers, at how many connections. Those targets that are furthest off, and whom they are set by.
LOOKED_AT: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {
    "bare head": (("aserve", "bjoern", "freastal"), (1, 100)),
    "browser": (("aserve", "freastal"), (100,)),
    "close": (("aserve", "bjoern"), (100,)),
    "access log": (("aserve+log",), (10,)),
    "blob": (("aserve", "uwsgi"), (100,)),
    "test app": (("aserve-t1", "uwsgi-t1"), (10,)),
    "sidecar hello": (("uwsgi:aserve", "uwsgi:uwsgi", "scgi:aserve", "scgi:uwsgi"), (10,)),
    "sidecar echo": (("uwsgi:aserve", "uwsgi:uwsgi"), (10,)),
    "RPC rpc": (("rpc:aserve-1", "rpc:uwsgi-1"), (10,)),
}


def main(argv: list[str]) -> int:
    """Run the command; return its exit status: 0 measured, 1 not all, 2 it could not begin."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=command.choice_of(*LOOKED_AT), default=[*LOOKED_AT], metavar="NAME,...", help=", ".join(LOOKED_AT))  # fmt: skip
    parser.add_argument("--seconds", type=command.positive(float), help=f"of each load ({SECONDS:g})")
    command.add_place_flags(parser)
    return command.run("bench_shares", measure, parser.parse_args(argv), "wrk", "perf")


def measure(args: argparse.Namespace) -> int:
    """Measure, print the table, write the file; return the exit status."""
    pair = servers.find_pair(args.interpreter, args.aserve, args.peers)
    seconds = args.seconds or (QUICK_SECONDS if args.quick else SECONDS)
    rows, failed = [], False
    for name in args.sets:
        result = rounds.run_plan(plan_of(name, pair, seconds, args.quick))
        failed |= command.is_ours_missing(result)
        rows += rows_of(name, result)
    document = {
        **record.describe_run(BENCH),
        "aserve_python": servers.without_folders(pair.aserve_facts),
        "shares": rows,
    }
    print(tables.shares_table(document))
    command.write_document(BENCH, args, pair, document)
    return int(failed)


def plan_of(name: str, pair: servers.Pair, seconds: float, is_quick: bool) -> Plan:
    """Return what is measured of a set: one round, with samples."""
    names, connections = LOOKED_AT[name]
    timing = {"rounds": 1, "seconds": seconds, "cpus": procs.choose_cpus(), "warm_up_seconds": 0.3}
    plan = targets.build_plan(name, pair, timing)
    chosen = servers.choose(pair, list(names), bench=targets.SETS[name].servers_table)
    return plan._replace(servers=chosen, connections=connections[-1:] if is_quick else connections, takes_samples=True)


def rows_of(name: str, result: Result) -> list[dict[str, Any]]:
    """Return a row for each server and number of connections: microseconds of CPU a request, in all and by part."""
    return [
        {
            "set": name,
            "server": server,
            "connections": connections,
            "us": round(1e6 / row["per_cpu_s"], 2),
            **{part: round(1e6 / row["per_cpu_s"] * row["shares"][part], 2) for part in NAMES},
            "hottest": row["hottest"],
        }
        for server, rows in result.rounds[0].items()
        for connections, row in rows.items()
        if "shares" in row
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
