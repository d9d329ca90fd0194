"""The part of a status about each name: the end of the certificate, and the end of the last order.

Owns:     describe; StatusPart, the part in a supervisor.
Thread:   the owner's: a supervisor's, or an event loop's. Two small files are read for each name.
Not here: showing the part (features/control/ask.py, features/metrics/page.html), the warning (settings.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...lifecycle.program import Program
from ...lifecycle.supervision import Supervision
from .folder import Folder
from .issued import Issued
from .notes import Notes
from .settings import HTTPSSettings, folder_of, show_time

FACT = "certificates"


def describe(folder: Folder, names: Iterable[str]) -> list[dict[str, Any]]:
    """
    Return an object for each name, for JSON.

    "until" and "renewed_on" are null while there is a placeholder; "fault" says why the last order failed, "": no failure; "again": the time of the
    next try.
    """
    found = []
    for name in names:
        notes, issued = Notes.of(folder, name), Issued.of(folder, name)
        shown = issued if notes.has_certificate else None
        found.append(
            {
                "name": name,
                "until": show_time(shown.until) if shown is not None else None,
                "renewed_on": show_time(shown.renew_at) if shown is not None else None,
                "fault": notes.fault,
                "again": show_time(notes.again) if notes.again else None,
            }
        )
    return found


class StatusPart(Supervision):
    """The certificates in a supervisor's status."""

    def __init__(self, config: HTTPSSettings) -> None:
        self._config = config

    def programs(self, config: Any) -> Sequence[Program]:
        """Note the settings of a reload; there are no programs."""
        self._config = config
        return ()

    def status(self) -> Mapping[str, Any]:
        """See Supervision."""
        return {FACT: describe(Folder(folder_of(self._config)), self._config.https)}
