"""How long a request head takes to parse, through cffi, beside llhttp through httptools and beside h11.

Use:      python benchmarks/bench_parse.py --help; README.md says how to read it.
Owns:     the flags, the table, the file.
Not here: the parsers and their clock (parsers.py), which run on the interpreter that is measured.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

import command
import procs
import record
import servers
import tables
from procs import BenchmarkError
from servers import Pair

BENCH = "parse"
LIMIT_SECONDS = 300.0  # Guess: PyPy on a busy machine
QUICK_HEADS = ["bare-get"]


def main(argv: list[str]) -> int:
    """Run the command; return its exit status: 0 measured, 2 it could not begin."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--heads", type=command.names, default=[], metavar="NAME,...", help="of tests/corpus/http1/accept"
    )
    command.add_place_flags(parser)
    return command.run("bench_parse", measure, parser.parse_args(argv))


def measure(args: argparse.Namespace) -> int:
    """Measure, print the table, write the file; return the exit status."""
    pair = servers.find_pair(args.interpreter, args.aserve, args.peers, needs_peers=False)
    document = {
        **record.describe_run(BENCH),
        "aserve_python": servers.without_folders(pair.aserve_facts),
        "parse": rows(pair, args.heads or (QUICK_HEADS if args.quick else [])),
    }
    print(tables.parse_table(document))
    command.write_document(BENCH, args, pair, document)
    return 0


def rows(pair: Pair, heads: list[str]) -> list[dict[str, Any]]:
    """
    Return the times of each head, measured on the server's CPU and interpreter; no heads: those that parsers.py chooses.

    Raises:
        BenchmarkError: it does not run there.
    """
    words = ["taskset", "-c", str(procs.choose_cpus()[0]), str(pair.aserve), "parsers.py", *heads]
    try:
        done = subprocess.run(
            words, cwd=servers.HERE, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False
        )
        found: list[dict[str, Any]] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise BenchmarkError("parsers.py did not end")
    except ValueError:
        raise BenchmarkError(f"parsers.py: {' '.join(done.stderr.split())[-300:]}")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
