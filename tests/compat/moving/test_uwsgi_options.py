"""The options of uWSGI's command line: the data."""

from __future__ import annotations

from aserve.compat.moving.uwsgi_options import LETTERS, OPTIONAL, OTHERS, SWITCHES
from aserve.compat.moving.uwsgi_table import TABLE


def test_each_is_of_one_kind():
    """Without a value, with one, or either; and those with a row are not named twice."""
    assert not (SWITCHES & OPTIONAL or SWITCHES & OTHERS or OPTIONAL & OTHERS)
    assert not [name for name in OTHERS if TABLE.find(name) is not None]
    assert {"master", "vacuum", "lazy-apps", "enable-threads", "thunder-lock"} <= SWITCHES
    assert not SWITCHES & {"http", "module", "processes", "ini", "harakiri", "static-map"}


def test_each_letter_is_an_option():
    """-p, -s, -w and their like."""
    assert all(name in SWITCHES | OPTIONAL | OTHERS or TABLE.find(name) for name in LETTERS.values())
    assert [LETTERS[letter] for letter in "spwMH"] == ["socket", "processes", "module", "master", "virtualenv"]
