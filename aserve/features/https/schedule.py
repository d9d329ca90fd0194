"""The time of a renewal, and of a second try after a failure.

Owns:     renew_at, seconds_of, delay_after.
Thread:   any; pure.
Not here: the comparison with now (facts.py), asking (renewal.py), the dates in a certificate (tls/validity.py).

All by the wall clock, compared anew each minute: a clock that jumps, or a machine that sleeps, makes nothing late but by that minute.
"""

from __future__ import annotations

import datetime
import zlib
from email.utils import parsedate_to_datetime

from .notes import MAX_RETRY_SECONDS

# Of a certificate's life. Let's Encrypt asks for a third before the end; the rest spreads the load of certificates of one hour.
RENEW_AT, SPREAD = 2 / 3, 1 / 30
# Guess: a mistake in DNS is mended within minutes. The second number is six orders a day, while the authority is away or refuses.
FIRST_DELAY_SECONDS, LAST_DELAY_SECONDS = 600.0, 4 * 3600.0


def renew_at(begin: datetime.datetime, end: datetime.datetime, certificate: bytes) -> float:
    """Return the time to renew a certificate; the octets choose a place in the spread, always the same."""
    share: float = RENEW_AT + SPREAD * zlib.crc32(certificate) / (1 << 32)
    return begin.timestamp() + share * (end - begin).total_seconds()


def seconds_of(text: str, now: float) -> float | None:
    """Return the seconds of a field Retry-After, by a number or a date (RFC 9110 10.2.3); None: neither."""
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError, IndexError):  # versions of Python differ here
        return None


def delay_after(failures: int, retry_after: float | None) -> float:
    """Return the seconds to wait after this number of failures one after another; `retry_after`: the authority's word."""
    own = min(FIRST_DELAY_SECONDS * 2.0 ** (min(failures, 20) - 1), LAST_DELAY_SECONDS)
    return min(max(own, retry_after or 0.0), MAX_RETRY_SECONDS)
