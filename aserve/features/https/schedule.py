"""When a certificate is to be renewed, and when after a failure to try again.

Owns:     renew_at, is_due, is_waiting, seconds_of, delay_after, after_start, without_failures.
Thread:   any; pure.
Not here: asking (renewal.py), the dates in a certificate (tls/validity.py).

All by the wall clock, compared anew each minute: a clock that jumps, or a machine that sleeps, makes nothing late but by that minute.
"""

from __future__ import annotations

import datetime
import zlib
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

# Of a certificate's life. Let's Encrypt asks for a third before the end; the rest spreads the load of those of one hour.
RENEW_AT, SPREAD = 2 / 3, 1 / 30
# Guess: a mistake in DNS is mended within minutes. The second number is six orders a day, while the authority is away or refuses.
FIRST_DELAY_SECONDS, LAST_DELAY_SECONDS = 600.0, 4 * 3600.0
# Let's Encrypt allows five failures for a name in an hour.
QUICK_FAILURES, QUICK_SECONDS = 3, 60.0
# The longest that an authority's Retry-After is obeyed: Let's Encrypt counts by weeks.
MAX_RETRY_SECONDS = 8 * 24 * 3600.0


def renew_at(begin: datetime.datetime, end: datetime.datetime, certificate: bytes) -> float:
    """Return the time to renew a certificate; its octets choose a place in the spread, always the same."""
    share: float = RENEW_AT + SPREAD * zlib.crc32(certificate) / (1 << 32)
    return begin.timestamp() + share * (end - begin).total_seconds()


def is_due(now: float, renewal: float | None, notes: Mapping[str, Any], directory: str) -> bool:
    """
    Return whether to order now.

    `renewal`: the time to renew the certificate; None: there is none of an authority. `notes`: what the last order said.
    """
    if renewal is not None and now < renewal and notes.get("directory") == directory:
        return False
    return not is_waiting(now, notes)


def is_waiting(now: float, notes: Mapping[str, Any]) -> bool:
    """Whether an earlier failure forbids an order now. A time that no delay explains is of a clock that was wrong."""
    return bool(now < notes.get("again", 0) <= now + MAX_RETRY_SECONDS)


def after_start(notes: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the notes with which a server starts: perhaps its user has mended something, and does not want to wait.

    Some starts a day are so; those of a server that dies again and again are not, nor does one change what the authority has asked for.
    """
    if "again" not in notes or notes.get("is_asked") or notes.get("failures", 0) > QUICK_FAILURES:
        return {**notes}
    return {**notes, "again": min(notes["again"], notes.get("at", 0) + QUICK_SECONDS)}


def without_failures(notes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the notes of a name for another authority, which has refused nothing."""
    return {key: value for key, value in notes.items() if key == "directory"}


def seconds_of(text: str, now: float) -> float | None:
    """Return the seconds that a field Retry-After asks for, by a number or a date (RFC 9110 10.2.3); None: it asks for nothing."""
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError, IndexError):  # which of them, versions of Python differ in
        return None


def delay_after(failures: int, retry_after: float | None) -> float:
    """Return how many seconds to wait after this number of failures one after another; `retry_after`: the authority's word."""
    own = min(FIRST_DELAY_SECONDS * 2.0 ** (min(failures, 20) - 1), LAST_DELAY_SECONDS)
    return min(max(own, retry_after or 0.0), MAX_RETRY_SECONDS)
