"""The name that somebody may have meant."""

import pytest

from aserve.core.near_names import near_names


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("treads", ["threads", "workers"], ["threads"]),
        ("work", ["threads", "bind"], []),
        ("aaa", {"aab": 1, "aac": 2}, ["aac"]),  # one, by default
    ],
)
def test_near_names_are_found(name, known, found):
    assert near_names(name, known) == found


def test_more_and_nearer():
    """How many, and how near, is the caller's to say."""
    assert sorted(near_names("aa", ["ab", "ac", "xx"], 3, 0.5)) == ["ab", "ac"]
    assert near_names("aa", ["ab", "ac"], 3, 0.9) == []
