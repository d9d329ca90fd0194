"""Files that ask for a reload by a change (--touch-reload).

Owns:     TouchedFiles: the states at the last look; look_at, for further files, too.
Thread:   the supervisor's only one.
Not here: reloading (events.py).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Optional

Look = Optional[tuple[int, int, int]]


class TouchedFiles:
    """Some files, checked from time to time by a stat() each."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._seen: dict[str, Look] = {}
        self.follow(paths)

    def follow(self, paths: Sequence[str]) -> None:
        """Look at these files from now on; the last state of a file followed before is kept."""
        before = self._seen
        self._seen = {path: before[path] if path in before else look_at(path) for path in map(os.path.abspath, paths)}

    def find_changed(self) -> str:
        """Return a file changed or new since the last time; "": none."""
        changed = ""
        for path, before in self._seen.items():
            now = self._seen[path] = look_at(path)
            if now is not None and now != before:
                changed = path
        return changed


def look_at(path: str) -> Look:
    """Return facts that change when a file is touched, written or replaced; None: no such file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
