"""When a certificate is due, whatever the clock does."""

from __future__ import annotations

import datetime

import pytest

from aserve.features.https.schedule import (
    MAX_RETRY_SECONDS,
    after_start,
    delay_after,
    is_due,
    is_waiting,
    renew_at,
    seconds_of,
)

DAY = 86400.0
BEGIN = datetime.datetime(2027, 1, 1, tzinfo=datetime.timezone.utc)
DIRECTORY = "https://ca.example/dir"


def test_two_thirds():
    """It is renewed a month before a certificate of three months ends, at a time of its own that stays the same."""
    end = BEGIN + datetime.timedelta(days=90)
    times = {(renew_at(BEGIN, end, octets) - BEGIN.timestamp()) / DAY for octets in (b"a", b"b", b"a")}
    assert len(times) == 2
    assert all(60 <= time <= 63 for time in times)


@pytest.mark.parametrize(
    ("now", "renewal", "notes", "due"),
    [
        (100, 200, {"directory": DIRECTORY}, False),
        (200, 200, {"directory": DIRECTORY}, True),
        (100, 200, {}, True),  # a placeholder
        (100, 200, {"directory": "https://staging.example/dir"}, True),  # another authority's
        (100, None, {"directory": DIRECTORY}, True),  # damaged
        (100, None, {"again": 150}, False),  # after a failure
        (150, None, {"again": 150}, True),
        (200, 200, {"directory": DIRECTORY, "again": 250}, False),
        (100, None, {"again": 101 + MAX_RETRY_SECONDS}, True),  # noted while the clock was wrong
    ],
)
def test_due(now, renewal, notes, due):
    """A certificate is ordered when there is none, when it is time, and not while an earlier failure forbids it."""
    assert is_due(now, renewal, notes, DIRECTORY) == due


def test_a_clock_that_jumps():
    """Once the clock is right, what it said before counts no more."""
    assert is_waiting(1000.0, {"again": 1600.0})
    assert not is_waiting(1e9, {"again": 1600.0})
    assert not is_waiting(0.0, {"again": 1e9})


@pytest.mark.parametrize(
    ("failures", "retry_after", "seconds"),
    [(1, None, 600), (2, None, 1200), (3, 60.0, 2400), (9, None, 4 * 3600), (10_000, None, 4 * 3600), (1, 3 * DAY, 3 * DAY),
     (1, 100 * DAY, MAX_RETRY_SECONDS)],
)  # fmt: skip
def test_delays(failures, retry_after, seconds):
    """They double up to four hours; the authority's word counts if it is longer, up to a bound."""
    assert delay_after(failures, retry_after) == seconds


@pytest.mark.parametrize(
    ("notes", "again"),
    [
        ({"failures": 1, "at": 1000, "again": 1600}, 1060),
        ({"failures": 3, "at": 1000, "again": 3400}, 1060),
        ({"failures": 4, "at": 1000, "again": 5800}, 5800),  # a server that dies again and again
        ({"failures": 1, "at": 1000, "again": 4600, "is_asked": True}, 4600),  # the authority's word
        ({}, None),
    ],
)
def test_a_start(notes, again):
    """Its user has perhaps mended something: the next try is soon, but not at once."""
    assert after_start(notes).get("again") == again


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("3600", 3600), ("0", 0), ("", None), ("soon", None), ("-1", None), ("\u0661", None),
        ("Fri, 01 Jan 2027 02:00:00 GMT", 7200), ("Thu, 31 Dec 2026 23:00:00 GMT", 0), ("Fri, 32 Jan 2027 02:00:00 GMT", None),
    ],
)  # fmt: skip
def test_what_an_authority_asks_for(text, seconds):
    """It names seconds, or a date; what is neither asks for nothing."""
    assert seconds_of(text, BEGIN.timestamp()) == seconds
