"""When a certificate is due, whatever the clock does."""

import datetime

import pytest

from aserve.features.https.schedule import MAX_RETRY_SECONDS, delay_after, renew_at, seconds_of

DAY = 86400.0
BEGIN = datetime.datetime(2027, 1, 1, tzinfo=datetime.timezone.utc)


def test_renewal_comes_at_two_thirds():
    """A certificate of three months is renewed a month before its end, at its own fixed time."""
    end = BEGIN + datetime.timedelta(days=90)
    times = {(renew_at(BEGIN, end, octets) - BEGIN.timestamp()) / DAY for octets in (b"a", b"b", b"a")}
    assert len(times) == 2
    assert all(60 <= time <= 63 for time in times)


@pytest.mark.parametrize(
    ("failures", "retry_after", "seconds"),
    [(1, None, 600), (2, None, 1200), (3, 60.0, 2400), (9, None, 4 * 3600), (10_000, None, 4 * 3600), (1, 3 * DAY, 3 * DAY),
     (1, 100 * DAY, MAX_RETRY_SECONDS)],
)  # fmt: skip
def test_delays_double_up_to_a_bound(failures, retry_after, seconds):
    """Delays double up to four hours; a longer wish of the authority counts, up to a bound."""
    assert delay_after(failures, retry_after) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("3600", 3600), ("0", 0), ("", None), ("soon", None), ("-1", None), ("\u0661", None),
        ("Fri, 01 Jan 2027 02:00:00 GMT", 7200), ("Thu, 31 Dec 2026 23:00:00 GMT", 0), ("Fri, 32 Jan 2027 02:00:00 GMT", None),
    ],
)  # fmt: skip
def test_what_an_authority_asks_for(text, seconds):
    """The authority names seconds, or a date; anything else asks for nothing."""
    assert seconds_of(text, BEGIN.timestamp()) == seconds
