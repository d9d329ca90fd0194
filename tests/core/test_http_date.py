"""Dates in HTTP's form."""

import calendar
import email.utils
import locale

import pytest

from aserve.core.http_date import http_date


@pytest.mark.parametrize(
    ("when", "text"),
    [
        ((1994, 11, 6, 8, 49, 37), "Sun, 06 Nov 1994 08:49:37 GMT"),  # RFC 9110's own
        ((1970, 1, 1, 0, 0, 0), "Thu, 01 Jan 1970 00:00:00 GMT"),
        ((2000, 2, 29, 23, 59, 59), "Tue, 29 Feb 2000 23:59:59 GMT"),
        ((900, 12, 31, 1, 2, 3), "Fri, 31 Dec 0900 01:02:03 GMT"),
    ],
)
def test_a_date_is_always_gmt(when, text):
    assert http_date(calendar.timegm(when)) == text


@pytest.mark.parametrize("step", [86_399, 2_678_401.9])
def test_all_days_and_months(step):
    """As email.utils, over some years; parts of a second are cut off."""
    for number in range(100):
        seconds = 1_700_000_000 + number * step
        assert http_date(seconds) == email.utils.formatdate(int(seconds), usegmt=True)


def test_it_follows_no_locale(monkeypatch):
    monkeypatch.setattr("time.strftime", lambda *_: 1 / 0)
    monkeypatch.setattr(locale, "nl_langinfo", lambda *_: 1 / 0, raising=False)
    assert http_date(0).startswith("Thu")
