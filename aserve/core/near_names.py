"""Suggestions for a mistyped name.

Owns:     near_names.
Thread:   any.
Not here: the sentences around the names, in the callers.
"""

from __future__ import annotations

from collections.abc import Iterable

LIKENESS = 0.6  # difflib's own


def near_names(name: str, known: Iterable[str], most: int = 1, likeness: float = LIKENESS) -> list[str]:
    """Return up to `most` known names like this one, the nearest first; `likeness`: 0 to 1, a ratio of difflib's."""
    from difflib import get_close_matches  # 0.1 MB of each process, needed only after a typing error

    return get_close_matches(name, list(known), most, likeness)
