"""What processes have counted together, over their ends.

Owns:     Totals: by slot, what workers have counted that are gone; adding to it what those have counted that are there.
Thread:   the supervisor's only one; pure.
Not here: the memory of those that are there (exporter.py).

A worker's successor begins at 0. A number that is read from outside never falls all the same: it is the sum of a slot's workers,
of all that there have been.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .table import COUNTED, KEYS, PLACES, WORDS, place_of_requests

# What is not forgotten with a worker.
_RUNNING_ON = [place for m in COUNTED if m.runs_on for place in range(PLACES[m.name], PLACES[m.name] + m.width)]

Words = Sequence[int]


class Totals:
    """By slot, what workers have counted that are gone."""

    def __init__(self) -> None:
        self._gone: dict[int, list[int]] = {}

    def add_gone(self, slot: int, words: Words) -> None:
        """Keep what a worker has counted that has ended."""
        gone = self._gone.setdefault(slot, [0] * WORDS)
        for place in _RUNNING_ON:
            gone[place] += words[place]

    def add_lost(self, slot: int, count: int) -> None:
        """Count requests that ended with a worker of this slot, without a response."""
        self._gone.setdefault(slot, [0] * WORDS)[place_of_requests("none", "cut")] += count

    def with_present(self, present: Iterable[tuple[int, Words]]) -> dict[int, list[int]]:
        """Return by slot what has been counted there, and what its gauges add up to, with those of `present`: slot and words."""
        sums = {slot: list(gone) for slot, gone in self._gone.items()}
        for slot, words in present:
            earlier = sums.setdefault(slot, [0] * WORDS)
            sums[slot] = [one + other for one, other in zip(earlier, words)]
        return dict(sorted(sums.items()))

    # For other code, which may have other places

    def describe(self) -> dict[str, dict[str, int]]:
        """Return all of it by names, for `restore`."""
        return {str(slot): describe_words(gone) for slot, gone in self._gone.items()}

    def restore(self, state: Mapping[str, Mapping[str, int]]) -> None:
        """Add what other code has left; what has no place any more is dropped."""
        for slot, counts in state.items():
            words = [0] * WORDS
            for key, count in counts.items():
                if key in KEYS:
                    words[KEYS[key]] = count
            self.add_gone(int(slot), words)


def describe_words(words: Words) -> dict[str, int]:
    """Return by name what runs on of the words of a process."""
    return {key: words[place] for key, place in KEYS.items() if words[place]}
