"""Conditional requests."""

import os
import time

import pytest

from aserve.features.files.conditions import (
    FAILED,
    NOT_MODIFIED,
    PASSED,
    Validators,
    evaluate,
    may_be_partial,
    parse_date,
    validators_of,
)

pytestmark = pytest.mark.long_on_pypy

NOW = 784_111_777  # Sun, 06 Nov 1994 08:49:37 GMT
DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
BEFORE = "Sun, 06 Nov 1994 08:49:36 GMT"
AFTER = "Fri, 11 Apr 2100 11:47:06 GMT"
STRONG = Validators('"a"', NOW)
WEAK = Validators('W/"a"', NOW)
BARE = Validators("", None)


def environ_of(fields):
    return {f"HTTP_{name}": value for name, value in fields.items()}


@pytest.mark.parametrize(
    ("validators", "fields", "status"),
    [
        (STRONG, {}, PASSED),
        # RFC 9110 13.1.1: strong comparison
        (STRONG, {"IF_MATCH": '"a"'}, PASSED),
        (STRONG, {"IF_MATCH": '"b", "a"'}, PASSED),
        (STRONG, {"IF_MATCH": "*"}, PASSED),
        (STRONG, {"IF_MATCH": '"b"'}, FAILED),
        (STRONG, {"IF_MATCH": 'W/"a"'}, FAILED),
        (STRONG, {"IF_MATCH": "a"}, FAILED),
        (STRONG, {"IF_MATCH": ""}, FAILED),
        (WEAK, {"IF_MATCH": 'W/"a"'}, FAILED),
        (BARE, {"IF_MATCH": '"a"'}, FAILED),
        # 13.1.4, and only without If-Match
        (STRONG, {"IF_UNMODIFIED_SINCE": DATE}, PASSED),
        (STRONG, {"IF_UNMODIFIED_SINCE": BEFORE}, FAILED),
        (STRONG, {"IF_UNMODIFIED_SINCE": "yesterday"}, PASSED),
        (STRONG, {"IF_UNMODIFIED_SINCE": BEFORE, "IF_MATCH": '"a"'}, PASSED),
        (BARE, {"IF_UNMODIFIED_SINCE": BEFORE}, PASSED),
        # 13.1.2: weak comparison
        (STRONG, {"IF_NONE_MATCH": '"a"'}, NOT_MODIFIED),
        (STRONG, {"IF_NONE_MATCH": 'W/"a"'}, NOT_MODIFIED),
        (WEAK, {"IF_NONE_MATCH": '"a"'}, NOT_MODIFIED),
        (STRONG, {"IF_NONE_MATCH": '"x,\\", W/"a"'}, NOT_MODIFIED),
        (STRONG, {"IF_NONE_MATCH": "*"}, NOT_MODIFIED),
        (STRONG, {"IF_NONE_MATCH": '"b"'}, PASSED),
        # 13.1.3, and only without If-None-Match: a roll-back of a deployment has other tags, and an older date
        (STRONG, {"IF_MODIFIED_SINCE": DATE}, NOT_MODIFIED),
        (STRONG, {"IF_MODIFIED_SINCE": AFTER}, NOT_MODIFIED),
        (STRONG, {"IF_MODIFIED_SINCE": BEFORE}, PASSED),
        (STRONG, {"IF_MODIFIED_SINCE": "0"}, PASSED),
        (STRONG, {"IF_NONE_MATCH": '"b"', "IF_MODIFIED_SINCE": AFTER}, PASSED),
        (BARE, {"IF_MODIFIED_SINCE": DATE}, PASSED),
        # 13.2.2: a failing condition comes first
        (STRONG, {"IF_MATCH": '"b"', "IF_NONE_MATCH": '"a"'}, FAILED),
        (STRONG, {"IF_MATCH": '"a"', "IF_NONE_MATCH": '"a"'}, NOT_MODIFIED),
        (STRONG, {"IF_UNMODIFIED_SINCE": BEFORE, "IF_MODIFIED_SINCE": DATE}, FAILED),
    ],
)
def test_conditions_follow_the_order_of_rfc_9110(validators, fields, status):
    assert evaluate(environ_of(fields), validators) == status


@pytest.mark.parametrize(
    ("validators", "condition", "expected"),
    [
        (STRONG, None, True),
        (STRONG, '"a"', True),
        (STRONG, '"b"', False),
        (STRONG, 'W/"a"', False),
        (WEAK, 'W/"a"', False),
        (STRONG, DATE, True),
        (STRONG, AFTER, False),  # RFC 9110 13.1.5: not a later date, only the equal one
        (STRONG, BEFORE, False),
        (STRONG, "a", False),
        (BARE, DATE, False),
    ],
)
def test_a_part_needs_the_same_strong_validator(validators, condition, expected):
    assert may_be_partial({} if condition is None else {"HTTP_IF_RANGE": condition}, validators) is expected


def test_a_date_of_this_second_is_weak(monkeypatch):
    """The file may change again within the second."""
    monkeypatch.setattr(time, "time", lambda: NOW + 0.9)
    assert not may_be_partial({"HTTP_IF_RANGE": DATE}, STRONG)
    monkeypatch.setattr(time, "time", lambda: NOW + 1.0)
    assert may_be_partial({"HTTP_IF_RANGE": DATE}, STRONG)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (DATE, NOW),
        ("Sunday, 06-Nov-94 08:49:37 GMT", NOW),
        ("Sun Nov  6 08:49:37 1994", NOW),
        ("", None),
        ("never", None),
        ("Fri, 16 Jul 2021 09:09:1626426577S GMT", None),  # Firefox 91, for a while
        ("Sun, 06 Nov 99999999999999 08:49:37 GMT", None),
        ("Sun, 06 Foo 1994 08:49:37 GMT", None),
    ],
)
def test_dates_have_three_forms(text, seconds):
    """All three forms of RFC 9110 5.6.7 are read; nonsense is none."""
    assert parse_date(text) == seconds


def test_validators_of_files(tmp_path):
    """Size, time and inode make the tag: a change of one makes another."""
    seen = set()
    for name, content, nanoseconds in (
        ("a", b"1", NOW * 10**9), ("a", b"1", NOW * 10**9 + 4_000_000), ("a", b"12", NOW * 10**9), ("b", b"1", NOW * 10**9)
    ):  # fmt: skip
        path = tmp_path / name
        path.write_bytes(content)
        os.utime(path, ns=(nanoseconds, nanoseconds))
        validators = validators_of(path.stat())
        assert validators == validators_of(path.stat())
        assert validators.etag[0] == validators.etag[-1] == '"' and str(path.stat().st_ino) not in validators.etag
        assert validators.last_modified == DATE
        seen.add(validators.etag)
    assert len(seen) == 4


def test_dates_that_are_not_told(tmp_path):
    """A future date is now (RFC 9110 8.8.2.1); a date set by no tool is none."""
    path = tmp_path / "a"
    path.write_bytes(b"1")
    before = int(time.time())
    os.utime(path, (before + 10_000, before + 10_000))
    assert before <= (validators_of(path.stat()).modified or 0) <= int(time.time())
    os.utime(path, (0, 0))
    assert validators_of(path.stat()).last_modified == ""
