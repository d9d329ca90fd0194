"""Compiles a format of the access log for native/lines.c, with the callbacks.

Owns:     KINDS, the values known to native/lines.c; `new_program`, the compiler of a format of such values alone.
Thread:   `new_program` the event loop; the callbacks any worker: they keep no state.
Not here: formatting in C (native/lines.h), and in Python for all other formats (log_format.py).
"""

from __future__ import annotations

import functools
import socket
from collections.abc import Iterator
from typing import Callable, Optional, Union

from .log_format import escape_of, is_json, show_json, show_text
from .log_line import JSON, NAMED, Atom, parse_line_format
from .log_values import (
    END_GETTERS,
    JSON_END,
    JSON_FIELDS,
    JSON_REQUEST,
    OF_START,
    Process,
    Record,
    RequestTimes,
    Value,
    name_of,
)

# In the order of native/line_values.h.
KINDS = [
    "text", "second", "millis", "field", "request_id", "user", "request", "method", "uri", "path", "path_info", "query_or_none", "query",
    "proto", "version", "addr", "client", "status", "status_or_none", "size", "size_or_dash", "end", "secs", "msecs", "micros", "duration", "queue_wait",
    "thread",
]  # fmt: skip
_MOST_NAMES = 30  # the most variables for native/lines.c to look up, less the lines' own
# A value: the kind; a variable's name, or the index of a text of the second; the text in front; whether that text is a JSON name, left out together
# with an empty value.
Piece = tuple[int, Union[str, int], bytes, bool]
# The begin and the end of a second, by time.monotonic(); the second's texts, such as the time of day.
Second = tuple[float, float, tuple[bytes, ...]]
# The values of a line; whether they are escaped as in JSON; whether the second is the one of the request's beginning; the callbacks for a second's
# texts, and for a thread's name.
Program = tuple[tuple[Piece, ...], bool, bool, Callable[[float], Second], Callable[[int], bytes]]

_OF_SECOND = {"ltime", "[ltime]", "ctime", "time", "epoch", "start.time", "start.ltime", "start.ctime"}
_OF_PROCESS = {"worker", "wid", "pid", "<pid>"}
_SAME = {"rsize": "size"}
_VARIABLES = {
    "REQUEST_METHOD": "method", "REQUEST_URI": "uri", "PATH_INFO": "path_info", "QUERY_STRING": "query_or_none", "SERVER_PROTOCOL": "proto",
    "REMOTE_ADDR": "addr",
}  # fmt: skip
_ISO = "iso"
_JSON_KINDS = {
    "http.request.method": "method", "url.path": "path", "url.query": "query_or_none", "network.protocol.version": "version",
    "client.address": "client", "http.response.status_code": "status_or_none", "http.response.body.size": "size",
    "http.server.request.duration": "duration", "aserve.queue_wait": "queue_wait", "aserve.end": "end", "thread.name": "thread",
    "user_agent.original": "HTTP_USER_AGENT", "http.request.header.host": "HTTP_HOST", "http.request.header.referer": "HTTP_REFERER",
    "http.request.header.x-request-id": "request_id", "http.request.header.traceparent": "HTTP_TRACEPARENT",
}  # fmt: skip
_ARGUMENTS = {"request_id": "HTTP_X_REQUEST_ID", "user": "REMOTE_USER"}
# The fields of proxies are not always in the vars when a line is made: see native/taken.h.
_TOLD = ("HTTP_FORWARDED", "HTTP_X_FORWARDED", "HTTP_X_REAL_IP")
# A text; or a value's kind, the variable needed, and the name in JSON.
_Part = Union[str, tuple[str, Union[str, int], Optional[str]]]


def new_program(text: str, epoch: Callable[[], float], worker: int | None = None) -> Program | None:
    """
    Return the program of a format; None: a value is unknown to native/lines.c.

    `text`, `worker`: see LineFormat; `epoch`: returns the seconds between the Unix epoch and time.monotonic()'s zero.
    """
    show = functools.partial(show_text, escape_of(text))
    process = Process(worker)
    seconds: list[str] = []
    try:
        parts: list[_Part] = list(
            _json_parts(process, seconds) if text == JSON else _text_parts(text, process, show, seconds)
        )
    except LookupError:
        return None
    starts = {name in OF_START for name in seconds}
    if len(starts) > 1:
        return None
    if len({part[1] for part in parts if not isinstance(part, str)}) > _MOST_NAMES:
        return None

    def on_second(ended_at: float) -> Second:
        since = epoch()
        at = since + ended_at
        begins = int(at) - since
        return begins, begins + 1.0, tuple(_of_second(name, at, show).encode() for name in seconds)

    return tuple(_joined(parts)), is_json(text), True in starts, on_second, _name_of_thread


def _joined(parts: list[_Part]) -> Iterator[Piece]:
    before = ""
    for part in [*parts, "\n"]:
        if isinstance(part, str):
            before += part
            continue
        kind, argument, name = part
        if name is not None and before:
            yield KINDS.index("text"), 0, before.encode(), False
            before = ""
        yield KINDS.index(kind), argument, (before or name or "").encode(), name is not None
        before = ""
    yield KINDS.index("text"), 0, before.encode(), False


def _text_parts(text: str, process: Process, show: Callable[[Value], str], seconds: list[str]) -> Iterator[_Part]:
    """
    Yield the parts of a format in text.

    Raises:
        LookupError: native/lines.c cannot show a value.
    """
    for atom in parse_line_format(NAMED.get(text, text)):
        if isinstance(atom, str):
            if "".join(atom.splitlines()) != atom:
                raise LookupError(atom)
            yield atom
        elif atom.name == "-":
            yield "-"
        elif atom.name == "hostname":
            yield show(socket.gethostname())
        elif atom.name in _OF_PROCESS:
            yield show(END_GETTERS[atom.name](process, _NOBODY))
        elif atom.name in _OF_SECOND:
            yield _second(atom.name, seconds)
        else:
            kind, argument = _value(atom)
            yield kind, argument, None


def _value(atom: Atom) -> tuple[str, str]:
    if atom.name == "variable" and atom.argument in _VARIABLES:
        return _VARIABLES[atom.argument], ""
    name = name_of(atom)
    if name is not None:
        if name.startswith(_TOLD) or not name.isascii():
            raise LookupError(name)
        return "field", name
    kind = _SAME.get(atom.name, atom.name)
    if kind not in KINDS:
        raise LookupError(kind)
    return kind, _ARGUMENTS.get(kind, "")


def _second(name: str, seconds: list[str]) -> _Part:
    seconds.append(name)
    return "second", len(seconds) - 1, None


def _json_parts(process: Process, seconds: list[str]) -> Iterator[_Part]:
    yield '{"timestamp": "'
    yield _second(_ISO, seconds)
    yield "."
    yield "millis", 0, None
    yield f'Z"{show_json("host.name", socket.gethostname())}'
    for name in (*JSON_REQUEST, *JSON_END, *JSON_FIELDS):
        kind, prefix = _JSON_KINDS.get(name), f', "{name}": '
        if kind is None:
            yield show_json(name, JSON_END[name](process, _NOBODY))
        elif kind in KINDS:
            yield kind, _ARGUMENTS.get(kind, ""), prefix
        else:
            yield "field", kind, prefix
    yield "}"


_NOBODY = Record("", False, "-", 0, 0, "", 0.0, RequestTimes(0.0, 0.0, 0.0, 0))


def _of_second(name: str, at: float, show: Callable[[Value], str]) -> str:
    process = Process()  # not shared: the caches are for one thread
    if name == _ISO:
        return process.iso_time(at).partition(".")[0]
    value = END_GETTERS[name](process, _NOBODY._replace(at=at))
    return value if name.endswith("ltime") and isinstance(value, str) else show(value)


def _name_of_thread(thread_id: int) -> bytes:
    return Process().thread_name(thread_id).encode("latin-1", "replace")
