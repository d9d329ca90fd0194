"""The part of `import uwsgi` in a supervisor: it keeps the counts of workers that have ended.

Owns:     Counts.
Thread:   the supervisor's only one.
Not here: the counts (tallies.py).
"""

from __future__ import annotations

from ...lifecycle.supervision import Supervision, WorkerEnd
from . import memory


class Counts(Supervision):
    """The counts of all workers."""

    def on_end(self, end: WorkerEnd) -> None:
        """See Supervision."""
        memory.shared().tallies.close(end.page_number, end.pid)
