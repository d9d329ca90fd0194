"""The five fields of crontab(5), and the clock."""

import time

import pytest

from aserve.settings import crontab
from aserve.settings.crontab import last_due, parse_times


def moment(text):
    """Return a minute: "2026-03-08 02:59"."""
    return time.strptime(text, "%Y-%m-%d %H:%M")


@pytest.mark.parametrize(
    ("fields", "named", "others"),
    [
        ("* * * * *", ["2026-03-08 02:59"], []),
        ("0 3 * * *", ["2026-03-08 03:00"], ["2026-03-08 03:01", "2026-03-08 02:00"]),
        ("*/20 * * * *", ["2026-03-08 03:00", "2026-03-08 03:40"], ["2026-03-08 03:59"]),
        ("5/20 * * * *", ["2026-03-08 03:05", "2026-03-08 03:45"], ["2026-03-08 03:20"]),
        ("0 9-17/4 * * *", ["2026-03-08 09:00", "2026-03-08 17:00"], ["2026-03-08 11:00", "2026-03-08 21:00"]),
        ("0 0 1,15 * *", ["2026-03-01 00:00", "2026-03-15 00:00"], ["2026-03-08 00:00"]),
        ("0 0 * 3-4 *", ["2026-04-08 00:00"], ["2026-05-08 00:00"]),
        ("0 0 * * 0", ["2026-03-08 00:00"], ["2026-03-09 00:00"]),
        ("0 0 * * 7", ["2026-03-08 00:00"], ["2026-03-09 00:00"]),
        ("0 0 * * 1-5", ["2026-03-09 00:00"], ["2026-03-08 00:00"]),
        ("0 0 13 * 5", ["2026-03-13 00:00", "2026-03-20 00:00", "2026-04-13 00:00"], ["2026-03-21 00:00"]),
        ("0 0 */2 * 5", ["2026-03-13 00:00"], ["2026-03-20 00:00", "2026-03-15 00:00"]),
    ],
)
def test_times_name_the_minutes_due(fields, named, others):
    """A day of the month or of the week will do, unless either begins with *."""
    times = parse_times(fields)
    assert [text for text in named + others if times.names(moment(text))] == named


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ("* * * *", "has not the five fields"),
        ("60 * * * *", "'60' is no minute: 0 to 59"),
        ("* 24 * * *", "'24' is no hour: 0 to 23"),
        ("* * 0 * *", "'0' is no day of the month: 1 to 31"),
        ("* * * 13 *", "'13' is no month: 1 to 12"),
        ("* * * * 8", "'8' is no day of the week: 0 to 7"),
        ("5-1 * * * *", "'5-1' is no minute"),
        ("*/0 * * * *", "'[*]/0' is no minute"),
        ("1, * * * *", "'' is no minute: a number, "),
        ("-5 * * * *", "'-5' is no minute: a number, "),
        ("* * * jan *", "'jan' is no month: a number, "),
    ],
)
def test_what_is_none(fields, why):
    """A wrong line is refused, with the reason."""
    with pytest.raises(ValueError, match=why):
        parse_times(fields)


def test_what_is_due(monkeypatch):
    """The due minute is the last named minute since the last look; a late look makes up for one of the last five minutes."""
    monkeypatch.setattr(crontab, "time", type("", (), {"localtime": staticmethod(time.gmtime)}))
    names = parse_times("*/10 * * * *").names
    assert last_due(names, 99, 100 * 60) == 100 and last_due(names, 100, 100 * 60 + 59) is None
    assert last_due(names, 0, 104 * 60.0) == 100 and last_due(names, 0, 105 * 60.0) is None
    assert last_due(names, 120, 100 * 60) is None
