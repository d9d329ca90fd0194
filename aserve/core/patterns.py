"""Regular expressions unused by most processes: each is compiled at the first use.

Owns:     lazy_pattern.
Thread:   any: two threads may compile one at the same time, with the same result.
Not here: patterns used by every process: see re.compile.

To compile one takes some 0.1 ms, and the package has over fifty: 5 % of the command's start (CPython 3.11, 2026-11-26).
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Pattern:
    """In place of a re.Pattern: each attribute comes from the compiled pattern, and stays here."""

    def __init__(self, text: Any, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found


def lazy_pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern as re.compile does, but not yet compiled; a mistake in `text` shows at the first use."""
    return cast("re.Pattern[AnyStr]", _Pattern(text, flags))
