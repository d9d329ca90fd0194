"""Files whose change asks for a reload (--touch-reload).

Owns:     TouchedFiles: their state at the last look; look_at, for other files, too.
Thread:   the supervisor's only one.
Not here: reloading (events.py).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Optional

Look = Optional[tuple[int, int, int]]


class TouchedFiles:
    """Some files that are checked from time to time, by one stat() each."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._seen: dict[str, Look] = {}
        self.follow(paths)

    def follow(self, paths: Sequence[str]) -> None:
        """Look at these files from now on; the last state of a file that was followed before is kept."""
        before = self._seen
        self._seen = {path: before[path] if path in before else look_at(path) for path in map(os.path.abspath, paths)}

    def find_changed(self) -> str:
        """Return a file that has changed or appeared since the last time; "": none."""
        changed = ""
        for path, before in self._seen.items():
            now = self._seen[path] = look_at(path)
            if now is not None and now != before:
                changed = path
        return changed


def look_at(path: str) -> Look:
    """Return facts that change when a file is touched, written or replaced; None: there is no such file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
