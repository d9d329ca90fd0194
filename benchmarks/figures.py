"""What is measured, and the figures that came of it: medians, ratios, warnings, the table.

Owns:     Plan and Result; every sum that is done with measured figures.
Figure:   requests per CPU second of the server's whole process tree. Unlike requests per second it
          holds still when the machine does not. Where the CPU is shared by design (Plan.is_shared) it is
          requests per second: what is scheduled late takes no CPU, and answers late.
Ratio:    taken within each round, then the median of these; never of figures from two runs.
Rules:    nothing here starts a process or reads a clock, so tests give it figures of their own.
Not here: measuring (rounds.py), what is to be reached (targets.py).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any, NamedTuple

from servers import Pair, Server

Row = dict[str, Any]  # the figures of one server at one number of connections in one round
Round = dict[str, dict[int, Row]]  # server name, connections

# How requests come.
WAYS = {
    "kept": "keep-alive",
    "close": "one request per connection",
    "sidecar": "nginx in front, one unix connection per request",
    "rpc": "uwsgi packets, one connection per call",
    "route": "keep-alive HTTP that a route answers",
    "mixed": "keep-alive",
    "apache": "Apache in front, one unix connection per request",
    "tls": "keep-alive over TLS",
    "handshakes": "one TLS connection per request, none resumed",
    **{f"http2-{count}": f"HTTP/2 over TLS, {count} at once on each connection" for count in (1, 10, 100)},
}
STREAMS = {way: int(way.rpartition("-")[2]) for way in WAYS if way.startswith("http2-")}
OVER_TLS = {"tls", "handshakes", *STREAMS}
FRONTS = {"sidecar": "nginx", "apache": "apache2"}  # ways behind another server, and its program
ON_ONE_CONNECTION_EACH = {"close", "rpc", "handshakes"}
LOADS = {
    "close": "close_load",
    "rpc": "close_load",
    "mixed": "mixed_load",
}  # programs in C; other ways: wrk, h2load, tls_load.py
WHOLE_REQUESTS_ONLY = {"fib36"}  # each takes so long that the one cut off at the end would count
BARE = "bare"  # fib(36) called without a server
COLUMNS = (
    "per_cpu_s", "rps", "p50_ms", "p99_ms", "pss_start_mb", "pss_mb", "busy", "switches", "calls", "others", "n", "kb_per_s",
    "slow_rps",
)  # fmt: skip
OTHERS_SHARE = 0.05  # of the server's CPU, spent by other processes: beyond it, say so
START_SECONDS = {False: 1.5, True: 3.0}  # Guess: to start, be asked and stop, by whether it is PyPy
# Before the first number of connections, and before each that follows. Measured 2026-11-21, hello on
# PyPy: 33,000 requests per CPU second after 1 s, 55,000 after 3 and after 10.
WARM_UP_SECONDS = {False: (0.5, 0.5), True: (5.0, 4.0)}


class Plan(NamedTuple):
    """What one set of rounds measures."""

    pair: Pair
    servers: list[Server]
    app: str = "hello"
    connections: tuple[int, ...] = (1, 10, 100)
    seconds: float = 1.5
    warm_up_seconds: float | None = None  # before each number of connections, not counted; None: as above
    rounds: int = 5
    has_browser_fields: bool = False
    way: str = "kept"
    kinds: tuple[str, ...] = ()  # with "mixed": of requests that are not plain,
    every: int = 0  # and how many requests there are to one of them
    with_bare: bool = False
    requests: int = 0  # of ab, which then is the client in wrk's place
    has_many_heads: bool = False  # 50 browsers, 200 targets
    source: str = ""  # the published row that this repeats
    counts_calls: bool = False  # system calls, under strace, after the first round
    takes_samples: bool = False  # of where the server is, by perf, in a load of its own
    cpus: tuple[int, int] = (0, 1)  # the server's; the client's and nginx's
    has_neighbours: bool = False  # on each of the server's CPUs a process computes all the while
    server_cpus: int = 1  # 2: the server has the client's CPU, too
    copies: int = 1  # of the server, on one CPU, loaded at the same time; figures are of all
    slow_connections: int = 0  # beside the load, each asks again and again for what computes for 20 ms

    @property
    def title(self) -> str:
        """What is measured, in words."""
        if self.app in WHOLE_REQUESTS_ONLY:
            return f"{self.app}, one request after the other, {self.pair.title}"
        head = ", a browser's fields" if self.has_browser_fields else ""
        head += ", 50 browsers and 200 targets" if self.has_many_heads else ""
        head += f", ab -n {self.requests}" if self.requests else ""
        head += ", beside a busy neighbour on each CPU" if self.has_neighbours else ""
        head += f", {self.copies} services on one CPU" if self.copies > 1 else ""
        head += f", beside {self.slow_connections} clients of what computes for 20 ms" if self.slow_connections else ""
        if self.every and self.kinds:
            head += f", 1 request in {self.every} another: {', '.join(self.kinds)}"
        return f"{self.app}, {WAYS[self.way]}{head}, {self.pair.title}"

    @property
    def is_shared(self) -> bool:
        """Whether the server has its CPU not for itself, or not for the requests that are counted."""
        return self.has_neighbours or self.copies > 1 or self.slow_connections > 0

    @property
    def figure(self) -> str:
        """The column of which ratios are taken."""
        return "rps" if self.is_shared else "per_cpu_s"

    @property
    def names(self) -> list[str]:
        """What has a row in the table."""
        return [server.name for server in self.servers] + [BARE] * self.with_bare

    @property
    def estimate_seconds(self) -> float:
        """About how long it takes."""
        kinds = [self.pair.is_pypy_for(server) for server in self.servers] + [self.pair.is_pypy] * self.with_bare
        return self.rounds * sum(
            START_SECONDS[is_pypy]
            + sum(self.seconds + self.warm_up(is_pypy, number == 0) for number in range(len(self.connections)))
            for is_pypy in kinds
        )

    def warm_up(self, is_pypy: bool, is_first: bool) -> float:
        """Return how long a server is loaded before it is measured."""
        if self.warm_up_seconds is not None:
            return self.warm_up_seconds
        return WARM_UP_SECONDS[is_pypy][0 if is_first else 1]


class Result(NamedTuple):
    """The figures of all rounds."""

    plan: Plan
    rounds: list[Round]
    left_out: dict[str, str]  # server name: why

    def rows(self, name: str, connections: int) -> list[Row]:
        """Return a server's rows, of the rounds that have one."""
        return [each[name][connections] for each in self.rounds if connections in each.get(name, {})]

    def median(self, name: str, connections: int, column: str) -> float | None:
        """Return the median of a column, None where it was not measured."""
        values = [row[column] for row in self.rows(name, connections) if row.get(column) is not None]
        return statistics.median(values) if values else None

    def ratio(self, name: str, base: str, connections: int, column: str = "") -> float | None:
        """Return the median over the rounds of the ratio within each; None: never both measured. `column`: the plan's figure."""
        column = column or self.plan.figure
        pairs = [
            (each[name][connections][column], each[base][connections][column])
            for each in self.rounds
            if each.get(name, {}).get(connections, {}).get(column) is not None
            and each.get(base, {}).get(connections, {}).get(column)
        ]
        return statistics.median(ours / theirs for ours, theirs in pairs) if pairs else None

    def best_of(self, names: Iterable[str], connections: int) -> str:
        """Return which of these has the highest median of the plan's figure; empty: none was measured without errors."""
        medians = {name: self.median(name, connections, self.plan.figure) for name in names}
        sound = {name: median for name, median in medians.items() if median and not self.errors(name, connections)}
        return max(sound, key=lambda name: sound[name], default="")

    def errors(self, name: str, connections: int) -> dict[str, int]:
        """Return the errors of all rounds by kind; empty: none."""
        sums: dict[str, int] = {}
        for row in self.rows(name, connections):
            for kind, count in row["errors"].items():
                sums[kind] = sums.get(kind, 0) + count
        return sums

    def warnings(self) -> list[str]:
        """Return what makes the figures doubtful, a line each."""
        lines = []
        if not self.plan.pair.is_fair:
            lines.append("WARNING: aserve and its peers are on different builds of Python; do not quote the ratios")
        shares = [row.get("others", 0.0) for each in self.rounds for rows in each.values() for row in rows.values()]
        if shares and statistics.median(shares) > OTHERS_SHARE:
            share = statistics.median(shares)
            lines.append(f"WARNING: the machine was not quiet: others took {share:.0%} of the server's CPU")
        return lines


# The table


def base_of(name: str, base: str) -> str:
    """Return the server to which a server's ratio is: a base `:PEER` is the peer on the same protocol."""
    return name.partition(":")[0] + base if base.startswith(":") else base


def format_rate(value: float) -> str:
    """Return requests per CPU second with as many digits as are significant."""
    return f"{value:.0f}" if value > 100 else f"{value:.2f}"


def format_table(result: Result, base: str) -> str:
    """Return the medians as a table, with the ratio to one of the servers."""
    plan = result.plan
    width = max(22, *(len(name) for name in plan.names))
    whom = f"{base[1:]} on the same protocol" if base.startswith(":") else base
    lines = [
        f"{plan.title}; medians of {plan.rounds} rounds of {plan.seconds:g} s; x: ratio{' of rps' * plan.is_shared} to {whom}",
        f"{'server':{width}}{'conns':>6}{'req/cpu-s':>11}{'x':>7}{'rps':>9}{'p50 ms':>9}{'p99 ms':>9}{'PSS MB':>8}"
        f"{'busy':>7}{'switches':>10}  errors",
    ]
    for connections in plan.connections:
        lines += [
            _format_row(result, name, base_of(name, base), connections, width)
            for name in plan.names
            if name not in result.left_out
        ]
    lines += [f"left out: {name}: {reason}" for name, reason in result.left_out.items()]
    bases = {base_of(name, base) for name in plan.names}
    lines += [f"no ratios: {name} was not measured" for name in sorted(bases) if name not in _measured(result)]
    return "\n".join(lines + result.warnings())


def _measured(result: Result) -> list[str]:
    return [name for name in result.plan.names if name not in result.left_out]


def _format_row(result: Result, name: str, base: str, connections: int, width: int) -> str:
    def cell(value: float | None, width: int, form: str) -> str:
        return f"{'-' if value is None else format(value, form):>{width}}"

    median = {column: result.median(name, connections, column) for column in COLUMNS}
    rate = median["per_cpu_s"]
    slow = result.median(name, connections, "slow_rps")
    notes = [f"{slow:.1f} slow ones a second"] if slow is not None else []
    notes += [f"{kind} {count}" for kind, count in result.errors(name, connections).items()]
    if result.plan.way == "kept" and not all(row.get("is_kept", True) for row in result.rows(name, connections)):
        notes.append("keeps no connection")
    return (
        f"{name:{width}}{connections:>6}{'-' if rate is None else format_rate(rate):>11}"
        f"{cell(result.ratio(name, base, connections), 7, '.2f')}{cell(median['rps'], 9, '.0f')}"
        f"{cell(median['p50_ms'], 9, '.2f')}{cell(median['p99_ms'], 9, '.2f')}{cell(median['pss_mb'], 8, '.1f')}"
        f"{cell(median['busy'], 7, '.0%')}{cell(median['switches'], 10, '.3f')}  {', '.join(notes)}"
    ).rstrip()
