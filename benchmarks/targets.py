"""The targets of hello over HTTP and of PyPy: what must be measured for them, and whether they are met.

Owns:     the table of targets; which sets of rounds they need; the judgement and its table.
Rules:    a target holds when the median of its ratios reaches it and our server made no error in
          that set. A peer's errors are shown. What was not measured is not met.
Numbers:  the targets keep the numbers of the list that all of the project's speed work refers to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import rounds
import servers
from rounds import Plan, Result
from servers import Pair


class Target(NamedTuple):
    """One line: a server must reach a multiple of another's requests per CPU second."""

    number: int
    set_name: str
    server: str
    base: str
    connections: int
    at_least: float


class Set(NamedTuple):
    """One set of rounds that targets need."""

    interpreter: str
    app: str
    names: tuple[str, ...]
    connections: tuple[int, ...] = (1, 10, 100)
    has_browser_fields: bool = False


HELLO = ("floor", "aserve", "aserve-threads-0", "bjoern", "granian", "waitress")
SETS = {
    "bare head": Set("cpython", "hello", HELLO),
    "browser": Set("cpython", "hello", HELLO, has_browser_fields=True),
    "PyPy hello": Set("pypy", "hello", ("aserve", "waitress", "gunicorn")),
    # One request at a time: the share of a request that is not the app's.
    "PyPy fib(36)": Set("pypy", "fib36", ("aserve",), connections=(1,)),
}
OF_BJOERN = {100: 1.0, 10: 0.8, 1: 0.8}
TARGETS = [
    *(
        Target(1, head, "aserve", base, connections, OF_BJOERN[connections] if base == "bjoern" else ratio)
        for head in ("bare head", "browser")
        for base, ratio in (("bjoern", 1.0), ("granian", 1.6), ("waitress", 8.0))
        for connections in (100, 10, 1)
    ),
    *(
        Target(2, head, "aserve-threads-0", base, connections, ratio)
        for head in ("bare head", "browser")
        for base, ratio in (("bjoern", 1.0), ("floor", 0.75))
        for connections in (100, 10, 1)
    ),
    *(
        Target(10, "PyPy hello", "aserve", base, connections, ratio)
        for base, ratio in (("waitress", 2.5), ("gunicorn", 4.0))
        for connections in (100, 10, 1)
    ),
    Target(10, "PyPy fib(36)", "aserve", rounds.BARE, 1, 0.98),
]
NUMBERS = sorted({target.number for target in TARGETS})


def sets_for(numbers: Collection[int]) -> list[str]:
    """Return the names of the sets that these targets need."""
    needed = {target.set_name for target in TARGETS if target.number in numbers}
    return [name for name in SETS if name in needed]


def build_plan(name: str, pair: Pair, timing: Mapping[str, Any]) -> Plan:
    """Return the plan of a set; timing: rounds, seconds, cpus, warm_up_seconds."""
    wanted = SETS[name]
    return Plan(
        pair,
        servers.choose(pair, wanted.names, (), with_logs=False),
        app=wanted.app,
        connections=wanted.connections,
        has_browser_fields=wanted.has_browser_fields,
        with_bare=wanted.app == "fib36",
        **timing,
    )


def judge(results: Mapping[str, Result], numbers: Collection[int]) -> list[dict[str, Any]]:
    """Return a row for each target: what, at least, the figure, met or not, and why one should look."""
    return [_judge_one(target, results.get(target.set_name)) for target in TARGETS if target.number in numbers]


def _judge_one(target: Target, result: Result | None) -> dict[str, Any]:
    figure, notes = None, []
    if result is None:
        notes.append("not measured")
    else:
        figure = result.ratio(target.server, target.base, target.connections)
        for name in (target.server, target.base):
            if name in result.left_out:
                notes.append(f"{name}: {result.left_out[name]}")
            if name != rounds.BARE and result.errors(name, target.connections):
                notes.append(f"{name} made errors: {result.errors(name, target.connections)}")
        notes += rounds.warnings(result)
    ours_failed = result is not None and bool(result.errors(target.server, target.connections))
    unfair = result is not None and not result.plan.pair.is_fair
    return {
        "target": target.number,
        "set": target.set_name,
        "connections": target.connections,
        "server": target.server,
        "base": target.base,
        "at_least": target.at_least,
        "figure": figure,
        "met": figure is not None and figure >= target.at_least and not ours_failed and not unfair,
        "notes": notes,
    }


def format_judgement(rows: list[dict[str, Any]]) -> str:
    """Return the targets as a table."""
    lines = [f"{'target':>6}  {'set':14}{'conns':>6}  {'ratio of requests per CPU s':30}{'at least':>10}{'figure':>8}"]
    for row in rows:
        figure = "-" if row["figure"] is None else f"{row['figure']:.3f}"
        what = f"{row['server']} / {row['base']}"
        lines.append(
            f"{row['target']:>6}  {row['set']:14}{row['connections']:>6}  {what:30}{row['at_least']:>10.2f}{figure:>8}"
            f"  {'met' if row['met'] else 'NOT MET'}"
        )
    met = sum(row["met"] for row in rows)
    lines.append(f"{met} of {len(rows)} met")
    notes = dict.fromkeys(note for row in rows for note in row["notes"])  # each once, in order
    return "\n".join(lines + [f"note: {note}" for note in notes])
