"""Run every test, long tests too, in resumable steps: python tests/whole.py [--rounds N] VENV...

A step is a folder of tests, some files of e2e, or the files beside the folders, on an interpreter, for some minutes. The result
is written to build/whole/COMMIT.jsonl at the end, a line each, and all output of pytest to a file beside. Started again on
the same commit, the run goes on: a step passed with these files is not run again, a failed step is, and in the end each failure of
this commit is told. With uncommitted files every step runs. The exit status is 1 if a step has failed now. `--rounds N` runs each step
N times, one round after another.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
RESULTS = ROOT / "build/whole"
FILES_EACH = 12  # of e2e in a step: little is lost where a run is stopped. Guess.
LIMIT_SECONDS = 1800  # of a step; pytest-timeout ends a hanging test within two minutes
SPREAD = ("--children", "4")  # the Makefile says why, and why PyPy has plain asserts


class Step(NamedTuple):
    """A run of pytest."""

    round: int
    venv: str
    name: str
    paths: tuple[str, ...]  # relative to the checkout


def parts_of(tests: pathlib.Path) -> Iterator[tuple[str, list[pathlib.Path]]]:
    """Yield each part of the suite: name and paths. Together the parts are all test files."""
    for folder in sorted({path.parent for path in tests.rglob("test_*.py")} - {tests}):
        files = sorted(folder.glob("test_*.py"))
        pieces = (
            [files[at : at + FILES_EACH] for at in range(0, len(files), FILES_EACH)]
            if folder.name == "e2e"
            else [files]
        )
        for number, piece in enumerate(pieces, 1):
            yield (f"{folder.name}-{number}" if len(pieces) > 1 else str(folder.relative_to(tests)), piece)
    yield "top", sorted(tests.glob("test_*.py"))


def steps_of(venvs: Sequence[str], rounds: int, tests: pathlib.Path = TESTS) -> list[Step]:
    return [
        Step(number, venv, name, tuple(str(path.relative_to(tests.parent)) for path in paths))
        for number in range(1, rounds + 1)
        for venv in venvs
        for name, paths in parts_of(tests)
    ]


def read_records(file: pathlib.Path) -> list[dict[str, Any]]:
    """Return the file's records of steps; a cut line counts for nothing."""
    records = []
    for line in file.read_text().splitlines() if file.exists() else ():
        with contextlib.suppress(ValueError):
            records.append(json.loads(line))
    return records


def is_of(record: dict[str, Any], step: Step) -> bool:
    """Whether a record is of this step, whatever the files then."""
    return (record["round"], record["venv"], record["name"]) == step[:3]


def has_passed(record: dict[str, Any], step: Step) -> bool:
    """Whether a step has passed by a record, with the present files."""
    return is_of(record, step) and record["status"] == 0 and record["paths"] == [*step.paths]


def run_step(step: Step, log: pathlib.Path) -> int:
    """Run pytest, all output into `log`; return the exit status. A run of too long tells the running test, and ends."""
    python = ROOT / step.venv / "bin/python"
    is_pypy = "pypy" in os.path.realpath(python)
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", **({"PYPY_GC_NURSERY": "32M"} if is_pypy else {})}
    command = [sys.executable, "-I", str(TESTS / "within.py"), str(LIMIT_SECONDS)]
    command += [str(python), "-I", "-X", "faulthandler", "-m", "pytest", *SPREAD]
    command += [*(["--assert=plain"] if is_pypy else []), *step.paths]
    with log.open("w") as out:
        return subprocess.Popen(command, cwd=ROOT, env=environ, stdout=out, stderr=subprocess.STDOUT).wait()


def commit() -> str:
    """Return the present commit; "": files differ."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()

    return "" if git("status", "--porcelain") else git("rev-parse", "--short", "HEAD")


def run_steps(steps: Sequence[Step], results: pathlib.Path, name: str, run: Any = run_step) -> list[Step]:
    """Run steps without a pass; write and print each result at once; return the failed steps."""
    results.mkdir(parents=True, exist_ok=True)
    file = results / f"{name}.jsonl"
    before = read_records(file)
    waiting = [step for step in steps if not any(has_passed(record, step) for record in before)]
    print(f"{len(steps)} steps, {len(steps) - len(waiting)} of them have passed before", flush=True)
    failed = []
    for number, step in enumerate(waiting, 1):
        attempt = 1 + sum(is_of(record, step) for record in before)
        log = results / f"{name}-{'-'.join(map(str, step[:3])).replace('/', '-')}-{attempt}.log"
        begun = time.monotonic()
        status = run(step, log)
        seconds = round(time.monotonic() - begun)
        with file.open("a") as out:
            # Begun on a new line: a killed run may have left a part of a line.
            out.write(
                "\n" + json.dumps({**step._asdict(), "status": status, "seconds": seconds, "log": log.name}) + "\n"
            )
        if status:
            failed.append(step)
        found = f"FAILED, see {log}" if status else "passed"
        print(
            f"{number}/{len(waiting)}: round {step.round}, {step.venv}, {step.name}: {found} ({seconds} s)", flush=True
        )
    for record in before:
        if record["status"]:
            print(
                f"failed before: round {record['round']}, {record['venv']}, {record['name']}, see {results / record['log']}"
            )
    return failed


def main(argv: Sequence[str]) -> int:
    """Return the exit status of a run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("venvs", nargs="+")
    args = parser.parse_args(argv)
    name = commit()
    if not name:
        name = "changed"
        (RESULTS / f"{name}.jsonl").unlink(missing_ok=True)
    failed = run_steps(steps_of(args.venvs, args.rounds), RESULTS, name)
    print(f"{len(failed)} steps have failed" if failed else "all has passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
