"""Patterns compiled at their first use."""

import re

import pytest

from aserve.core.patterns import lazy_pattern


def test_a_pattern_works_like_a_compiled_one():
    one = lazy_pattern(r"a(b*)", re.IGNORECASE)
    assert one.match("ABb!")[1] == "Bb"
    assert one.fullmatch("c") is None
    assert one.sub("-", "xab") == "x-"
    assert one.pattern == r"a(b*)"
    assert lazy_pattern(rb"\d+").findall(b"1 22") == [b"1", b"22"]


def test_compiled_once_and_not_before(monkeypatch):
    """Nothing is compiled before the first use; a used method is kept."""
    monkeypatch.setattr(re, "compile", lambda *args: pytest.fail("compiled too soon"))
    one = lazy_pattern(r"a")
    monkeypatch.undo()
    match = one.match
    assert one.match is match and match("a")
    assert not hasattr(one, "mach")
