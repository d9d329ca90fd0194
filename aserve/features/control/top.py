"""The texts of `aserve top` about a running server: rates, warnings, tables that fit the terminal.

Owns:     Looks: the last answers to `status`, and the rates between them; the tables for a width.
Thread:   any; it uses no clock and no terminal.
Not here: asking, the screen, keys (top_screen.py), the answers (processes/answers.py).

The columns are those of `aserve status` (docs/control.md), with requests per second in place of their number.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ...core.named_tuple import NamedTuple
from .ask import is_silent, show_age, show_memory, show_open

Message = dict[str, Any]

# A worker writes its counts once a second: over one second a rate would jump between zero and twice its value.
RATE_SECONDS = 5.0
# Below this, two looks may see the same count.
LEAST_RATE_SECONDS = 0.5
OLD_SECONDS = 10  # age of a request, from which on it is highlighted
LATE_SECONDS = (
    3.0  # without an answer, until that is shown. Guess: the server answers in milliseconds, and is asked each second.
)
# Columns of a terminal, from which on all columns of status fit; and all but two. Tried at 60, 80 and 120.
WIDE, MEDIUM = 112, 72


class Look(NamedTuple):
    """An answer to `status`."""

    at: float  # seconds, by the caller's clock
    server: Message
    workers: list[Message]


class TopRow(NamedTuple):
    """One line of a table."""

    slot: int  # of the worker
    cells: tuple[str, ...]
    needs_look: bool = False


class Table(NamedTuple):
    """A table as text, with columns that fit."""

    heads: tuple[str, ...]
    rows: list[TopRow]


class Line(NamedTuple):
    """A line of the screen's head."""

    text: str
    is_bad: bool = False


class Looks:
    """The answers of a server in the last few seconds."""

    def __init__(self) -> None:
        self._looks: collections.deque[Look] = collections.deque()

    def add(self, at: float, answer: Sequence[Message]) -> None:
        """Add the objects of an answer, which came at this time."""
        server, *workers = answer
        while self._looks and at - self._looks[0].at > RATE_SECONDS + 0.5:
            self._looks.popleft()
        self._looks.append(Look(at, server, [message["worker"] for message in workers]))

    @property
    def last(self) -> Look | None:
        """Return the latest look."""
        return self._looks[-1] if self._looks else None

    def rate_of(self, worker: Message) -> float | None:
        """Return the requests per second of a worker of the last look; None: not known yet."""
        *earlier, last = self._looks
        if not earlier:
            return None
        since, before = last.at - worker["seconds"], 0  # a new worker has begun since the last look
        for look in earlier:
            found = [other for other in look.workers if _identity(other) == _identity(worker)]
            if found:
                since, before = _counted_at(look, found[0]), found[0]["requests"]
                break
        seconds = _counted_at(last, worker) - since
        return max(worker["requests"] - before, 0) / seconds if seconds >= LEAST_RATE_SECONDS else None

    def rate(self) -> float | None:
        """Return the requests per second of all workers, without those of workers that have ended meanwhile."""
        rates = [self.rate_of(worker) for worker in self._looks[-1].workers] if self._looks else []
        known = [rate for rate in rates if rate is not None]
        return sum(known) if known else None


def _identity(worker: Message) -> tuple[int, int, int]:
    return worker["slot"], worker["pid"], worker["generation"]


def _counted_at(look: Look, worker: Message) -> float:
    """Return when a worker wrote its numbers."""
    return look.at - (worker["silent_seconds"] or 0.0)


# The head


def head_of(looks: Looks, now: float, path: str, failure: str | None) -> list[Line]:
    """Return the lines about the server as a whole; `failure`: why the last question failed."""
    last = looks.last
    trouble = []
    if last is None:
        trouble = [Line(f"{failure}; asking again" if failure else f"asking at {path}", failure is not None)]
    elif failure or now - last.at > LATE_SECONDS:
        text = f"no answer for {show_age(now - last.at)}, asking again; what you see is from before"
        trouble = [Line(f"{text} ({failure})" if failure else text, True)]
    if last is None:
        return trouble
    server = last.server
    is_short = server["workers_ready"] < server["workers_wanted"]
    return [
        Line(
            f"aserve {server['version']} on {server['python']}, pid {server['pid']}, running for {show_age(server['seconds'])}"
        ),
        Line(server["text"], is_short or server["text"].startswith("degraded")),
        Line(", ".join(_totals(looks, last)), is_short),
        *trouble,
    ]


def _totals(looks: Looks, last: Look) -> Iterator[str]:
    server, serving = last.server, [worker for worker in last.workers if worker["state"] in ("ready", "draining")]
    yield f"{show_rate(looks.rate())} requests/s"
    if server["workers_wanted"]:
        yield f"{server['workers_ready']} of {server['workers_wanted']} workers ready"
    busy = sum(worker["threads_busy"] for worker in serving)
    threads = server.get("threads")  # missing from an older version
    yield f"{busy:.4g} of {threads * len(serving)} threads busy" if threads else f"{busy:.4g} threads busy"


def show_rate(rate: float | None) -> str:
    """Return a rate as text: "0", "0.4", "12", "-"."""
    if rate is None:
        return "-"
    return f"{rate:.1f}" if 0.05 <= rate < 9.95 else f"{rate:.0f}"


# The tables


def needs_of(worker: Message, threads: int | None) -> list[str]:
    """Return a worker's warnings, the worst first. `threads`: its number of threads; None: not known."""
    reasons = []
    if is_silent(worker):
        reasons.append("loop hangs")
    busy: Any = worker.get("threads_busy_now", worker["threads_busy"])  # an older version has only the latter
    if worker["waiting"] and busy >= max(threads or 0, 1):
        reasons.append("no thread free")
    if worker.get("threads_stuck"):  # missing from an older version
        reasons.append("stuck threads")
    if worker["at"] and worker["at"][0][0] > OLD_SECONDS:
        reasons.append("old request")
    return reasons


def workers_table(looks: Looks, width: int) -> Table:
    """Return the table of workers for a width in columns."""
    columns = ["worker", "state", "waiting", "busy", "memory"]
    if width >= MEDIUM:
        columns = ["worker", "pid", "state", "req/s", "running", "waiting", "busy", "open", "memory"]
    if width >= WIDE:
        columns[3:3] = ["for"]
        columns.append("oldest request")
    columns.append("needs a look")
    last, rows = looks.last, []
    for worker in last.workers if last is not None else ():
        needs = needs_of(worker, last.server.get("threads") if last is not None else None)
        at = worker["at"][0] if worker["at"] else None
        cells = {
            "worker": str(worker["slot"] or "-"),
            "pid": str(worker["pid"] or "-"),
            "state": f"silent {worker['silent_seconds']:.0f} s" if is_silent(worker) else worker["state"],
            "for": show_age(worker["seconds"]),
            "req/s": show_rate(looks.rate_of(worker)),
            "running": str(worker["running"]),
            "waiting": str(worker["waiting"]),
            "busy": f"{worker['threads_busy']:.4g}",
            "open": show_open(worker) if width >= WIDE else str(worker["connections"]),
            "memory": show_memory(worker),
            "oldest request": f"{_show_seconds(at[0])} {at[1]}" if at else "-",
            "needs a look": "; ".join(needs),
        }
        rows.append(TopRow(worker["slot"], tuple(cells[column] for column in columns), bool(needs)))
    return _fit(columns, rows, width)


def requests_table(looks: Looks, width: int) -> Table:
    """Return the table of the oldest requests of all workers, for a width in columns."""
    found = sorted(
        (
            (at[0], worker["slot"], at[1])
            for worker in (looks.last.workers if looks.last else ())
            for at in worker["at"]
        ),
        key=lambda entry: -entry[0],
    )
    rows = [
        TopRow(slot, (str(slot or "-"), _show_seconds(seconds), text), seconds > OLD_SECONDS)
        for seconds, slot, text in found
    ]
    return _fit(["worker", "for", "oldest requests"], rows, width)


def slow_table(looks: Looks, width: int) -> Table:
    """Return the table of the last slow requests (--slow-request) of all workers, the newest first, for a width in columns."""
    last = looks.last
    found = sorted(last.server.get("slow", []) if last is not None else [], key=lambda each: -each["at"])
    rows = [
        TopRow(
            each["worker"] or 0,
            (
                str(each["worker"] or "-"),
                _show_seconds(each["seconds"]),
                _show_seconds(each["queue_seconds"] or 0.0),
                "runs" if each["end"] is None else f"{each['end'].replace('_', ' ')} {each['status'] or ''}".rstrip(),
                each["request"],
                _place_of(each.get("where", "")),  # missing from an older version
            ),
            each["end"] is None,
        )
        for each in found
    ]
    return _fit(["worker", "took", "waited", "end", "slow requests", "where"], rows, width)


def _place_of(where: str) -> str:
    """Return `app.py:5 checkout` of where_of's line, of which a narrow terminal has room for the beginning of the path alone."""
    return re.sub(r'File "(?:.*/)?(.*)", line (\d+), in ', r"\1:\2 ", where)


# Columns aligned to the right; and columns that shrink on a narrow terminal, with their least width.
_NUMBERS = {"pid", "for", "took", "waited", "req/s", "running", "waiting", "busy", "open", "memory"}
_GIVE_WAY = {"oldest request": 14, "needs a look": 12, "oldest requests": 20, "slow requests": 20, "where": 20}


def _fit(columns: Sequence[str], rows: Sequence[TopRow], width: int) -> Table:
    """Return rows with aligned cells; cut some if the width does not suffice."""
    lines = [tuple(columns), *(row.cells for row in rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines)]
    for index, column in enumerate(columns):
        excess = sum(widths) + len(widths) - 1 - width
        if excess > 0 and column in _GIVE_WAY:
            widths[index] = max(widths[index] - excess, _GIVE_WAY[column])
    padded = [
        tuple(
            text.rjust(size) if column in _NUMBERS else cut(text, size).ljust(size)
            for column, text, size in zip(columns, cells, widths)
        )
        for cells in lines
    ]
    return Table(padded[0], [row._replace(cells=cells) for row, cells in zip(rows, padded[1:])])


def _show_seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 100 else show_age(seconds)


def cut(text: str, width: int) -> str:
    """Cut a text to a width, with an ellipsis at its end."""
    return text if len(text) <= width else text[: width - 1] + "…"


def printable(text: str) -> str:
    """Replace characters that control a terminal; keep printable ones and newlines."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text.expandtabs(4))
