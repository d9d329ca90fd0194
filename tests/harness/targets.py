"""Lines for a target of a log."""

from collections.abc import Sequence
from typing import Any


def write_lines(target: Any, lines: Sequence[str]) -> int:
    """Write lines; return how many were written."""
    lost: int = target.write("".join(lines))
    return len(lines) - lost
