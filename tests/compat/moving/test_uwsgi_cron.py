"""uWSGI's cron lines become --cron."""

import time

import pytest

from aserve.compat.moving.draft import Draft, Given
from aserve.compat.moving.uwsgi_cron import add_cron
from aserve.compat.uwsgi_api.schedules import checked_cron
from aserve.settings.crontab import parse_times

pytestmark = pytest.mark.long_on_pypy

UNIQUE = "it is not begun once more while it runs"


def added(key, value, seconds=0):
    """Return the outcome of one line: the settings, and the notes."""
    draft = Draft("a.ini")
    add_cron(draft, Given(key, value, "a.ini:1"), seconds)
    return draft.settings.get("cron", []), [note.text.partition(",")[0] for note in draft.notes]


@pytest.mark.parametrize(
    ("key", "value", "cron", "notes"),
    [
        ("cron", "59 2 -1 -1 -1 ./manage.py x", "59 2 * * * ./manage.py x", [UNIQUE]),
        ("unique-cron", "-59 -1 -1 -1 -1  a && b", "*/59 * * * * a && b", []),
        ("unique-cron", "0 * -1 -1 -1 a", "0 * * * * a", []),
        ("unique-cron", "0 0 -5 -2 -1 a", "0 0 5-31/5 2-12/2 * a", []),
        ("cron2", "minute=-10,week=1,unique=1 a 'b c'", "*/10 * * * 1 a 'b c'", []),
        ("cron2", "hour=3,unique=0 a", "* 3 * * * a", [UNIQUE]),
        ("cron2", "unique=1,legion=x a", "* * * * * a", ["these have no effect here: legion"]),
        ("cron2", "unique=1,harakiri=5 a b", "* * * * * exec timeout -s KILL 5 /bin/sh -c 'a b'", []),
    ],
)
def test_lines_become_lines_of_crontab(key, value, cron, notes):
    assert added(key, value) == ([cron], notes)


def test_the_time_limit_of_all():
    """The limit is for each line without its own."""
    assert added("cron2", "unique=1 a", 9)[0] == ["* * * * * exec timeout -s KILL 9 /bin/sh -c a"]
    assert added("cron2", "unique=1,harakiri=5 a", 9)[0] == ["* * * * * exec timeout -s KILL 5 /bin/sh -c a"]


def test_what_cannot_be_said():
    """Such a line is told, and has no effect."""
    assert added("cron", "0 0 -5 -1 3 a") == (
        [],
        ["it has no effect here: crontab(5) cannot say each Nth day that is also this day of the week"],
    )


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("cron", "59 2 -1 -1 ./manage.py x", "not five numbers and a command"),
        ("cron", "59 2 -1 -1 -1 ", "not five numbers|no command"),
        ("cron2", "minute=1", "there is no command"),
        ("cron2", "minute=x a", "'x' is not a whole number"),
        ("cron", "60 -1 -1 -1 -1 a", "60 is no minute"),
        ("cron", "0 0 0 -1 -1 a", "0 is no day"),
    ],
)
def test_what_is_none(key, value, why):
    with pytest.raises(ValueError, match=why):
        added(key, value)


@pytest.mark.parametrize(
    "numbers", [(-1, -1, -1, -1, -1), (-7, -5, -1, -3, -2), (5, 0, -4, -1, -1), (0, 0, 13, -1, 5), (0, 3, -1, 2, 7)]
)
def test_the_same_minutes(numbers):
    """The minutes are those of uwsgi.add_cron with the same numbers: each hour and some minutes of two years are looked at."""
    (line,), _ = added("unique-cron", " ".join(map(str, numbers)) + " a")
    ours, theirs = parse_times(line[: -len(" a")]), checked_cron(*numbers)
    for minute in range(0, 2 * 366 * 1440, 35):
        moment = time.gmtime(1_767_225_600 + minute * 60)
        assert ours.names(moment) == theirs.names(moment), moment
