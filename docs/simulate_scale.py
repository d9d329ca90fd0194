"""Simulate hosts with threads behind a balancer, and write the tables of docs/scale.md: `make docs`.

Owns:     the model: requests arrive at random (Poisson), each takes a random time (exponential, mean 1),
          each host serves so many at once and queues the rest, first come, first served.
Not here: what the tables mean (scale.md). Nothing is measured: the same seed gives the same tables.
"""

from __future__ import annotations

import heapq
import math
import pathlib
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

PAGE = pathlib.Path(__file__).with_name("scale.md")
REQUESTS = 30_000  # in each run; the first tenth is not counted, since every queue is empty at the start
ROUNDS = 3
AGENT_INTERVAL = 2.0  # in mean service times: HAProxy asks every 2 s, and a request waits 1 s for its database


class Host:
    """So many threads, and one queue. Times count from the start, in mean service times."""

    def __init__(self, threads: int, slowness: float) -> None:
        self.slowness = slowness
        self._free_at = [0.0] * threads
        self._ends: list[float] = []  # of what it has been given and has not answered

    def count_at(self, now: float) -> int:
        """Return how many requests it has, running or queued."""
        while self._ends and self._ends[0] <= now:
            heapq.heappop(self._ends)
        return len(self._ends)

    def weight_at(self, now: float) -> float:
        """Return the share of its threads that are free; never 0, or it would hear of nothing more."""
        busy = min(self.count_at(now), len(self._free_at))
        return max(1.0 - busy / len(self._free_at), 0.01)

    def serve(self, now: float, seconds: float) -> tuple[float, float]:
        """Take a request; return how long it is queued, and how long it is until its answer."""
        begin = max(now, self._free_at[0])
        end = begin + seconds * self.slowness
        heapq.heapreplace(self._free_at, end)
        heapq.heappush(self._ends, end)
        return begin - now, end - now


class Way:
    """How a balancer chooses a host for the next request."""

    def __init__(self, hosts: Sequence[Host], rng: random.Random) -> None:
        self.hosts, self.rng = hosts, rng

    def choose(self, now: float) -> Host:
        """Return the host."""
        raise NotImplementedError


class RoundRobin(Way):
    """One after another."""

    def __init__(self, hosts: Sequence[Host], rng: random.Random) -> None:
        super().__init__(hosts, rng)
        self._next = 0

    def choose(self, now: float) -> Host:
        """Return the next."""
        self._next += 1
        return self.hosts[self._next % len(self.hosts)]


class LeastConnections(Way):
    """The one that has fewest requests."""

    def choose(self, now: float) -> Host:
        """Return it; of several, any."""
        return min(self.hosts, key=lambda host: (host.count_at(now), self.rng.random()))


class AgentCheck(Way):
    """By weights that each host tells now and then: its free threads."""

    def __init__(self, hosts: Sequence[Host], rng: random.Random) -> None:
        super().__init__(hosts, rng)
        self._asked_at = -math.inf
        self._weights: list[float] = []

    def choose(self, now: float) -> Host:
        """Return one, in proportion to the weights that were told last."""
        if now >= self._asked_at + AGENT_INTERVAL:
            self._asked_at, self._weights = now, [host.weight_at(now) for host in self.hosts]
        return self.rng.choices(self.hosts, self._weights)[0]


class Seen(NamedTuple):
    """What clients wait for, in mean service times."""

    median: float
    p99: float
    p99_queued: float


def simulate(load: float, hosts: int, threads: int, way: Callable[..., Way] = RoundRobin, slow: float = 1.0) -> Seen:
    """
    Return what clients see at a load (arrivals in a mean service time).

    The first host takes `slow` times as long for each request.
    """
    times: list[float] = []
    queued: list[float] = []
    for seed in range(ROUNDS):
        rng = random.Random(seed)  # noqa: S311 - a simulation
        all_hosts = [Host(threads, slow if index == 0 else 1.0) for index in range(hosts)]
        chosen = way(all_hosts, random.Random(-1 - seed))  # noqa: S311 - as above
        now = 0.0
        for number in range(REQUESTS):
            now += rng.expovariate(load)
            wait, taken = chosen.choose(now).serve(now, rng.expovariate(1.0))
            if number >= REQUESTS // 10:
                queued.append(wait)
                times.append(taken)
    times.sort()
    queued.sort()
    return Seen(times[len(times) // 2], times[len(times) * 99 // 100], queued[len(times) * 99 // 100])


def mean_wait(load: float, threads: int) -> float:
    """Return the mean time in the queue of one host, in mean service times (Erlang C)."""
    blocked = 1.0
    for count in range(1, threads + 1):  # Erlang B, by its recursion
        blocked = load * blocked / (count + load * blocked)
    queued = blocked / (1 - load / threads * (1 - blocked))
    return queued / (threads - load)


def _row(*cells: object) -> str:
    return f"| {' | '.join(f'{cell:.1f}' if isinstance(cell, float) else str(cell) for cell in cells)} |"


def utilisation_table() -> str:
    """Return how long one host queues as it fills, by its number of threads: the mean, and the 99th percentile."""
    sizes = (2, 8, 32)
    cells = [f"{size} threads: {what}" for size in sizes for what in ("mean", "p99")]
    lines = [_row("threads busy", *cells), "|---" * (1 + len(cells)) + "|"]
    for percent in (50, 60, 70, 80, 90, 95):
        waits = []
        for size in sizes:
            load = size * percent / 100
            waits += [f"{mean_wait(load, size):.2f}", simulate(load, 1, size).p99_queued]
        lines.append(_row(f"{percent} %", *waits))
    return "\n".join(lines)


def pooling_table() -> str:
    """Return the p99 of the time in the queue: of 24 threads in one place, and in three."""
    lines = ["| threads busy | 1 x 24 | 3 x 8, least connections | 3 x 8, in turn |", "|---|---|---|---|"]
    for percent in (70, 80, 90):
        load = 24 * percent / 100
        seen = simulate(load, 1, 24), simulate(load, 3, 8, LeastConnections), simulate(load, 3, 8)
        lines.append(_row(f"{percent} %", *(one.p99_queued for one in seen)))
    return "\n".join(lines)


def slow_host_table() -> str:
    """Return what one slow host of three does, by the way of balancing."""
    lines = ["| balancing | median | p99 |", "|---|---|---|"]
    for name, way in (("in turn", RoundRobin), ("least connections", LeastConnections), ("free threads", AgentCheck)):
        seen = simulate(8, 3, 8, way, slow=5.0)
        lines.append(_row(name, seen.median, seen.p99 if seen.p99 < 100 else "grows without end"))
    return "\n".join(lines)


TABLES = {"utilisation": utilisation_table, "pooling": pooling_table, "slow-host": slow_host_table}


def build_page(text: str) -> str:
    """Return the page with its tables made anew."""
    for name, make in TABLES.items():
        begin, end = text.index(f"<!-- {name}:begin"), text.index(f"<!-- {name}:end")
        begin = text.index("\n", begin) + 1
        text = f"{text[:begin]}\n{make()}\n\n{text[end:]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(build_page(PAGE.read_text()))
