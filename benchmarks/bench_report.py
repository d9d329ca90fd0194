"""The whole report: every suite in turn, on CPython and PyPy, into results/, and the pages made of them. Under an hour.

Use:      make bench-report; --suites A,D; --quick: each for moments, nothing is kept, and no figure is one.
Owns:     which command measures what of a suite, how long it may take, the order.
Not here: measuring: each command can be run alone, with more rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import charts
import command
import make_report
import procs
import servers
from servers import NEXT_PYPY

HERE = servers.HERE
MORE_SECONDS = 1800.0  # Guess: beyond its estimate, a command hangs


class Step(NamedTuple):
    """One command; its minutes were estimated, for a machine that does nothing else."""

    suite: str
    minutes: float
    words: tuple[str, ...]
    interpreter: str = "cpython"

    @property
    def title(self) -> str:
        """What it is, in a line."""
        return f"{self.suite}: {' '.join(self.words)}, {self.interpreter}"


# 0.8 s: a median of three short rounds is worth more than one long one.
SHORT = ("--rounds", "3", "--seconds", "0.8", "--warm-up", "0.3")
# What the targets compare; `make bench-sidecar` has variants of both, too.
SIDECARS = ("--only", "uwsgi:aserve,uwsgi:uwsgi,scgi:aserve,scgi:uwsgi")
STEPS = [
    Step("A", 2.1, ("bench_suites.py", "--suites", "a")),
    Step("A", 2.4, ("bench_suites.py", "--suites", "a"), "pypy"),
    Step("A", 2.0, ("bench_rpc.py", *SHORT)),
    Step("A", 2.6, ("bench_rpc.py", "--rounds", "1", "--seconds", "1"), "pypy"),
    # The source's rows once more, on the next PyPy where it is; its peers are on PyPy 3.9.
    Step("A", 1.0, ("bench_suites.py", "--only", "aserve,aserve-t8", "--suites", "a"), NEXT_PYPY),
    Step("A", 0.9, ("bench_rpc.py", "--rounds", "1", "--seconds", "1", "--connections", "100"), NEXT_PYPY),
    Step("B", 1.8, ("bench_suites.py", "--suites", "b")),
    Step("B", 4.7, ("bench_suites.py", "--suites", "b"), "pypy"),
    Step("C", 1.5, ("bench_suites.py", "--suites", "c")),
    Step("C", 0.2, ("bench_profile.py",)),
    Step("C", 1.7, ("bench_shares.py",)),
    Step("D", 6.3, ("bench_suites.py", "--suites", "d")),
    Step("E", 3.8, ("bench_suites.py", "--suites", "e")),
    Step("E", 2.0, ("bench_sidecar.py", *SHORT, *SIDECARS)),
    Step("E", 1.3, ("bench_sidecar.py", "--rounds", "1", "--seconds", "1", "--apps", "hello", *SIDECARS), "pypy"),
    Step("F", 0.8, ("bench_suites.py", "--suites", "f")),
    Step("F", 9.7, ("bench_serve.py", "--targets", *SHORT)),
    Step("F", 1.8, ("bench_serve.py", "--targets", "--rounds", "1", "--seconds", "1"), "pypy"),
    Step("F", 0.5, ("bench_parse.py",)),
    Step("F", 0.3, ("bench_parse.py",), "pypy"),
    Step("F", 2.2, ("bench_probes.py",)),
    Step("F", 1.2, ("bench_probes.py", "--rounds", "3"), "pypy"),
    Step("F", 7.0, ("bench_reload.py", "--import-seconds", "1")),
    Step("F", 2.0, ("bench_preload.py", "--rounds", "1")),
]
LIMIT_MINUTES = 60


def main(argv: list[str]) -> int:
    """Run the command; return its exit status: 0 all measured, 1 not, 130: interrupted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    letters = list(charts.SUITES)
    parser.add_argument(
        "--suites", type=command.choice_of(*letters), default=letters, metavar="LETTER,...", help=", ".join(letters)
    )
    parser.add_argument(
        "--interpreters", type=command.choice_of(*servers.INTERPRETERS), default=[*servers.INTERPRETERS], metavar="NAME,...",
        help=", ".join(servers.INTERPRETERS),
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="moments of each: whether all works; nothing is kept")
    args = parser.parse_args(argv)
    chosen = choose(args.suites, args.interpreters)
    procs.exit_on_signals()
    try:
        failed = measure(chosen, args.quick)
    except KeyboardInterrupt:
        print("interrupted; every server was stopped", file=sys.stderr)
        return 130
    if not args.quick:
        make_report.write()
        print(f"written: {make_report.REPORT}")
    for title in failed:
        print(f"not all measured: {title}", file=sys.stderr)
    return int(bool(failed))


def choose(suites: list[str], interpreters: list[str]) -> list[Step]:
    """Return the steps of these suites and interpreters; PyPy 3.11 is left out where it is not."""
    if NEXT_PYPY in interpreters and not servers.is_made(NEXT_PYPY):
        print(f"left out: there is no {NEXT_PYPY} here", file=sys.stderr)
        interpreters = [name for name in interpreters if name != NEXT_PYPY]
    return [step for step in STEPS if step.suite in suites and step.interpreter in interpreters]


def measure(steps: list[Step], is_quick: bool) -> list[str]:
    """Run the steps in turn; return the titles of those that failed."""
    failed, began = [], time.monotonic()
    if not is_quick:
        print(f"about {sum(step.minutes for step in steps):.0f} minutes", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for number, step in enumerate(steps, 1):
            print(
                f"[{number}/{len(steps)}, {(time.monotonic() - began) / 60:.1f} min] {step.title}",
                file=sys.stderr,
                flush=True,
            )
            if run(step, pathlib.Path(folder, "kept.json") if is_quick else None):
                failed.append(step.title)
    print(f"{(time.monotonic() - began) / 60:.1f} minutes")
    return failed


def run(step: Step, instead: pathlib.Path | None) -> int:
    """Run a step as a process of its own; return its exit status. `instead`: a short run, kept there."""
    words = [sys.executable, str(HERE / step.words[0]), *step.words[1:], "--interpreter", step.interpreter]
    words += ["--quick", "--json", str(instead)] if instead else ["--save"]
    if instead:
        words = without_timing(words)
    process = subprocess.Popen(words, start_new_session=True)
    try:
        return process.wait(step.minutes * 60 + MORE_SECONDS)
    except subprocess.TimeoutExpired:
        return 1
    finally:
        if process.poll() is None:  # ^C: it stops its servers itself
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(procs.STOP_SECONDS * 4)
            process.kill()
            process.wait()


def without_timing(words: list[str]) -> list[str]:
    """Return a command without the flags that would undo --quick."""
    flags = ("--rounds", "--seconds", "--warm-up")
    return [
        word
        for number, word in enumerate(words)
        if word not in flags and (not number or words[number - 1] not in flags)
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
