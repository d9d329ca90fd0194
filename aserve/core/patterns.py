"""Regular expressions that most processes never use: each is compiled when it is first used.

Owns:     lazy_pattern.
Thread:   any: two threads may compile one at the same time, and get the same.
Not here: patterns that every process uses: those are re.compile's.

Compiling one takes some 0.1 ms, and the package has over fifty: that took 5 % of the command's start (CPython 3.11, 2026-11-26).
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Pattern:
    """In place of a re.Pattern: whatever is asked for is the compiled one's, and stays here as an attribute."""

    def __init__(self, text: Any, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found


def lazy_pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return what re.compile would return, but not yet compiled; a mistake in `text` shows at its first use."""
    return cast("re.Pattern[AnyStr]", _Pattern(text, flags))
