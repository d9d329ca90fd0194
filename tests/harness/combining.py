"""Combinations of a test: all in the whole suite, each value once in the brief run."""

from collections.abc import Sequence
from typing import Any

import pytest


def marked(row: Any, mark: pytest.MarkDecorator) -> Any:
    """Return a row of `parametrize` with one mark more: a value, a tuple of values, or a pytest.param."""
    if hasattr(row, "marks"):
        return pytest.param(*row.values, marks=(*row.marks, mark), id=row.id)
    return pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=mark)


def long(row: Any) -> Any:
    """Return a row of `parametrize` for the whole suite alone: a value, or a tuple of values."""
    return marked(row, pytest.mark.long)


def each_once(firsts: Sequence[Any], seconds: Sequence[Any]) -> list[Any]:
    """Return rows of `parametrize`, all pairs; in the brief run each of `seconds`, the longer list, has one of `firsts` in turn."""
    return [
        pytest.param(first, second, marks=() if number % len(firsts) == place else pytest.mark.long)
        for place, first in enumerate(firsts)
        for number, second in enumerate(seconds)
    ]
