"""Status and fields from the app: checked, and encoded.

Owns:     the checks of PEP 3333 and RFC 9110; the kinds of fields; a cache of
          heads.
Thread:   several workers at once: the caches are dicts, and each step is one operation.
Spec:     PEP 3333; RFC 9110 sections 5, 7.6.1 and 8.6; RFC 8297.
Not here: framing, Date and Server (response.py).
"""

from __future__ import annotations

import re
from typing import Any

from ..core.errors import AppError
from ..settings.kinds import HOP_BY_HOP_FIELDS

Headers = list[tuple[str, str]]

# The kind of a field: one dictionary look-up for each field.
PLAIN, CONTENT_LENGTH, DATE, SERVER, HOP_BY_HOP, UNIQUE = range(6)
_SPECIAL_FIELDS = {
    "content-length": CONTENT_LENGTH,
    # Values without repetition, or secret: heads with these are not cached.
    "etag": UNIQUE,
    "last-modified": UNIQUE,
    "location": UNIQUE,
    "set-cookie": UNIQUE,
    "date": DATE,
    "server": SERVER,
    **dict.fromkeys(HOP_BY_HOP_FIELDS, HOP_BY_HOP),
}
# Names and statuses already checked, in the app's spelling. Bounded, since an app may make names up; an app with more only pays for the check each
# time.
_known_fields: dict[str, int] = {}
_known_statuses: dict[str, tuple[int, bool]] = {}  # status: (code, whether it has no body)
_KNOWN_MAX = 1024
# Heads built lately, by their arguments. An app has few heads, and with a cached one start_response takes 0.4 us instead of 1.0 (2026-11-21,
# benchmarks/bench_respond.py).
AppHead = tuple[bytes, int, bool, int, bool, bool]  # octets, code, has no body, length or -1, has Date, has Server
known_heads: dict[tuple[Any, ...], AppHead] = {}
_KNOWN_HEAD_BYTES = 1024  # longer ones are not cached: at most 1 MiB, and as much for the keys

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110 5.6.2
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")  # RFC 9110 5.5: HTAB alone is allowed
_STATUS = re.compile(r"([1-9][0-9]{2}) .*", re.DOTALL)


def build_app_head(prefix: str, status: str, headers: Headers) -> AppHead:
    """
    Check status and fields; return their part of the head.

    Raises:
        AppError: a rule of PEP 3333 is broken.
    """
    length = -1
    has_date = has_server = False
    is_common = type(headers) is list
    try:
        if type(status) is not str:
            status, is_common = _to_plain(status), False
        code, has_no_body = _known_statuses.get(status) or _check_status(status)
        head = f"{prefix}{status}\r\n"
        for name, value in headers:
            if type(name) is not str or type(value) is not str:
                name, value, is_common = _to_plain(name), _to_plain(value), False
            kind = _known_fields.get(name)
            if kind is None:
                kind = _check_field_name(name)
            if not value.isprintable():
                _check_field_value(name, value)
            if kind:
                if kind == CONTENT_LENGTH:
                    length = _check_length(value, length)
                    if code == 205 or (has_no_body and (code != 304 or not length)):
                        # RFC 9110 8.6: no Content-Length in a 204 response; in a 304 only the length of the 200 response. Frameworks that empty the
                        # body set 0, hardly that length.
                        continue
                elif kind == UNIQUE:
                    is_common = False
                elif kind == DATE:
                    has_date, is_common = True, False
                elif kind == SERVER:
                    has_server = True
                else:
                    raise AppError(f"the app set {name}, a hop-by-hop field that only the server may set")
            head += f"{name}: {value}\r\n"
        if code == 205:  # RFC 9110 15.3.6: no content, and a client expects a length
            length = 0
            head += "Content-Length: 0\r\n"
        octets = head.encode("latin-1")
    except AppError:  # a ValueError, too
        raise
    except (TypeError, ValueError, AttributeError) as exc:
        raise _explain(status, headers) from exc
    made = (octets, code, has_no_body, length, has_date, has_server)
    if is_common and len(octets) <= _KNOWN_HEAD_BYTES:
        _keep_head((prefix, status, *headers), made)
    return made


def _to_plain(text: str) -> str:
    """Return a plain str of the same characters, also for a subclass with methods of its own; TypeError: not a str."""
    return str.__str__(text)


def _keep_head(key: tuple[Any, ...], head: AppHead) -> None:
    if len(known_heads) >= _KNOWN_MAX:
        known_heads.clear()  # the app has many: present ones are added again
    try:
        known_heads[key] = head
    except TypeError:
        pass  # a field is a list, not good for a key


def is_bodyless(code: int) -> bool:
    """Whether a final response of this status has neither a body nor a need to say so (RFC 9112 section 6.3)."""
    return code in (204, 304)


def encode_hints(prefix: str, headers: Headers) -> bytes:
    """
    Return a 103 response with these fields (RFC 8297).

    Raises:
        AppError: a field is not valid.
    """
    head = f"{prefix}103 Early Hints\r\n"
    try:
        for name, value in headers:
            name, value = _to_plain(name), _to_plain(value)
            kind = _check_field_name(name)
            if kind in (CONTENT_LENGTH, HOP_BY_HOP):
                # RFC 9110 8.6, RFC 9112 6.1: framing fields are forbidden in a 1xx response.
                raise AppError(f"the app set {name}, a hop-by-hop field or Content-Length, in early hints")
            _check_field_value(name, value)
            head += f"{name}: {value}\r\n"
        return f"{head}\r\n".encode("latin-1")
    except AppError:
        raise
    except (TypeError, ValueError) as exc:
        raise _explain("103 Early Hints", headers) from exc


def _check_status(status: str) -> tuple[int, bool]:
    match = _STATUS.fullmatch(status)
    if match is None or _CONTROLS.search(status):
        raise AppError(f"status must be like '200 OK', not {status!r:.60}")
    code = int(match[1])
    if code < 200:
        raise AppError(f"{status!r:.60} is no status of a final response (RFC 9110 section 15.2)")
    known = (code, is_bodyless(code))
    if len(_known_statuses) < _KNOWN_MAX:
        _known_statuses[status] = known
    return known


def _check_field_name(name: str) -> int:
    if not _TOKEN.fullmatch(name):
        raise AppError(f"the response field name {name!r:.60} is not a token (RFC 9110 section 5.6.2)")
    kind = _SPECIAL_FIELDS.get(name.lower(), PLAIN)
    if len(_known_fields) < _KNOWN_MAX:
        _known_fields[name] = kind
    return kind


def _check_length(value: str, earlier: int) -> int:
    if not (value.isdecimal() and len(value) < 19):
        raise AppError(f"Content-Length must be digits, not {value!r:.60}")
    if earlier >= 0:
        raise AppError("the app set Content-Length twice")
    return int(value)


def _check_field_value(name: str, value: str) -> None:
    found = _CONTROLS.search(value)
    if found:  # the value may be a cookie: do not show the value
        raise AppError(
            f"control character {found[0]!r} in the response field {name}, after {found.start()} other characters"
        )


def _explain(status: object, headers: object) -> AppError:
    """Return an error about the argument of start_response behind a TypeError or ValueError."""
    if not isinstance(status, str):
        return AppError(f"status must be str, not {type(status).__name__}: {status!r:.60}")
    if not isinstance(headers, list):
        return AppError(f"headers must be a list of (name, value) pairs, not {type(headers).__name__}")
    for item in headers:
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            return AppError(f"headers must be (name, value) pairs, not {item!r:.80}")
        for text in item:
            if not isinstance(text, str):
                return AppError(f"response fields must be str, not {type(text).__name__}: {item!r:.80}")
            if text and max(text) > "\xff":
                return AppError(f"response fields must be latin-1 (PEP 3333 'Unicode Issues'): {item!r:.80}")
    return AppError(f"status must be latin-1: {status!r:.60}")
