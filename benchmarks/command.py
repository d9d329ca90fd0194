"""What the commands bench_serve.py, bench_sidecar.py and bench_rpc.py share.

Owns:     their common flags, exit statuses, and the way from sets of rounds to tables, judgement and
          file.
Not here: what each of them measures (its own file, targets.py).
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import procs
import record
import rounds
import servers
import tables
import targets
from figures import WHOLE_REQUESTS_ONLY, Plan, Result, format_table
from procs import BenchmarkError
from servers import Pair

ROUNDS = 3
SECONDS = 1.5
QUICK = {"rounds": 1, "seconds": 0.5, "warm_up": 0.2}  # is everything in its place?


def run(name: str, measure: Callable[[argparse.Namespace], int], args: argparse.Namespace, *tools: str) -> int:
    """Measure; return the exit status: what `measure` says, 2: it could not begin, 130: interrupted."""
    procs.exit_on_signals()
    try:
        if args.save and args.quick:
            raise BenchmarkError("--save keeps results for good, and --quick's are none; --json FILE takes them")
        procs.need_tools("taskset", *tools)
        return measure(args)
    except BenchmarkError as fault:
        print(f"{name}: {fault}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; every server was stopped", file=sys.stderr)
        return 130


# Flags


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that every command has."""
    how = parser.add_argument_group("how")
    how.add_argument("--rounds", type=positive(int), help=f"{ROUNDS}")
    how.add_argument("--seconds", type=positive(float), help=f"of each measurement ({SECONDS})")
    how.add_argument("--warm-up", type=positive(float), metavar="SECONDS",
        help="before each measurement, not counted (0.5; on PyPy: 5, then 4)")  # fmt: skip
    add_place_flags(parser)


def add_place_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say on what it runs, and where the result goes."""
    parser.add_argument(
        "--quick", action="store_true", help="one round of moments: whether all works; no figures to use"
    )
    where = parser.add_argument_group("where")
    where.add_argument("--interpreter", default="cpython", metavar="cpython|pypy|pypy3.11|PATH",
        help="the virtual environments that make has made, or a python that has aserve and peers")  # fmt: skip
    where.add_argument("--aserve", metavar="PATH", default=os.environ.get("ASERVE_PYTHON"),
        help="virtual environment of aserve, or its python (.venv-bench or .venv, .venv-pypy)")  # fmt: skip
    where.add_argument("--peers", metavar="PATH", default=os.environ.get("PEERS"),
        help="virtual environment of the others; that of PyPy is PATH-pypy ($PEERS or .venv-peers)")  # fmt: skip
    result = parser.add_argument_group("result")
    result.add_argument("--save", action="store_true", help="write benchmarks/results/COMMAND-INTERPRETER.json")
    result.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the same to another file")


def probes_parser(description: str, kinds: Iterable[str]) -> argparse.ArgumentParser:
    """Return a parser with the flags of a command that probes servers, in each of these ways."""
    parser, known = argparse.ArgumentParser(description=description.splitlines()[0]), list(kinds)
    parser.add_argument("--probes", type=choice_of(*known), default=known, metavar="PROBE,...", help=", ".join(known))
    parser.add_argument("--only", type=names, default=[], metavar="NAME,...", help="these servers")
    add_place_flags(parser)
    return parser


def counts(text: str) -> tuple[int, ...]:
    """Read numbers of connections."""
    return tuple(positive(int)(part) for part in text.split(","))


def names(text: str) -> list[str]:
    """Read names separated by commas."""
    return [name for name in text.split(",") if name]


def choice_of(*known: str) -> Callable[[str], list[str]]:
    """Return a function that reads names and accepts only these."""

    def read(text: str) -> list[str]:
        if not set(names(text)) <= set(known):
            raise argparse.ArgumentTypeError(f"there are {', '.join(known)}")
        return names(text)

    return read


def positive(kind: type) -> Callable[[str], Any]:
    """Return a function that reads a number above zero."""

    def read(text: str) -> Any:
        value = kind(text)
        if value <= 0:
            raise argparse.ArgumentTypeError(f"{text} is not positive")
        return value

    return read


def timing(args: argparse.Namespace, pair: Pair) -> dict[str, Any]:
    """Return the fields of Plan that the flags set."""
    quick = QUICK if args.quick else {}
    return {
        "rounds": args.rounds or quick.get("rounds", ROUNDS),
        "seconds": args.seconds or quick.get("seconds", SECONDS),
        "warm_up_seconds": args.warm_up or quick.get("warm_up"),
        "cpus": procs.choose_cpus(),
    }


# Sets


def plan_sets(
    bench: str,
    args: argparse.Namespace,
    set_names: Iterable[str],
    only: list[str],
    connections: tuple[int, ...] | None,
    has_pypy_peers: bool,
) -> dict[str, Plan]:
    """Return plans by the names of their sets, each with the servers and connections that are asked for."""
    pair = servers.find_pair(args.interpreter, args.aserve, args.peers, has_pypy_peers)
    if only:
        servers.choose(pair, only, bench=bench)  # reports a wrong name
    plans = {}
    for name in set_names:
        plan = targets.build_plan(name, pair, timing(args, pair))
        if only:
            known = targets.SETS[name].names or only  # a set that names its servers has no others
            chosen = [each for each in only if each in known]
            plan = plan._replace(servers=servers.choose(pair, chosen, bench=bench) if chosen else [])
        if connections and plan.app not in WHOLE_REQUESTS_ONLY:
            plan = plan._replace(connections=connections)
        if plan.servers:
            plans[name] = plan
    return plans


def measure_sets(bench: str, args: argparse.Namespace, plans: Mapping[str, Plan], numbers: Iterable[int]) -> int:
    """
    Measure; print tables and judgement; write what is asked for.

    Returns 0: all measured, 1: aserve was not, or nothing that a target needs.
    """
    say_estimate(plans.values())
    results: dict[str, tuple[Result, str]] = {}
    for name, plan in plans.items():
        base = targets.SETS[name].base
        results[name] = rounds.run_plan(plan), base
        print(format_table(results[name][0], base), end="\n\n", flush=True)
    judged = targets.judge({name: result for name, (result, _) in results.items()}, set(numbers))
    print(targets.format_judgement(judged))
    write(bench, args, results, judged)
    missing = any(is_ours_missing(result) for result, _ in results.values())
    return int(missing or any(row["figure"] is None for row in judged))


def is_ours_missing(result: Result) -> bool:
    """Return whether one of aserve's own could not be measured."""
    return any(server.is_ours and server.name in result.left_out for server in result.plan.servers)


def say_estimate(plans: Iterable[Plan]) -> None:
    """Say how long it will take, and whether the machine is busy."""
    minutes = sum(plan.estimate_seconds for plan in plans) / 60
    print(f"about {minutes:.0f} minutes; load average {os.getloadavg()[0]:.2f}", file=sys.stderr, flush=True)


def write(
    bench: str, args: argparse.Namespace, results: dict[str, tuple[Result, str]], judged: list[dict[str, Any]]
) -> None:
    """Write the results where the flags say; say where."""
    pair = next(iter(results.values()))[0].plan.pair
    write_document(bench, args, pair, record.document(bench, results, judged))


def write_probes(
    bench: str, args: argparse.Namespace, pair: Pair, rows: list[dict[str, Any]], judged: list[dict[str, Any]]
) -> None:
    """Print what was probed, a table for each probe, and write it where the flags say."""
    document = {
        **record.describe_run(bench),
        "aserve_python": servers.without_folders(pair.aserve_facts),
        "peer_python": servers.without_folders(pair.peer_facts),
        "targets": judged,
        "probes": rows,
    }
    print("\n".join(tables.probes_tables(document)))
    write_document(bench, args, pair, document)


def write_document(bench: str, args: argparse.Namespace, pair: Pair, document: dict[str, Any]) -> None:
    """Write a document where the flags say; say where."""
    interpreter = args.interpreter if args.interpreter in servers.INTERPRETERS else pair.interpreter
    for path in [record.default_path(bench, interpreter)] * args.save + [args.json] * bool(args.json):
        record.write(path, document)
        print(f"written: {path}")
