"""The suites of the report that repeat what others have published, in turn, each round a fresh server.

Use:      python benchmarks/bench_suites.py --suites a,d; --help; README.md says how to read it. `make bench-report` runs all.
Owns:     the flags; a file of results for each suite.
Not here: the suites (suites.py), measuring (rounds.py).
"""

from __future__ import annotations

import argparse
import sys

import command
import procs
import rounds
import servers
import suites
import targets
from figures import Plan, Result, format_table
from procs import BenchmarkError

LETTERS = sorted({each.bench[-1] for each in suites.SETS.values()})
SECONDS = 1.0


def main(argv: list[str]) -> int:
    """Run the command; return its exit status: 0 measured, 1 aserve was not, 2 it could not begin."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_argument_group("what")
    what.add_argument(
        "--suites", type=command.choice_of(*LETTERS), default=LETTERS, metavar="LETTER,...", help=", ".join(LETTERS)
    )
    what.add_argument("--sets", type=lambda text: text.split(";"), metavar="NAME;...", help="these sets alone")
    what.add_argument("--only", type=command.names, default=[], metavar="NAME,...", help="these servers")
    command.add_flags(parser)  # --json FILE: FILE-LETTER for each suite
    return command.run("bench_suites", measure, parser.parse_args(argv), "wrk", "ab", "strace")


def plans(letter: str, args: argparse.Namespace) -> dict[str, Plan]:
    """
    Return what a suite measures, by the names of its sets.

    Raises:
        BenchmarkError: an environment is not there.
    """
    found = {}
    for name, wanted in suites.sets_of(letter, servers.kind_of(args.interpreter)).items():
        if args.sets and name not in args.sets:
            continue
        pair = servers.find_pair(args.interpreter, args.aserve, args.peers, has_pypy_peers=wanted.table == "serve")
        timing = {
            "rounds": args.rounds or command.ROUNDS,
            "seconds": args.seconds or SECONDS,
            "cpus": procs.choose_cpus(),
        }
        if args.quick:
            timing.update(seconds=0.3, warm_up_seconds=0.2)
        plan = targets.build_plan(name, pair, timing, wanted)
        if args.quick:
            plan = plan._replace(rounds=1, connections=plan.connections[-1:], requests=min(plan.requests, 500))
        if args.rounds:
            plan = plan._replace(rounds=args.rounds)
        if args.only:
            plan = plan._replace(servers=[server for server in plan.servers if server.name in args.only])
        if plan.servers:
            found[name] = plan
    return found


def measure(args: argparse.Namespace) -> int:
    """Measure each suite; print tables, write files; return the exit status."""
    failed = False
    for letter in args.suites:
        chosen = plans(letter, args)
        command.say_estimate(chosen.values())
        results: dict[str, tuple[Result, str]] = {}
        for name, plan in chosen.items():
            base = base_for(suites.SETS[name].base, plan)
            try:
                results[name] = rounds.run_plan(plan), base
            except BenchmarkError as fault:  # the others of the suite go on
                print(f"{name}: {fault}", file=sys.stderr)
                failed = True
                continue
            print(f"{name}: {plan.source}\n{format_table(results[name][0], base)}", end="\n\n", flush=True)
            failed |= command.is_ours_missing(results[name][0])
        if results:
            path = args.json and args.json.with_name(f"{args.json.stem}-{letter}{args.json.suffix}")
            command.write(f"suite-{letter}", argparse.Namespace(**{**vars(args), "json": path}), results, [])
    return int(failed)


def base_for(base: str, plan: Plan) -> str:
    """Return whom a set's ratios are to: where its base is not on this interpreter, the first peer that is."""
    if base.startswith(":") or base in plan.names:
        return base
    return next((server.name for server in plan.servers if not server.is_ours), base)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
