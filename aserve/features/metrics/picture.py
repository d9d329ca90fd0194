"""The state of a server for the status page: an event in JSON.

Owns:     Picture: the content of an event; hiding secrets in it.
Thread:   that of its owner: a supervisor's, or an event loop's.
Not here: the source of the numbers (history.py, lifecycle/status.py, processes/monitoring/status.py), its readers (scrapes.py), its display (page.html).

An event is the output of `aserve status --json`, with the keys of History.describe, "warnings" and "settings".
The page has more readers than the control socket: its requests have no query, which may contain passwords and tokens, not even with
--show-queries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ...core.exchange import without_query
from ...lifecycle.advice import add_warnings
from ...settings import EngineSettings, Needs
from .history import History
from .stats import render_stats
from .table import PLACES, WORDS

_SPOOLS = slice(PLACES["aserve_spool_files"], PLACES["aserve_spool_files"] + 2)

MAX_SLOW = 10
REPORTED = Needs(("slow_request_seconds",))  # without which there are no slow requests to show

WordsBySlot = Mapping[int, Sequence[int]]


class Picture:
    """Makes the events of a server."""

    def __init__(
        self,
        config: Callable[[], EngineSettings],
        status: Callable[[], dict[str, Any]],
        words: Callable[[], WordsBySlot],
    ) -> None:
        """`status`: as for `aserve status --json`; `words`: the counts, by slot."""
        self._config = config
        self._status = status
        self._words = words
        self.history = History()
        self._last: WordsBySlot = {}

    def on_second(self) -> None:
        """Take a sample every second even without readers, so that the first reader gets the last minute."""
        self._last = self._words()
        self.history.add([sum(column) for column in zip([0] * WORDS, *self._last.values())])

    def counted(self) -> tuple[dict[str, Any], dict[int, int]]:
        """Return the counts that warnings need: the history, and temporary files by slot."""
        if not self._last:
            self.on_second()
        return self.history.describe(), {slot: sum(words[_SPOOLS]) for slot, words in self._last.items()}

    def event(self) -> bytes:
        """Return an event, as JSON on one line."""
        (history, spool_files), config = self.counted(), self._config()
        status = {**self._status(), **history}
        status["workers"] = [
            {**worker, "at": [[seconds, without_query(text)] for seconds, text in worker["at"]]}
            for worker in status["workers"]
        ]
        status = add_warnings(status, config, history, spool_files)
        status["settings"] = changed_settings(config)
        status["slow"] = describe_slow(status["slow"]) if config.has(REPORTED) else None
        return json.dumps(status, separators=(",", ":")).encode()

    def stats(self) -> bytes:
        """Return the state in the JSON of uWSGI's stats server."""
        return render_stats(self._status(), self._words())


def describe_slow(slow: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the last few slow requests, the newest first, with the app's last call of a stack: all would make a large event."""
    return [
        {
            **{name: each[name] for name in ("at", "worker", "end", "status")},
            "seconds": round(each["seconds"], 1),
            "queue_seconds": round(each["queue_seconds"] or 0.0, 3),
            "request": without_query(each["request"]),
            "where": each.get("where", ""),  # missing from an older version's worker
        }
        for each in sorted(slow, key=lambda each: each["at"], reverse=True)[:MAX_SLOW]
    ]


def changed_settings(config: EngineSettings) -> list[tuple[str, str]]:
    """Return the flags of settings that differ from their defaults, and their values without secrets."""
    return [
        (setting.flag, setting.show(value))
        for setting in config.rows()
        if (value := getattr(config, setting.name)) != setting.default
    ]
