"""The options of uWSGI's command line: the data."""

from aserve.compat.moving.uwsgi_options import LETTERS, OPTIONAL, SWITCHES
from aserve.compat.moving.uwsgi_table import TABLE


def test_each_is_of_one_kind():
    """Each is without a value, or with a required or an optional one; and each has a row."""
    assert not SWITCHES & OPTIONAL
    assert not [name for name in SWITCHES | OPTIONAL if TABLE.find(name) is None]
    assert {"master", "vacuum", "lazy-apps", "enable-threads", "thunder-lock"} <= SWITCHES
    assert not SWITCHES & {"http", "module", "processes", "ini", "harakiri", "static-map"}


def test_each_letter_is_an_option():
    """-p, -s, -w and their like."""
    assert all(map(TABLE.find, LETTERS.values()))
    assert [LETTERS[letter] for letter in "spwMH"] == ["socket", "processes", "module", "master", "virtualenv"]
