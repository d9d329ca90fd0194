"""When a schedule is due."""

import os
import time

import pytest

from aserve.compat.uwsgi_api import schedules
from aserve.compat.uwsgi_api.schedules import Cron, Every, Watched, checked_cron, identity_of, ticks_of
from aserve.settings.crontab import MISSED_MINUTES

SUNDAY = time.strptime("2026-11-22 03:30", "%Y-%m-%d %H:%M")


def test_every_tick_keeps_its_distance():
    """From the start on, at equal distances; missed times are left out."""
    every = Every(10.0)
    assert every.first(100.0) == 110.0
    assert every.next(110.0, 109.9) is None
    assert every.next(110.0, 110.0) == 120.0 and every.next(110.0, 115.0) == 120.0
    assert every.next(110.0, 150.0) == 160.0


@pytest.mark.parametrize(
    ("fields", "is_named"),
    [
        ((30, 3, 22, 11, 0), True),
        ((30, 3, 22, 11, 7), True),
        ((-1, -1, -1, -1, -1), True),
        ((-5, -3, -1, -1, -1), True),
        ((-7, -1, -1, -1, -1), False),
        ((31, -1, -1, -1, -1), False),
        ((30, 4, -1, -1, -1), False),
        ((30, 3, -1, 12, -1), False),
        ((30, 3, 22, -1, -1), True),
        ((30, 3, 21, -1, -1), False),
        ((30, 3, -1, -1, 0), True),
        ((30, 3, -1, -1, 1), False),
        ((30, 3, 22, -1, 1), True),  # either
        ((30, 3, 21, -1, 0), True),
        ((30, 3, 21, -1, 1), False),
    ],
)
def test_minutes_are_named_as_by_uwsgi(fields, is_named):
    assert checked_cron(*fields).names(SUNDAY) is is_named


def test_a_weekday_of_1_is_monday():
    monday = time.strptime("2026-11-23 03:30", "%Y-%m-%d %H:%M")
    assert Cron(-1, -1, -1, -1, 1).names(monday) and not Cron(-1, -1, -1, -1, 7).names(monday)


@pytest.mark.parametrize("fields", [(60, 0, 0, 0, 0), (0, 24, 0, 0, 0), (-61, 0, 0, 0, 0), (0, 0, 0, 0, 8)])
def test_no_such_minute(fields):
    with pytest.raises(ValueError, match=r"cron: -?[0-9]+ is no "):
        checked_cron(*fields)


def test_each_minute_is_looked_at_once():
    """Each minute is looked at once; of some missed minutes the last named minute counts."""
    cron, begin = Cron(-2, -1, -1, -1, -1), 2_000_000 * 60
    assert cron.first(begin) == 2_000_000
    assert cron.next(2_000_000, begin) is None and cron.next(2_000_000, begin + 60) is None
    assert cron.next(2_000_000, begin + 120) == 2_000_002
    assert cron.next(2_000_002, begin + 179) is None
    assert cron.next(2_000_000, begin + 60 * 7) == 2_000_006
    rare = Cron(0, -1, -1, -1, -1)
    hour = 2_000_000 - 2_000_000 % 60 + 60
    assert rare.next(hour - 1, (hour + MISSED_MINUTES) * 60) is None
    assert rare.next(hour - 1, (hour + MISSED_MINUTES - 1) * 60) == hour


def test_equal_schedules_have_one_identity():
    assert identity_of(Every(5.0)) == identity_of(Every(5.0)) != identity_of(Every(5.0, 1))
    assert identity_of(Every(5.0)) == 3151066586


def test_a_watched_file_is_due_once_a_change(tmp_path):
    file = tmp_path / "f"
    watched = Watched(str(file))
    seen = watched.first(0)
    assert seen == 0 and watched.next(seen, 0) is None
    for change in (
        lambda: file.write_text("a"),
        lambda: file.write_text("ab"),
        lambda: os.utime(file, (5, 5)),
        file.unlink,
    ):
        change()
        found = watched.next(seen, 0)
        assert found is not None and watched.next(found, 0) is None
        seen = found


def test_a_watched_folder_is_due_by_its_content(tmp_path, monkeypatch):
    (tmp_path / "f").write_text("a")
    watched = Watched(str(tmp_path))
    seen = watched.first(0)
    (tmp_path / "f").write_text("ab")
    assert watched.next(seen, 0) not in (None, seen)
    monkeypatch.setattr(schedules, "MAX_ENTRIES", 0)
    seen = watched.first(0)
    os.utime(tmp_path, (5, 5))
    assert watched.next(seen, 0) is not None


def test_watched_by_each_host():
    """The files of hosts differ."""
    assert ticks_of(Watched("/x")) is None and identity_of(Watched("/x")) != identity_of(Watched("/y"))
