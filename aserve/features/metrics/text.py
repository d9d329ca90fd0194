"""Metrics as text, for Prometheus.

Owns:     the text format; Samples, its content.
Thread:   any; pure.
Spec:     Prometheus, "Text-based format", version 0.0.4.
Not here: the numbers.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...settings import VERSION
from . import table

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = str  # as in the text, without braces


class Samples:
    """Numbers by metric and labels, in the order of their addition."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def add(self, name: str, value: float, labels: Labels = "") -> None:
        """Add one number."""
        self._lines.setdefault(name, []).append(_line(name, labels, value))

    def add_process(self, started_at: float) -> None:
        """Add the program's version and its start time: seconds since 1970."""
        names = {
            "version": VERSION, "implementation": platform.python_implementation(), "python": platform.python_version(),
        }  # fmt: skip
        self.add(table.BUILD, 1, ",".join(label(name, value) for name, value in names.items()))
        self.add(table.START_TIME, started_at)

    def add_listening(self, listening: Iterable[Mapping[str, Any]]) -> None:
        """Add the number of clients that wait in the kernel; see connections/listen_queue.py."""
        for each in listening:
            self.add(table.LISTEN_QUEUE, each["queued"], label("listener", each["url"]))
            self.add(table.LISTEN_LIMIT, each["limit"], label("listener", each["url"]))

    def add_workers(self, words_by_slot: Mapping[int, Sequence[int]]) -> None:
        """Add all counts of processes, from the words of each slot."""
        everybody = [sum(column) for column in zip(*words_by_slot.values())]
        for metric in table.COUNTED:
            for slot, words in words_by_slot.items() if metric.by_worker else [(0, everybody)] if everybody else []:
                place = table.PLACES[metric.name]
                self._add_cells(metric, words[place : place + metric.width], worker(slot) if metric.by_worker else "")

    def _add_cells(self, metric: table.Metric, words: Sequence[int], labels: Labels) -> None:
        if metric.kind == table.HISTOGRAM:
            self._lines[metric.name] = _histogram_lines(metric, words)
            return
        for cell, count in zip(metric.cells, words):
            self.add(metric.name, count * metric.unit, ",".join(filter(None, [labels, cell])))

    def encode(self) -> bytes:
        """Return the text."""
        lines = []
        for name, samples in self._lines.items():
            metric = table.METRICS[name]
            lines += [f"# HELP {name} {metric.help}", f"# TYPE {name} {metric.kind}", *samples]
        return "\n".join([*lines, ""]).encode()


def worker(slot: int) -> Labels:
    """Return the label of a worker."""
    return f'worker="{slot}"'


def label(name: str, value: str) -> Labels:
    """Return a label with any value."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{name}="{escaped}"'


def _histogram_lines(metric: table.Metric, words: Sequence[int]) -> list[str]:
    lines, count = [], 0
    for bound, word in zip((*map(_number, table.BOUNDS), "+Inf"), words[: table.BUCKETS + 1]):
        count += word
        lines.append(_line(f"{metric.name}_bucket", f'le="{bound}"', count))
    lines.append(_line(f"{metric.name}_sum", "", words[table.SUM] * metric.unit))
    lines.append(_line(f"{metric.name}_count", "", count))
    return lines


def _line(name: str, labels: Labels, value: float) -> str:
    return f"{name}{{{labels}}} {_number(value)}" if labels else f"{name} {_number(value)}"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(round(value, 6))
