"""What `aserve top` shows of a running server, as text: rates, what needs a look, tables that fit.

Owns:     Looks: the last answers to `status`, and what their differences say; the tables for a width.
Thread:   any; it knows no clock and no terminal.
Not here: asking, the screen, keys (top_screen.py), what is answered (processes/answers.py).

The columns are those of `aserve status` (docs/control.md), with requests for each second in place of all.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..processes.ask import is_silent, show_age, show_memory, show_open

Message = dict[str, Any]

# A worker counts once a second: over one second a rate would jump between none and twice as many.
RATE_SECONDS = 5.0
# Below it, two looks may have seen the same count.
LEAST_RATE_SECONDS = 0.5
OLD_SECONDS = 10  # of a request: a person is told
LATE_SECONDS = (
    3.0  # without an answer: a person is told. Guess: the server answers in milliseconds, and is asked each second.
)
WIDE = 112  # columns of a terminal, from which there is room for all that status shows. Tried at 80 and 120.


class Look(NamedTuple):
    """An answer to `status`."""

    at: float  # seconds of the clock of who asks
    server: Message
    workers: list[Message]


class Row(NamedTuple):
    """One line of a table."""

    slot: int  # of the worker that it is about
    cells: tuple[str, ...]
    needs_look: bool = False


class Table(NamedTuple):
    """Text whose columns have the widths that fit."""

    heads: tuple[str, ...]
    rows: list[Row]


class Line(NamedTuple):
    """A line of the head."""

    text: str
    is_bad: bool = False


class Looks:
    """The last answers of a server, of some seconds."""

    def __init__(self) -> None:
        self._looks: collections.deque[Look] = collections.deque()

    def add(self, at: float, answer: Sequence[Message]) -> None:
        """Take one more: the objects of an answer, which came at this time."""
        server, *workers = answer
        while self._looks and at - self._looks[0].at > RATE_SECONDS + 0.5:
            self._looks.popleft()
        self._looks.append(Look(at, server, [message["worker"] for message in workers]))

    @property
    def last(self) -> Look | None:
        """The latest."""
        return self._looks[-1] if self._looks else None

    def rate_of(self, worker: Message) -> float | None:
        """Return the requests per second of a worker of the last look; None: that cannot be said yet."""
        *earlier, last = self._looks
        if not earlier:
            return None
        since, before = last.at - worker["seconds"], 0  # one that nobody has seen before has begun since then
        for look in earlier:
            found = [other for other in look.workers if _identity(other) == _identity(worker)]
            if found:
                since, before = _counted_at(look, found[0]), found[0]["requests"]
                break
        seconds = _counted_at(last, worker) - since
        return max(worker["requests"] - before, 0) / seconds if seconds >= LEAST_RATE_SECONDS else None

    def rate(self) -> float | None:
        """Return the requests per second of all workers. What one has answered that has ended meanwhile is not in it."""
        rates = [self.rate_of(worker) for worker in self._looks[-1].workers] if self._looks else []
        known = [rate for rate in rates if rate is not None]
        return sum(known) if known else None


def _identity(worker: Message) -> tuple[int, int, int]:
    return worker["slot"], worker["pid"], worker["generation"]


def _counted_at(look: Look, worker: Message) -> float:
    """Return when a worker had written its numbers."""
    return look.at - (worker["silent_seconds"] or 0.0)


# The head


def head_of(looks: Looks, now: float, path: str, failure: str | None) -> list[Line]:
    """Return what is said of the server as a whole; `failure`: why it was not to be had when it was asked last."""
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
    threads = server.get("threads")  # code of before, which still serves, may not say it
    yield f"{busy:.4g} of {threads * len(serving)} threads busy" if threads else f"{busy:.4g} threads busy"


def show_rate(rate: float | None) -> str:
    """Return a rate as a person reads it: "0", "0.4", "12", "-"."""
    if rate is None:
        return "-"
    return f"{rate:.1f}" if 0.05 <= rate < 9.95 else f"{rate:.0f}"


# The tables


def needs_of(worker: Message, threads: int | None) -> list[str]:
    """Return why a worker needs a look, if it does; the worst first. `threads`: how many it has; None: not known."""
    reasons = []
    if is_silent(worker):
        reasons.append("loop hangs")
    busy: Any = worker.get("threads_busy_now", worker["threads_busy"])  # code of before has this moment's in the other
    if worker["waiting"] and busy >= max(threads or 0, 1):
        reasons.append("no thread free")
    if worker.get("threads_stuck"):  # code of before does not say it
        reasons.append("stuck threads")
    if worker["at"] and worker["at"][0][0] > OLD_SECONDS:
        reasons.append("old request")
    return reasons


def workers_table(looks: Looks, width: int) -> Table:
    """Return the table of workers for so many columns of a terminal."""
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
        rows.append(Row(worker["slot"], tuple(cells[column] for column in columns), bool(needs)))
    return _fit(columns, rows, width)


def requests_table(looks: Looks, width: int) -> Table:
    """Return the table of the oldest requests of all workers, for so many columns of a terminal."""
    found = sorted(
        (
            (at[0], worker["slot"], at[1])
            for worker in (looks.last.workers if looks.last else ())
            for at in worker["at"]
        ),
        key=lambda entry: -entry[0],
    )
    rows = [
        Row(slot, (str(slot or "-"), _show_seconds(seconds), text), seconds > OLD_SECONDS)
        for seconds, slot, text in found
    ]
    return _fit(["worker", "for", "oldest requests"], rows, width)


def slow_table(looks: Looks, width: int) -> Table:
    """Return the table of the last slow requests (--slow-request) of all workers, the newest first, for so many columns of a terminal."""
    last = looks.last
    found = sorted(last.server.get("slow", []) if last is not None else [], key=lambda each: -each["at"])
    rows = [
        Row(
            each["worker"] or 0,
            (
                str(each["worker"] or "-"),
                _show_seconds(each["seconds"]),
                _show_seconds(each["queue_seconds"] or 0.0),
                "runs" if each["end"] is None else f"{each['end'].replace('_', ' ')} {each['status'] or ''}".rstrip(),
                each["request"],
                each.get("where", ""),  # code of before does not say it
            ),
            each["end"] is None,
        )
        for each in found
    ]
    return _fit(["worker", "took", "waited", "end", "slow requests", "where"], rows, width)


# Columns that stand to the right, and those that give way where it is narrow, with the least that they keep.
_NUMBERS = {"pid", "for", "took", "waited", "req/s", "running", "waiting", "busy", "open", "memory"}
_GIVE_WAY = {"oldest request": 14, "needs a look": 12, "oldest requests": 20, "slow requests": 20, "where": 20}


def _fit(columns: Sequence[str], rows: Sequence[Row], width: int) -> Table:
    """Return rows with each cell as wide as its column, and a space between; where there is no room, some are cut."""
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
    """Return a text that fits, with a sign where its end is missing."""
    return text if len(text) <= width else text[: width - 1] + "…"


def printable(text: str) -> str:
    """Return what a terminal does not obey: only letters, signs and ends of lines."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text.expandtabs(4))
