"""The sums of what worker processes have counted, kept after their ends.

Owns:     Totals: by slot, the counts of ended workers, and their sums with those of the running workers.
Thread:   the supervisor's only one; pure.
Not here: the pages of running workers (exporter.py).

A worker's successor begins at 0. The number that a client reads never falls all the same: it is the sum over all workers that the
slot has had.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .table import COUNTED, KEYS, PLACES, WORDS, place_of_requests

# The words that are kept after a worker's end.
_RUNNING_ON = [place for m in COUNTED if m.runs_on for place in range(PLACES[m.name], PLACES[m.name] + m.width)]

Words = Sequence[int]


class Totals:
    """The counts of ended workers, by slot."""

    def __init__(self) -> None:
        self._gone: dict[int, list[int]] = {}

    def add_gone(self, slot: int, words: Words) -> None:
        """Keep the counts of a worker that has ended."""
        gone = self._gone.setdefault(slot, [0] * WORDS)
        for place in _RUNNING_ON:
            gone[place] += words[place]

    def add_lost(self, slot: int, count: int) -> None:
        """Count requests that were lost with a worker of this slot, without a response."""
        self._gone.setdefault(slot, [0] * WORDS)[place_of_requests("none", "cut")] += count

    def with_present(self, present: Iterable[tuple[int, Words]]) -> dict[int, list[int]]:
        """Return by slot the sums of counters and gauges, including the workers of `present`: slot and words."""
        sums = {slot: list(gone) for slot, gone in self._gone.items()}
        for slot, words in present:
            earlier = sums.setdefault(slot, [0] * WORDS)
            sums[slot] = [one + other for one, other in zip(earlier, words)]
        return dict(sorted(sums.items()))

    # For another version of aserve, which may have other places

    def describe(self) -> dict[str, dict[str, int]]:
        """Return the counts by names, for `restore`."""
        return {str(slot): describe_words(gone) for slot, gone in self._gone.items()}

    def restore(self, state: Mapping[str, Mapping[str, int]]) -> None:
        """Add the counts of the previous version; drop names that this version does not have."""
        for slot, counts in state.items():
            words = [0] * WORDS
            for key, count in counts.items():
                if key in KEYS:
                    words[KEYS[key]] = count
            self.add_gone(int(slot), words)


def describe_words(words: Words) -> dict[str, int]:
    """Return by name the words of a process that are kept after its end."""
    return {key: words[place] for key, place in KEYS.items() if words[place]}
