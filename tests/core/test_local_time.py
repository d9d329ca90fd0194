"""The zone of log lines is the one of the process's begin."""

import logging
import time

import pytest

from aserve.core import local_time as module
from aserve.core.local_time import find_offsets, local_time, show_offset
from aserve.features.access_log.log_values import Process
from aserve.lifecycle.logs import LineFormatter

BERLIN = "CET-1CEST,M3.5.0,M10.5.0/3"  # by its rules: not every machine knows zones by their names
JANUARY, JULY = 1_800_000_000, 1_815_000_000  # 2027


@pytest.fixture
def zone(monkeypatch):
    """zone(name): from now on the process is in this zone, until the test ends."""

    def enter(name):
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield enter
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def began_in(zone, monkeypatch):
    """began_in(name): the process began in this zone, in January of 2027, and the app has chosen another."""

    def begin(name):
        zone(name)
        for attribute, found in zip(("_CHANGES", "_OFFSETS"), find_offsets(JANUARY)):
            monkeypatch.setattr(module, attribute, found)
        zone("NZST-12")

    return begin


@pytest.mark.parametrize(
    ("name", "offsets"),
    [
        ("UTC0", ("+0000", "+0000")),
        (BERLIN, ("+0100", "+0200")),
        ("NST3:30NDT,M3.2.0,M11.1.0", ("-0330", "-0230")),
        ("XYZ-5:45", ("+0545", "+0545")),
    ],
)
def test_the_zone_of_the_start_stays(began_in, zone, name, offsets):
    """In summer and in winter the time has the zone of the start, to the second of its change."""
    began_in(name)
    found = [(local_time(at)[:6], show_offset(at)) for at in (JANUARY, JULY)]
    changes = [(local_time(at - 1)[:6], local_time(at)[:6]) for at in module._CHANGES[1:]]
    zone(name)
    assert [each[1] for each in found] == list(offsets)
    assert [each[0] for each in found] == [time.localtime(at)[:6] for at in (JANUARY, JULY)]
    assert changes == [(time.localtime(at - 1)[:6], time.localtime(at)[:6]) for at in module._CHANGES[1:]]
    assert len(module._CHANGES) == (1 if offsets[0] == offsets[1] else 11)


def test_two_logs_and_one_zone(began_in):
    began_in(BERLIN)
    record = logging.LogRecord("aserve", logging.INFO, "", 0, "hello", (), None)
    record.created, record.msecs = float(JULY), 0.0
    assert LineFormatter("{asctime} {message}", style="{").format(record) == "2027-07-08 00:40:00,000 hello"
    assert Process().stamp(JULY) == "08/Jul/2027:00:40:00 +0200"


def test_without_a_time_it_is_now():
    assert abs(time.mktime(local_time()) - time.time()) < 86_400
