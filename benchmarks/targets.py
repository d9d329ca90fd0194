"""The targets of each command: what must be measured for them, and whether they are met.

Owns:     the table of targets; which sets of rounds they need; the judgement and its table.
Rules:    a target holds when the median of its ratios reaches it and our server made no error in
          that set. A peer's errors are shown. What was not measured is not met.
Numbers:  the targets keep the numbers of the list that all of the project's speed work refers to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import servers
from figures import BARE, Plan, Result
from servers import Pair

COUNTS = (1, 10, 100)
CPYTHON, PYPY = ("cpython",), ("pypy",)
BOTH = CPYTHON + PYPY


class Target(NamedTuple):
    """One line: a server must reach a multiple of another's requests per CPU second."""

    number: int
    set_name: str
    server: str
    base: str
    connections: int
    at_least: float
    interpreters: tuple[str, ...] = CPYTHON


class Set(NamedTuple):
    """One set of rounds that targets need."""

    bench: str  # the command that measures it
    base: str  # whom the table's ratios are to; ":NAME": to NAME on the server's own protocol
    names: tuple[str, ...] = ()  # of the servers; empty: those the table has by default
    app: str = "hello"
    connections: tuple[int, ...] = COUNTS
    has_browser_fields: bool = False
    way: str = "kept"
    interpreters: tuple[str, ...] = CPYTHON


HELLO = ("floor", "aserve", "aserve-threads-0", "bjoern", "granian", "waitress")
# Connections that are closed: the peers that close them when asked to.
CLOSED = ("aserve", "aserve-threads-0", "bjoern", "uwsgi-http")
RPC = ("aserve-1", "uwsgi-1", "aserve-8", "uwsgi-8")
SETS = {
    "bare head": Set("serve", "bjoern", HELLO),
    "browser": Set("serve", "bjoern", HELLO, has_browser_fields=True),
    "close": Set("serve", "bjoern", CLOSED, way="close"),
    "PyPy hello": Set("serve", "waitress", ("aserve", "waitress", "gunicorn"), interpreters=PYPY),
    # One request at a time: the share of a request that is not the app's.
    "PyPy fib(36)": Set("serve", BARE, ("aserve",), app="fib36", connections=(1,), interpreters=PYPY),
    "sidecar hello": Set("sidecar", ":uwsgi", way="sidecar", interpreters=BOTH),
    "sidecar echo": Set("sidecar", ":uwsgi", app="echo", way="sidecar", interpreters=BOTH),
    "RPC rpc": Set("rpc", "rpc:uwsgi-1", tuple(f"rpc:{name}" for name in RPC), "rpc", way="rpc", interpreters=BOTH),
    "RPC route": Set(
        "rpc", "route:uwsgi-1", tuple(f"route:{name}" for name in RPC), "rpc", way="route", interpreters=BOTH
    ),
}
OF_BJOERN = {100: 1.0, 10: 0.8, 1: 0.8}
NOT_SLOWER = 0.97  # Guess: equal servers differ by so much from run to run
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
        Target(3, "close", "aserve", base, connections, 1.0)  # as good as the better: as good as each
        for base in ("bjoern", "uwsgi-http")
        for connections in (100, 10, 1)
    ),
    *(
        Target(number, set_name, f"{protocol}:aserve", f"{protocol}:uwsgi", connections, 1.0)
        for number, set_name in ((4, "sidecar hello"), (5, "sidecar echo"))
        for protocol in ("uwsgi", "scgi")
        for connections in (100, 10, 1)
    ),
    *(
        Target(9, f"RPC {way}", f"{way}:aserve-{threads}", f"{way}:{base}", connections, ratio, BOTH)
        for way in ("rpc", "route")
        for threads, base, ratio in ((1, "uwsgi-1", 1.0), (8, "uwsgi-8", 1.0), (8, "aserve-1", NOT_SLOWER))
        for connections in (100, 10, 1)
    ),
    *(
        Target(10, "PyPy hello", "aserve", base, connections, ratio, PYPY)
        for base, ratio in (("waitress", 2.5), ("gunicorn", 4.0))
        for connections in (100, 10, 1)
    ),
    Target(10, "PyPy fib(36)", "aserve", BARE, 1, 0.98, PYPY),
]


def numbers_of(bench: str) -> list[int]:
    """Return the targets that a command measures."""
    return sorted({target.number for target in TARGETS if SETS[target.set_name].bench == bench})


def sets_for(bench: str, interpreter: str, numbers: Collection[int]) -> list[str]:
    """Return the names of the sets that these targets need."""
    needed = {target.set_name for target in TARGETS if target.number in numbers}
    return [
        name
        for name, each in SETS.items()
        if name in needed and each.bench == bench and interpreter in each.interpreters
    ]


def build_plan(name: str, pair: Pair, timing: Mapping[str, Any]) -> Plan:
    """Return the plan of a set; timing: rounds, seconds, cpus, warm_up_seconds."""
    wanted = SETS[name]
    return Plan(
        pair,
        servers.choose(pair, wanted.names, bench=wanted.bench),
        app=wanted.app,
        connections=wanted.connections,
        has_browser_fields=wanted.has_browser_fields,
        way=wanted.way,
        with_bare=wanted.base == BARE,
        **timing,
    )


def judge(results: Mapping[str, Result], numbers: Collection[int]) -> list[dict[str, Any]]:
    """Return a row for each target on what was to be measured: the figure, met or not, why one should look."""
    return [
        _judge_one(target, results[target.set_name])
        for target in TARGETS
        if target.number in numbers and target.set_name in results and _is_asked(target, results[target.set_name].plan)
    ]


def _is_asked(target: Target, plan: Plan) -> bool:
    return (
        plan.pair.interpreter in target.interpreters
        and {target.server, target.base} <= set(plan.names)
        and target.connections in plan.connections
    )


def _judge_one(target: Target, result: Result) -> dict[str, Any]:
    figure, notes = result.ratio(target.server, target.base, target.connections), []
    for name in (target.server, target.base):
        if name in result.left_out:
            notes.append(f"{name}: {result.left_out[name]}")
        if name != BARE and result.errors(name, target.connections):
            notes.append(f"{name} made errors: {result.errors(name, target.connections)}")
    ours_failed = bool(result.errors(target.server, target.connections))
    return {
        "target": target.number,
        "set": target.set_name,
        "connections": target.connections,
        "server": target.server,
        "base": target.base,
        "at_least": target.at_least,
        "figure": figure,
        "met": figure is not None and figure >= target.at_least and not ours_failed and result.plan.pair.is_fair,
        "notes": notes + result.warnings(),
    }


def format_judgement(rows: list[dict[str, Any]]) -> str:
    """Return the targets as a table."""
    if not rows:
        return "no target is measured by this"
    lines = [f"{'target':>6}  {'set':14}{'conns':>6}  {'ratio of requests per CPU s':34}{'at least':>10}{'figure':>8}"]
    for row in rows:
        figure = "-" if row["figure"] is None else f"{row['figure']:.3f}"
        what = f"{row['server']} / {row['base']}"
        lines.append(
            f"{row['target']:>6}  {row['set']:14}{row['connections']:>6}  {what:34}{row['at_least']:>10.2f}{figure:>8}"
            f"  {'met' if row['met'] else 'NOT MET'}"
        )
    met = sum(row["met"] for row in rows)
    lines.append(f"{met} of {len(rows)} met")
    notes = dict.fromkeys(note for row in rows for note in row["notes"])  # each once, in order
    return "\n".join(lines + [f"note: {note}" for note in notes])
