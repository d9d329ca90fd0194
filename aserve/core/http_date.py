"""Dates in HTTP's form.

Owns:     http_date.
Thread:   any; pure.
Spec:     RFC 9110 5.6.7, IMF-fixdate.
Not here: reading dates (features/files/conditions.py).

email.utils writes such dates, too, and brings 0.3 MB of modules into each process.
"""

from __future__ import annotations

import time

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("", "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def http_date(seconds: float) -> str:
    """Return a Unix time as "Sun, 06 Nov 1994 08:49:37 GMT"."""
    year, month, day, hour, minute, second, weekday, _, _ = time.gmtime(seconds)  # strftime follows the app's locale
    return f"{_DAYS[weekday]}, {day:02} {_MONTHS[month]} {year:04} {hour:02}:{minute:02}:{second:02} GMT"
