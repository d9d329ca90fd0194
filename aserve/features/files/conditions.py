"""Conditional requests: whether the client's copy is still current.

Owns:     the validators of a file; the conditions, in order of precedence; If-Range.
Thread:   any; pure.
Spec:     RFC 9110 sections 8.8 and 13.
Not here: ranges themselves (ranges.py), the responses (reply.py).
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import time
from email.utils import mktime_tz, parsedate_tz
from typing import Any

from ...core.http_date import http_date
from ...core.named_tuple import NamedTuple

_TAG = re.compile(r'(W/)?("[\x21\x23-\x7e\x80-\xff]*")')

PASSED, NOT_MODIFIED, FAILED = 200, 304, 412


class Validators(NamedTuple):
    """The validators of a representation: entity tag and modification date."""

    etag: str  # "": none
    modified: int | None  # seconds since the epoch; None: not known

    @property
    def last_modified(self) -> str:
        """Return the value of Last-Modified; "": no date."""
        return _format(self.modified) if self.modified is not None else ""


_format = functools.lru_cache(256)(http_date)


def validators_of(status: os.stat_result) -> Validators:
    """
    Return a strong entity tag, of size, mtime in nanoseconds and inode number, and the date of a file.

    The inode number changes when another file of the same size and date replaces this one. The number is hashed, since clients could use a plain
    one to reach the file over NFS (CVE-2003-1418).
    """
    state = b"%x %x %x" % (status.st_size, status.st_mtime_ns, status.st_ino)
    etag = f'"{hashlib.blake2b(state, digest_size=12).hexdigest()}"'
    # RFC 9110 8.8.2.1: never a date in the future. No date at all for 1970, the date of tools without one.
    modified = min(int(status.st_mtime), int(time.time()))
    return Validators(etag, modified if modified > 0 else None)


def evaluate(environ: dict[str, Any], validators: Validators) -> int:
    """
    Evaluate the conditions of a GET or HEAD: PASSED, NOT_MODIFIED or FAILED (RFC 9110 13.2.2).

    A malformed field is ignored, or matches nothing.
    """
    get = environ.get
    modified = validators.modified
    if "HTTP_IF_MATCH" in environ:
        if not _matches(environ["HTTP_IF_MATCH"], validators.etag, is_strong=True):
            return FAILED
    elif "HTTP_IF_UNMODIFIED_SINCE" in environ and modified is not None:
        date = parse_date(environ["HTTP_IF_UNMODIFIED_SINCE"])
        if date is not None and modified > date:
            return FAILED
    if "HTTP_IF_NONE_MATCH" in environ:
        return NOT_MODIFIED if _matches(environ["HTTP_IF_NONE_MATCH"], validators.etag, is_strong=False) else PASSED
    date = parse_date(get("HTTP_IF_MODIFIED_SINCE", ""))
    if date is not None and modified is not None and modified <= date:
        return NOT_MODIFIED
    return PASSED


def may_be_partial(environ: dict[str, Any], validators: Validators) -> bool:
    """Whether the requested parts belong to the client's representation: If-Range (RFC 9110 13.1.5)."""
    condition = environ.get("HTTP_IF_RANGE")
    if condition is None:
        return True
    tag = _TAG.fullmatch(condition.strip())
    if tag is not None:
        return not tag[1] and tag[2] == validators.etag
    modified = validators.modified
    # RFC 9110 8.8.2.2: a date is strong once the second is over, without another change of the file within.
    return modified is not None and parse_date(condition) == modified < int(time.time())


def is_tag(text: str) -> bool:
    return _TAG.fullmatch(text) is not None


def _matches(field: str, etag: str, is_strong: bool) -> bool:
    """Whether an entity tag is in a list; a weak tag never matches in the strong comparison (RFC 9110 8.8.3.2)."""
    if field.strip() == "*":
        return True
    ours = _TAG.fullmatch(etag)
    if ours is None or (is_strong and ours[1]):
        return False
    return any(tag[2] == ours[2] and not (is_strong and tag[1]) for tag in _TAG.finditer(field))


def parse_date(text: str) -> int | None:
    """Return the seconds of an HTTP date in any of the three forms (RFC 9110 5.6.7); None: the text is no date."""
    try:
        parts = parsedate_tz(text)
        return int(mktime_tz(parts)) if parts is not None else None
    except (ValueError, OverflowError, TypeError, IndexError):  # a year or a month outside the calendar
        return None
