"""In which comparisons of a file of results another server is ahead of aserve, and by how much.

Owns:     ratios of what is kept; which row of ours a peer is compared with.
Rules:    every figure is a file's: no process is started, no clock read.
Not here: the pages (pages.py) and charts (charts.py) that say it; ratios of a run that is not kept (figures.py).
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

Kept = Mapping[str, Any]  # one file of results, or one set of it
NO_PEERS = {"floor", "bare"}  # the kernel alone, and the app alone


class Lead(NamedTuple):
    """A comparison of one set at one number of connections: the best peer, and ours that it is compared with."""

    stem: str
    set_name: str
    count: str
    ours: str
    peer: str
    ratio: float  # the peer's figure by ours: above 1 the peer is ahead

    @property
    def text(self) -> str:
        """The lead in words."""
        connections = f"{int(self.count):,} connection{'s' * (self.count != '1')}"
        return f"{self.peer} {self.ratio:.2f} x {self.ours} ({self.set_name}, {connections})"


def leads(stem: str, kept: Kept) -> Iterator[Lead]:
    """Yield, for each set and number of connections, each of ours beside its best peer."""
    for set_name, each in kept.get("sets", {}).items():
        names = list(each["medians"])
        for count in connections_of(each):
            best: dict[str, Lead] = {}
            for peer in names:
                ours = "" if is_ours(peer) or peer in NO_PEERS else ours_for(peer, names)
                ratio = ratio_of(each, peer, ours, count) if ours else None
                if ratio and ratio > (best[ours].ratio if ours in best else 0):
                    best[ours] = Lead(stem, set_name, count, ours, peer, ratio)
            yield from best.values()


def is_ours(name: str) -> bool:
    """Return whether a row is aserve's."""
    return name.rpartition(":")[2].startswith("aserve")


def ours_for(peer: str, names: Iterable[str]) -> str:
    """Return the row of ours that a peer is compared with: of the same protocol, with as many threads or workers; or none."""
    bare, plus, suffix = peer.partition("+")
    if plus:
        return f"{ours_for(bare, names)}+{suffix}"
    protocol, colon, rest = peer.rpartition(":")
    count = re.search(r"-[tw]?\d+$", rest)
    wanted = [f"{protocol}{colon}aserve{count[0]}"] if count else []
    wanted.append(f"{protocol}{colon}aserve")
    wanted += [name for name in names if is_ours(name) and name.startswith(f"{protocol}{colon}") and not count]
    return next((name for name in wanted if name in set(names)), "")


def connections_of(each: Kept) -> list[str]:
    """Return a set's numbers of connections, in their order."""
    return list(dict.fromkeys(count for rows in each["medians"].values() for count in rows))


def figure_of(each: Kept) -> str:
    """Return the column by which the servers of a set are compared."""
    return str(each.get("figure", "per_cpu_s"))


def ratio_of(each: Kept, name: str, base: str, count: str) -> float | None:
    """Return the median of the ratios within each round, of the set's figure; None: never both measured."""
    key = figure_of(each)
    rows = [(one[name].get(count), one[base].get(count)) for one in each["each_round"] if name in one and base in one]
    ratios = [theirs[key] / ours[key] for theirs, ours in rows if theirs and ours and ours[key]]
    return statistics.median(ratios) if ratios else None
