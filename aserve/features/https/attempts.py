"""The kind of challenge for an order, in the first attempt and in the second.

Owns:     first_kind, second_kind.
Thread:   any; pure.
Not here: the answerable kinds (answers.py), the kinds offered by the authority (challenges.py), the time (facts.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .faults import may_help


def first_kind(kinds: Sequence[str], failures: int) -> str:
    """Return the kind for the first attempt after this number of failed orders: the better one, then each in turn."""
    return kinds[failures % len(kinds)]


def second_kind(kinds: Sequence[str], failures: int, result: Mapping[str, Any]) -> str | None:
    """Return the kind for another attempt at once, after the result of the first; None: there is none, and the order has ended."""
    # In that case the authority offers the other kind alone, so nothing was checked.
    is_untried = result.get("kind") == "no-challenge"
    may_succeed = is_untried or (may_help(result) and not failures)
    return first_kind(kinds, failures + 1) if may_succeed and len(kinds) > 1 else None
