"""The targets of each command: what must be measured for them, and whether they are met.

Owns:     the table of targets; which sets of rounds they need; the judgement and its table.
Rules:    a target holds when the median of its ratios reaches it and our server made no error in
          that set. A peer's errors are shown. What was not measured is neither met nor missed: it says why.
Numbers:  the targets keep the numbers of the list that all of the project's speed work refers to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import servers
from figures import BARE, Plan, Result
from servers import Pair

COUNTS = (1, 10, 100)
# Figures that are no ratios, in words.
PLAIN = {
    "rps": "requests a second",
    "p99_ms": "p99 in ms",
    "more_mb": "MB more",
    "pss_mb": "PSS MB",
    "own_mb": "MB of its own for each worker",
    "seconds": "seconds",
    "failed": "requests that failed",
    "speed_up": "of two workers, x one",
    "share_fresh": "share of the busier worker, fresh",
    "share_kept": "share of the busier worker, kept",
    "share_reloaded": "share of the busier worker, after a reload",
}
CPYTHON, PYPY = ("cpython",), ("pypy",)
BOTH = CPYTHON + PYPY


class Target(NamedTuple):
    """One line: a figure of a server, or its ratio to another's, must reach a bound."""

    number: int
    set_name: str
    server: str
    base: str  # whom the ratio, of `column`, is to; empty: the figure itself counts
    connections: int
    at_least: float | None
    interpreters: tuple[str, ...] = CPYTHON
    column: str = "per_cpu_s"
    at_most: float | None = None
    bases: tuple[str, ...] = ()  # `base` is whichever of these has answered most at that number of connections


class Set(NamedTuple):
    """One set of rounds."""

    bench: str  # the command that measures it
    base: str  # whom the table's ratios are to; ":NAME": to NAME on the server's own protocol
    names: tuple[str, ...] = ()  # of the servers; empty: those the table has by default
    app: str = "hello"
    connections: tuple[int, ...] = COUNTS
    has_browser_fields: bool = False
    way: str = "kept"
    interpreters: tuple[str, ...] = CPYTHON
    source: str = ""  # the published row that it repeats
    requests: int = 0
    has_many_heads: bool = False
    counts_calls: bool = False
    table: str = ""  # of the servers; empty: the command's own
    rounds: tuple[tuple[str, int], ...] = ()  # by interpreter, where it is not as many as elsewhere
    least_seconds: float = 0.0  # of a load
    has_neighbours: bool = False  # as in Plan, and so on
    server_cpus: int = 1
    copies: int = 1
    slow_connections: int = 0

    @property
    def servers_table(self) -> str:
        """The name of the table that its servers are in."""
        return self.table or self.bench


EIGHT_THREADS = ("peregrine-8", "m0serve-8")
ONE_THREAD = ("bjoern", "freastal", "peregrine", "m0serve", "fastpysgi")
HELLO = ("floor", "aserve", "aserve-threads-0", "granian", "waitress", *ONE_THREAD, *EIGHT_THREADS)
# Connections that are closed: the peers that close them when asked to.
CLOSED = ("aserve", "aserve-threads-0", "bjoern", "uwsgi-http")
RPC = ("aserve-1", "uwsgi-1", "aserve-8", "uwsgi-8")
BLOBS = ("aserve", "uwsgi")
SECURE = ("aserve-tls", "granian-tls", "nginx-tls")
# Requests at once on each connection of HTTP/2: how many times as many as nginx; as granian, with a head of h2load and of a browser.
AT_ONCE = {1: (1.0, 2.0, 2.0), 10: (3.0, 5.0, 5.0), 100: (4.0, 12.0, 8.0)}
TEST_APP = ("aserve-t1", "aserve-t8", "uwsgi-t1", "uwsgi-t8")
SETS = {
    "bare head": Set("serve", "bjoern", HELLO),
    "browser": Set("serve", "bjoern", HELLO, has_browser_fields=True),
    "many heads": Set("serve", "bjoern", ("aserve", "bjoern"), connections=(100,), has_many_heads=True),
    "close": Set("serve", "bjoern", CLOSED, way="close"),
    "sleepy": Set("serve", "aserve-t40", ("aserve-t40",), app="sleepy", connections=(100,)),
    "blob": Set("serve", "uwsgi", BLOBS, app="blob", connections=(100,)),
    "blob from a file": Set("serve", "uwsgi", BLOBS, app="blobfile", connections=(100,)),
    "test app": Set("serve", "uwsgi-t1", TEST_APP, app="testapp", connections=(10,)),
    "access log": Set("serve", "aserve", ("aserve", "aserve+log", "aserve-production")),
    "chaos": Set("serve", "aserve", ("aserve", "aserve+bad"), app="token", connections=(90,)),
    # 100 handshakes are in each load: of a short one they would be a large part.
    "TLS kept": Set("serve", "granian-tls", SECURE, connections=(10, 100), way="tls", least_seconds=2.0),
    **{
        f"HTTP/2 x {streams}{head}": Set(
            "serve",
            "granian-tls",
            SECURE,
            connections=(10,),
            has_browser_fields=bool(head),
            way=f"http2-{streams}",
            least_seconds=2.0,
        )
        for streams in AT_ONCE
        for head in ("", " browser")
    },
    "TLS handshakes": Set(
        "serve", "openssl", ("aserve-tls", "granian-tls", "openssl"), connections=(10,), way="handshakes"
    ),
    "PyPy hello": Set("serve", "waitress", ("floor", "aserve", "waitress", "gunicorn", "socketify"), interpreters=PYPY),
    # One request at a time: the share of a request that is not the app's.
    "PyPy fib(36)": Set("serve", BARE, ("aserve",), app="fib36", connections=(1,), interpreters=PYPY),
    "sidecar hello": Set("sidecar", ":uwsgi", way="sidecar", interpreters=BOTH),
    "sidecar echo": Set("sidecar", ":uwsgi", app="echo", way="sidecar", interpreters=BOTH),
    "RPC rpc": Set("rpc", "rpc:uwsgi-1", tuple(f"rpc:{name}" for name in RPC), "rpc", way="rpc", interpreters=BOTH),
    "RPC route": Set(
        "rpc", "route:uwsgi-1", tuple(f"route:{name}" for name in RPC), "rpc", way="route", interpreters=BOTH
    ),
}
# Servers with threads, eight where they can be told, on a CPU that is not theirs alone.
THREADED = ("granian", "gunicorn", "waitress", "uwsgi-t8")
SETS.update(
    {
        "neighbour hello": Set("neighbours", "bjoern", ("aserve", "bjoern", *THREADED, "mod_wsgi"), has_neighbours=True, table="serve"),
        "neighbour sidecar": Set(
            "neighbours", ":uwsgi-threads-8", ("uwsgi:aserve", "uwsgi:uwsgi", "uwsgi:uwsgi-threads-8"), way="sidecar",
            has_neighbours=True, table="sidecar",
        ),
        "neighbour workers": Set(
            "neighbours", "gunicorn-w2", ("aserve-w2", "gunicorn-w2", "granian-w2", "uwsgi-w2"), connections=(1, 10), has_neighbours=True,
            server_cpus=2, table="serve",
        ),
        "two services": Set("neighbours", "granian", ("aserve", *THREADED), connections=(10,), copies=2, table="serve"),
        "slow and quick": Set(
            "neighbours", "gunicorn", ("aserve-t8", "granian-t8", "gunicorn", "waitress", "uwsgi-t8"), app="unlike", connections=(4,),
            slow_connections=2, table="serve",
        ),
    }
)  # fmt: skip
# By set: ours, and the threaded peers whose best it is compared with.
BESIDE = {
    "neighbour hello": ("aserve", THREADED),
    "neighbour sidecar": ("uwsgi:aserve", ("uwsgi:uwsgi-threads-8",)),
    "neighbour workers": ("aserve-w2", ("gunicorn-w2", "granian-w2", "uwsgi-w2")),
    "two services": ("aserve", THREADED),
    "slow and quick": ("aserve-t8", ("granian-t8", "gunicorn", "waitress", "uwsgi-t8")),
}
BEST = "best threaded peer"
NOT_SLOWER = 0.97  # Guess: equal servers differ by so much from run to run
# By head: whom aserve must be ahead of, and by how much.
AHEAD = {
    "bare head": {"bjoern": 1.1, "freastal": 1.0, "peregrine": 1.0, "fastpysgi": 1.0, "granian": 1.6, "waitress": 8.0},
    "browser": {"bjoern": 1.3, "freastal": 1.0, "peregrine": 1.0, "fastpysgi": 1.0, "granian": 1.6, "waitress": 8.0},
}
TARGETS = [
    *(
        Target(1, head, "aserve", base, connections, ratio)
        for head, bases in AHEAD.items()
        for base, ratio in {**bases, **dict.fromkeys(EIGHT_THREADS, 3.0)}.items()
        for connections in (100, 10, 1)
    ),
    Target(1, "many heads", "aserve", "bjoern", 100, 1.0),
    *(
        Target(2, head, "aserve-threads-0", "aserve", connections, NOT_SLOWER)
        for head in AHEAD
        for connections in (100, 10, 1)
    ),
    *(Target(2, head, "aserve-threads-0", "floor", 100, 0.75) for head in AHEAD),
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
    Target(6, "sleepy", "aserve-t40", "", 100, 0.97 * 4000, column="rps"),  # 40 threads, 10 ms each
    Target(6, "sleepy", "aserve-t40", "", 100, None, column="p99_ms", at_most=30.0),
    *(Target(7, blob, "aserve", "uwsgi", 100, 1.0) for blob in ("blob", "blob from a file")),
    *(Target(8, "test app", f"aserve-t{threads}", f"uwsgi-t{threads}", 10, 1.0) for threads in (1, 8)),
    Target(8, "test app", "aserve-t8", "aserve-t1", 10, NOT_SLOWER),
    *(
        Target(9, f"RPC {way}", f"{way}:aserve-{threads}", f"{way}:{base}", connections, ratio, BOTH)
        for way in ("rpc", "route")
        for threads, base, ratio in ((1, "uwsgi-1", 1.0), (8, "uwsgi-8", 1.0), (8, "aserve-1", NOT_SLOWER))
        for connections in (100, 10, 1)
    ),
    *(Target(10, "PyPy hello", "aserve", "socketify", connections, 1.1, PYPY) for connections in (100, 10, 1)),
    *(
        Target(10, "PyPy hello", "aserve", base, 100, ratio, PYPY)
        for base, ratio in (("waitress", 5.0), ("floor", 0.8))
    ),
    Target(10, "PyPy fib(36)", "aserve", BARE, 1, 0.98, PYPY),
    *(Target(11, "access log", "aserve+log", "aserve", connections, 0.9) for connections in (100, 10, 1)),
    *(Target(19, "access log", "aserve-production", "aserve", connections, 0.9) for connections in (100, 10, 1)),
    Target(13, "chaos", "aserve+bad", "aserve", 90, 0.9),
    *(
        Target(15, "TLS kept", "aserve-tls", base, connections, ratio)
        for base, ratio in (("granian-tls", 1.7), ("nginx-tls", 1.0))
        for connections in (100, 10)
    ),
    *(
        Target(15, set_name, "aserve-tls", base, 10, ratio)
        for streams, (nginx, granian, browser) in AT_ONCE.items()
        for set_name, base, ratio in (
            (f"HTTP/2 x {streams}", "nginx-tls", nginx),
            (f"HTTP/2 x {streams}", "granian-tls", granian),
            (f"HTTP/2 x {streams} browser", "granian-tls", browser),
        )
    ),
    Target(15, "TLS handshakes", "aserve-tls", "openssl", 10, 0.95),
    *(
        Target(18, set_name, ours, BEST, connections, *bounds, bases=peers)
        for set_name, (ours, peers) in BESIDE.items()
        for connections in SETS[set_name].connections
        for bounds in ((1.0, CPYTHON, "rps"), (None, CPYTHON, "p99_ms", 1.0))
    ),
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


def build_plan(name: str, pair: Pair, timing: Mapping[str, Any], wanted: Set | None = None) -> Plan:
    """Return the plan of a set, or of the one that is given; timing: rounds, seconds, cpus, warm_up_seconds."""
    wanted = SETS[name] if wanted is None else wanted
    known = {server.name for server in servers.table_for(wanted.servers_table, pair)}
    names = [name for name in wanted.names if name.partition("+")[0] in known]
    rounds = dict(wanted.rounds)
    seconds = max(timing.get("seconds", 0), wanted.least_seconds)
    return Plan(
        pair,
        servers.choose(pair, names, bench=wanted.servers_table),
        app=wanted.app,
        connections=wanted.connections,
        has_browser_fields=wanted.has_browser_fields,
        way=wanted.way,
        with_bare=wanted.base == BARE,
        requests=wanted.requests,
        has_many_heads=wanted.has_many_heads,
        counts_calls=wanted.counts_calls,
        source=wanted.source,
        has_neighbours=wanted.has_neighbours,
        server_cpus=wanted.server_cpus,
        copies=wanted.copies,
        slow_connections=wanted.slow_connections,
        **{
            **timing,
            **({"rounds": rounds[pair.interpreter]} if pair.interpreter in rounds else {}),
            **({"seconds": seconds} if seconds else {}),
        },
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
        and target.server in plan.names
        and not set(target.bases or [target.base or target.server]).isdisjoint(plan.names)
        and target.connections in plan.connections
    )


def _judge_one(target: Target, result: Result) -> dict[str, Any]:
    notes = []
    base = result.best_of(target.bases, target.connections) or target.base if target.bases else target.base
    if base:
        figure = result.ratio(target.server, base, target.connections, target.column)
    else:
        figure = result.median(target.server, target.connections, target.column)
    for name in dict.fromkeys((target.server, *(target.bases or (base or target.server,)))):
        if name in result.left_out:
            notes.append(f"{name}: {result.left_out[name]}")
        if name != BARE and result.errors(name, target.connections):
            notes.append(f"{name} made errors: {result.errors(name, target.connections)}")
    ours_failed = bool(result.errors(target.server, target.connections))
    is_fair = result.plan.pair.is_fair or not target.base
    return row(
        target.number, target.set_name, target.server, base, figure, target.at_least, target.at_most,
        column=target.column if not base or target.column != "per_cpu_s" else "", connections=target.connections,
        is_sound=not ours_failed and is_fair, notes=[*notes, *result.warnings()],
    )  # fmt: skip


def row(
    number: int, set_name: str, server: str, base: str, figure: float | None, at_least: float | None = None,
    at_most: float | None = None, column: str = "", connections: int | str = "", is_sound: bool = True, notes: Sequence[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """Return a target with its figure; column: what the figure is, or what it is a ratio of, where that is not the usual one."""
    met = figure is not None and (at_least is None or figure >= at_least) and (at_most is None or figure <= at_most)
    return {
        "target": number,
        "set": set_name,
        "connections": connections,
        "server": server,
        "base": base or column,
        **({"column": column} if base and column else {}),
        "at_least": at_least,
        "at_most": at_most,
        "figure": figure,
        "met": met and is_sound,
        "notes": list(notes),
    }


def format_judgement(rows: list[dict[str, Any]]) -> str:
    """Return the targets as a table."""
    if not rows:
        return "no target is measured by this"
    lines = [
        f"{'target':>6}  {'set':18}{'conns':>6}  {'ratio of requests per CPU s, or what is named':48}{'bound':>12}{'figure':>10}"
    ]
    for each in rows:
        lines.append(
            f"{each['target']:>6}  {each['set']:18}{each['connections']:>6}  {_what(each):48}{bound(each):>12}"
            f"{format_figure(each['figure']):>10}  {_verdict(each)}"
        )
    measured = [each for each in rows if each["figure"] is not None]
    missing = f", {len(rows) - len(measured)} not measured" if len(measured) < len(rows) else ""
    lines.append(f"{sum(each['met'] for each in rows)} of {len(measured)} met{missing}")
    notes = dict.fromkeys(note for each in rows for note in each["notes"])  # each once, in order
    return "\n".join(lines + [f"note: {note}" for note in notes])


def _what(each: dict[str, Any]) -> str:
    is_ratio = each["base"] not in PLAIN
    what = f", {PLAIN[each['column']]}" if each.get("column") else ""
    return f"{each['server']} / {each['base']}{what}" if is_ratio else f"{each['server']}, {PLAIN[each['base']]}"


def _verdict(each: dict[str, Any]) -> str:
    """Return whether a target is met; what was not measured is neither, and says why as far as that is known."""
    if each["figure"] is None:
        return "not measured" + (f": {each['notes'][0]}" if each["notes"] else "")
    return "met" if each["met"] else "NOT MET"


def bound(each: dict[str, Any]) -> str:
    """Return what a figure must reach, or must not pass."""
    if each.get("at_most") is not None:
        return f"<= {format_figure(each['at_most'])}"
    return f">= {format_figure(each['at_least'])}"


def format_figure(value: float | None) -> str:
    """Return a figure with as many digits as are significant."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3f}" if value < 10 else f"{value:.1f}"
