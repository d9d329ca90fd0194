"""The metrics during a fault: kept in tests/recordings, and replayed to Prometheus' rules.

A recording has a number for each series at each step, a few seconds apart; None: the server did not answer. In its file, with a line for each series,
equal numbers in a row are one pair of a number and a count.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

FOLDER = pathlib.Path(__file__).parents[1] / "recordings"
STEP_SECONDS = 5  # between two numbers of a series
_LINE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.M)
_PLACE = re.compile(r'listener="[^"]*"')


class Recording(NamedTuple):
    """One."""

    fault_at: int  # seconds after its beginning; 0: nothing goes wrong
    seconds: int  # its length
    series: dict[str, list[float | None]]  # by name and labels

    def replay(self, interval_seconds: int, offset_seconds: int = 0, labels: str = "") -> list[dict[str, str]]:
        """Return promtool's `input_series`, scraped at this interval, from so much later on."""
        every, first = interval_seconds // STEP_SECONDS, offset_seconds // STEP_SECONDS
        return [
            {"series": with_labels(name, labels), "values": " ".join(_written(values[first::every]))}
            for name, values in self.series.items()
        ]

    def save(self, path: pathlib.Path) -> None:
        lines = [
            json.dumps([name, [[value, len(list(group))] for value, group in itertools.groupby(values)]])
            for name, values in sorted(self.series.items())
        ]
        head = f'"fault_at": {self.fault_at}, "seconds": {self.seconds}'
        path.write_text("{" + head + ', "series": [\n' + ",\n".join(lines) + "\n]}\n")


def load(name: str) -> Recording:
    found = json.loads((FOLDER / f"{name}.json").read_text())
    series = {series: [value for value, count in pairs for _ in range(count)] for series, pairs in found["series"]}
    return Recording(found["fault_at"], found["seconds"], series)


def with_labels(name: str, labels: str) -> str:
    """Return the name of a series with more labels: `a{b="c"}` and `job="d"` give `a{b="c",job="d"}`."""
    bare, brace, own = name.partition("{")
    return f"{bare}{{{own[:-1]},{labels}}}" if brace else f"{bare}{{{labels}}}"


def numbers_of(text: str, names: Iterable[str]) -> dict[str, float]:
    """Return the numbers of a scrape with one of these names, by name and labels; ports are left out."""
    wanted = set(names)
    found: dict[str, Any] = {}
    for name, labels, value in _LINE.findall(text):
        if re.sub(r"_(bucket|sum|count)$", "", name) in wanted or name in wanted:
            labels = _PLACE.sub('listener="http://site"', labels)
            number = round(float(value), 3)
            found[f"{name}{{{labels}}}" if labels else name] = int(number) if number == int(number) else number
    return found


def _written(values: list[float | None]) -> list[str]:
    """Return numbers in promtool's form; a gone series is stale, as in Prometheus."""
    written = []
    for before, value in zip([None, *values], values):
        written.append(str(value) if value is not None else "_" if before is None else "stale")
    return written
