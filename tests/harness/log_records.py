"""A request in the access log's form, with literals, and a format's text for it."""

import threading
from typing import Any

from aserve.core.ends import Ended
from aserve.features.access_log.log_format import LineFormat
from aserve.features.access_log.log_values import Record, RequestTimes, record_of

AT = 1_800_000_000.25
NEVER = RequestTimes(0.0, 0.0, 101.5, 0)
PAIRS = {
    "REQUEST_METHOD": "POST", "REQUEST_URI": "/a%20b?q=1", "PATH_INFO": "/a b", "QUERY_STRING": "q=1",
    "SERVER_PROTOCOL": "HTTP/1.1", "HTTP_HOST": "example.com", "HTTP_REFERER": "http://a/", "HTTP_USER_AGENT": "curl/8",
    "HTTP_X_REQUEST_ID": "abc", "CONTENT_TYPE": "text/plain",
}  # fmt: skip


def vars_of(pairs: dict[str, str]) -> str:
    """Return vars of a front server."""
    return "\0".join(part for pair in pairs.items() for part in pair)


def record(pairs: dict[str, str] = PAIRS, **changes: Any) -> Record:
    """Return an answered one, but for the changes."""
    times = RequestTimes(100.0, 100.25, 101.5, threading.get_ident())
    whole = Record(vars_of(pairs), False, "192.0.2.1", 201, 7, "answered", AT, times)
    return whole._replace(**changes)


def ended(record: Record) -> Ended:
    """Return the kept record of a request."""
    arrived_at, began_at, ended_at, thread_id = record.times
    made = Ended(
        record.vars, record.is_from_front, record.client, record.status, record.size, record.end,
        arrived_at, began_at, 0.0, ended_at, thread_id, False, record.head,
    )  # fmt: skip
    assert record_of(made, record.at) == record
    return made


def lines(line_format: LineFormat, *records: Record) -> list[str]:
    """Return a format's text for such records."""
    return [found for one in records for found in line_format.lines([ended(one)], one.at - one.times.ended_at)]
