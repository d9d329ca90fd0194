"""When a certificate is due, whatever the clock does."""

from __future__ import annotations

import datetime

import pytest

from aserve.features.https.schedule import MAX_RETRY_SECONDS, delay_after, renew_at, seconds_of

DAY = 86400.0
BEGIN = datetime.datetime(2027, 1, 1, tzinfo=datetime.timezone.utc)


def test_two_thirds():
    """It is renewed a month before a certificate of three months ends, at a time of its own that stays the same."""
    end = BEGIN + datetime.timedelta(days=90)
    times = {(renew_at(BEGIN, end, octets) - BEGIN.timestamp()) / DAY for octets in (b"a", b"b", b"a")}
    assert len(times) == 2
    assert all(60 <= time <= 63 for time in times)


@pytest.mark.parametrize(
    ("failures", "retry_after", "seconds"),
    [(1, None, 600), (2, None, 1200), (3, 60.0, 2400), (9, None, 4 * 3600), (10_000, None, 4 * 3600), (1, 3 * DAY, 3 * DAY),
     (1, 100 * DAY, MAX_RETRY_SECONDS)],
)  # fmt: skip
def test_delays(failures, retry_after, seconds):
    """They double up to four hours; the authority's word counts if it is longer, up to a bound."""
    assert delay_after(failures, retry_after) == seconds


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
