"""The values of a line in the access log, and the record behind them.

Owns:     Record, the facts of one ended request; a getter for each value; the values of the JSON format.
Thread:   the thread of the flush, one at a time (log.py).
Spec:     gunicorn's atoms; uWSGI's log-format; OpenTelemetry's semantic conventions for HTTP, 1.23 and later (json).
Not here: the spelling of values (log_line.py), escaping and formatting (log_format.py, and native/lines.h for plain requests).
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import threading
import time
import weakref
from operator import itemgetter
from typing import Callable, Optional, Union
from urllib.parse import unquote

from ...core.ends import Ended
from ...core.exchange import WORKER_DIED, pairs_of
from ...core.local_time import local_time, show_offset
from ...core.named_tuple import NamedTuple
from ...wsgi.request_id import MAX_REQUEST_ID
from .log_line import Atom

# The strings before the field section in an HTTP parser's vars: five names and values.
_REQUEST_PARTS = 10


class RequestTimes(NamedTuple):
    """Times of a request by time.monotonic(); 0.0: no such event so far."""

    arrived_at: float
    began_at: float
    ended_at: float
    thread_id: int  # of the worker

    @property
    def duration(self) -> float | None:
        """Return the seconds from the arrival to the end."""
        return self.ended_at - self.arrived_at if self.arrived_at else None

    @property
    def queue_wait(self) -> float | None:
        """Return the seconds from the arrival until a worker began."""
        return self.began_at - self.arrived_at if self.arrived_at and self.began_at else None


class Record(NamedTuple):
    """The facts of one ended request, for getters."""

    vars: str
    is_from_front: bool
    client: str  # the address, or "-"; with a front server the address is in the vars
    status: int  # 0: no response
    size: int  # sent octets of the body
    end: str
    at: float  # time.time() at the end
    times: RequestTimes
    head: bytes = b""  # of the response, if needed by the format


Value = Union[str, int, float, None]
# The request line of an HTTP parser's vars: method, target, decoded path, query and protocol have the odd indexes. Index 0 is the client, if named
# by a front server; the last is the field section.
Parts = list[Optional[str]]
EndGetter = Callable[["Process", Record], Value]
RequestGetter = Callable[[Parts], Value]
Fields = dict[str, str]
FieldGetter = Callable[[Fields], Value]


def record_of(ended: Ended, at: float, client: str | None = None) -> Record:
    """Return the record of an end; `at`: its time of day, `client`: its address, if a front server has named it."""
    times = RequestTimes(ended.arrived_at, ended.began_at, ended.ended_at, ended.thread_id)
    return Record(
        ended.vars,
        ended.is_from_front,
        client or ended.addr or "-",
        ended.status,
        ended.size,
        ended.end,
        at,
        times,
        ended.head,
    )


class Process:
    """The process of the log's lines: numbers, and caches of times and thread names."""

    def __init__(self, worker: int | None = None, pid: int | None = None) -> None:
        self.worker = worker  # the worker process's number; None: there is no supervisor
        self.pid = pid or os.getpid()  # of the process of the requests
        self._second, self._stamp = -1, ""
        self._iso_second, self._iso_stamp = -1, ""
        self._threads: dict[int | None, tuple[Callable[[], threading.Thread | None], str]] = {}
        self._count = 0

    def next_count(self) -> int:
        """Return the number of a line with a number."""
        self._count += 1
        return self._count

    def stamp(self, at: float) -> str:
        """Return the time in Apache's form."""
        second = int(at)
        if second != self._second:
            stamp = time.strftime("%d/%b/%Y:%H:%M:%S ", local_time(second))
            self._second, self._stamp = second, stamp + show_offset(second)
        return self._stamp

    def iso_time(self, at: float) -> str:
        """Return the time in the form of RFC 3339, with milliseconds."""
        second = int(at)
        if second != self._iso_second:
            self._iso_second, self._iso_stamp = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._iso_stamp}.{int(at % 1 * 1000):03d}Z"

    def thread_name(self, thread_id: int) -> str:
        """Return the name of a worker thread; of an ended thread, the number."""
        known = self._threads.get(thread_id) or (lambda: None, str(thread_id))
        thread = known[0]()
        if thread is None or not thread.is_alive():
            # The system gives the number of an ended thread to the next.
            self._threads = {each.ident: (weakref.ref(each), each.name) for each in threading.enumerate()}
            known = self._threads.setdefault(thread_id, known)
        return known[1]


# Values of a request's end


def _at_start(get: Callable[[Process, Record], Value], per_second: int = 1) -> EndGetter:
    """Return a getter with the beginning of a request in place of the end."""
    return lambda process, record: get(
        process, record._replace(at=(record.at - (record.times.duration or 0.0)) * per_second)
    )


def _whole(per_second: int) -> EndGetter:
    """Return a getter of the duration in whole parts of a second."""

    def get(process: Process, record: Record) -> Value:
        duration = _duration(process, record)
        return None if duration is None else int(duration * per_second)

    return get


def _duration(process: Process, record: Record) -> float | None:
    return record.times.duration


def _queue_wait(process: Process, record: Record) -> Value:
    return record.times.queue_wait


def _thread(process: Process, record: Record) -> Value:
    return process.thread_name(record.times.thread_id) if record.times.thread_id else None


def _core(process: Process, record: Record) -> Value:
    """Return the number of the thread, from 0, as uWSGI's core."""
    match = re.search(r"([0-9]+)\Z", process.thread_name(record.times.thread_id))
    return max(0, int(match[1]) - 1) if match and len(match[1]) < 5 else 0  # a longer number belongs to an ended thread


def _counts(process: Process, record: Record) -> Value:
    """Return how many lines this process has shown, twice: uWSGI has the number of all workers there."""
    count = process.next_count()
    return f"{count}/{count}"


def _vars_count(process: Process, record: Record) -> int:
    return (record.vars.count("\0") + 1) // 2 if record.vars else 0


def _packet_bytes(process: Process, record: Record) -> Value:
    """Return the octets of the variables in a packet of uwsgi: two before each name, and each value."""
    return len(record.vars) - record.vars.count("\0") + 4 * _vars_count(process, record)


def _header_count(process: Process, record: Record) -> Value:
    return sum(1 for line in record.head.split(b"\r\n")[1:] if line)


def _head_bytes(record: Record) -> int:
    return len(record.head) + len(b"\r\n") if record.head else 0


def _response_field(name: str) -> EndGetter:
    """Return a getter of a response field."""
    pattern = re.compile(rb"\r\n" + re.escape(name.encode("ascii")) + rb":[ \t]*([^\r]*)", re.IGNORECASE)

    def get(process: Process, record: Record) -> Value:
        match = pattern.search(record.head)
        return match[1].decode("latin-1") if match else None

    return get


END_GETTERS: dict[str, EndGetter] = {
    "addr": lambda process, record: record.client,
    "ltime": lambda process, record: process.stamp(record.at),
    "[ltime]": lambda process, record: f"[{process.stamp(record.at)}]",
    "ctime": lambda process, record: time.asctime(local_time(record.at)),
    "time": lambda process, record: int(record.at),
    "epoch": lambda process, record: int(record.at),
    "status": lambda process, record: record.status,
    "size": lambda process, record: record.size,
    "rsize": lambda process, record: record.size,
    "size_or_dash": lambda process, record: record.size or None,
    "secs": _whole(1),
    "msecs": _whole(1000),
    "micros": _whole(1_000_000),
    "duration": _duration,
    "queue_wait": _queue_wait,
    "thread": _thread,
    "worker": lambda process, record: process.worker,
    "wid": lambda process, record: process.worker or 0,  # as uWSGI's worker_id() without workers
    "pid": lambda process, record: process.pid,
    "<pid>": lambda process, record: f"<{process.pid}>",
    "end": lambda process, record: record.end,
    "counts": _counts,
    "vars": _vars_count,
    "pktsize": _packet_bytes,
    "headers": _header_count,
    "hsize": lambda process, record: _head_bytes(record),
    "switches": lambda process, record: 1,  # between greenlets, none here: uWSGI has 1 for an app of one part
    "core": _core,
    "sent": lambda process, record: record.size + _head_bytes(record),
}
END_GETTERS.update({f"start.{name}": _at_start(END_GETTERS[name]) for name in ("time", "ltime", "ctime")})
END_GETTERS["tmsecs"] = _at_start(END_GETTERS["time"], 1000)
END_GETTERS["tmicros"] = _at_start(END_GETTERS["time"], 1_000_000)
OF_START = {"start.time", "start.ltime", "start.ctime", "tmsecs", "tmicros"}
TIMED = {"secs", "msecs", "micros", "duration", "queue_wait", "thread", "core", "end"} | OF_START
HEADED = {"response_field", "headers", "hsize", "sent"}

# Values of the request line


def _request(parts: Parts) -> Value:
    return f"{parts[1] or '-'} {parts[3] or '-'} {parts[9] or '-'}" if any(parts) else None


def _path(parts: Parts) -> Value:
    return parts[3].partition("?")[0] if parts[3] else parts[5]


def _part(place: int) -> RequestGetter:
    return itemgetter(place)


_REQUEST_GETTERS: dict[str, RequestGetter] = {
    "-": lambda parts: None,
    "request": _request,
    "method": _part(1),
    "uri": _part(3),
    "path": _path,
    "query": lambda parts: parts[7] or "",
    "proto": _part(9),
}

# Values of the field section: variables by their CGI names.


def _user(fields: Fields) -> Value:
    """Return the user's name from the front server, or from Basic authentication (RFC 7617), not verified here."""
    scheme, _, credentials = fields.get("HTTP_AUTHORIZATION", "").partition(" ")
    if fields.get("REMOTE_USER") or scheme.lower() != "basic":
        return fields.get("REMOTE_USER") or None
    try:
        return base64.b64decode(credentials.strip(), validate=True).partition(b":")[0].decode("latin-1") or None
    except (binascii.Error, ValueError):
        return None


def _request_id(fields: Fields) -> Value:
    sent = fields.get("HTTP_X_REQUEST_ID")
    return sent[:MAX_REQUEST_ID] if sent else None


def _field(name: str) -> FieldGetter:
    return lambda fields: fields.get(name)


_FIELD_GETTERS: dict[str, FieldGetter] = {
    "user": _user,
    "request_id": _request_id,
    "remote_user": lambda fields: fields.get("REMOTE_USER", ""),  # without a hyphen
    "cl": lambda fields: fields.get("CONTENT_LENGTH") or "0",
}
_NAMES = {"referer": "HTTP_REFERER", "uagent": "HTTP_USER_AGENT", "host": "HTTP_HOST"}
_PLACES = {"REQUEST_METHOD": 1, "REQUEST_URI": 3, "PATH_INFO": 5, "QUERY_STRING": 7, "SERVER_PROTOCOL": 9}
# RFC 3875 4.1: without HTTP_ before their names.
_BARE = ("CONTENT_TYPE", "CONTENT_LENGTH")


OF_REQUEST, OF_FIELDS, OF_END = "request", "fields", "end"


def kind_of(atom: Atom) -> str:
    """Return the part of a record with a value: OF_REQUEST, OF_FIELDS or OF_END."""
    if atom.name == "variable":
        return OF_REQUEST if atom.argument in _PLACES else OF_END if atom.argument == "REMOTE_ADDR" else OF_FIELDS
    if atom.name in END_GETTERS or atom.name == "response_field":
        return OF_END
    return OF_REQUEST if atom.name in _REQUEST_GETTERS else OF_FIELDS


def name_of(atom: Atom) -> str | None:
    """Return the CGI variable whose value is shown unchanged; None: the atom is no such variable."""
    if atom.name == "variable":
        return atom.argument
    if atom.name == "field":
        name = atom.argument.upper().replace("-", "_")
        return name if name in _BARE else f"HTTP_{name}"
    return _NAMES.get(atom.name)


def field_getter(atom: Atom) -> FieldGetter:
    """Return the getter of a value in the field section."""
    name = name_of(atom)
    return _FIELD_GETTERS[atom.name] if name is None else _field(name)


def request_getter(atom: Atom) -> RequestGetter:
    """Return the getter of a value in the rest of the request."""
    return _part(_PLACES[atom.argument]) if atom.name == "variable" else _REQUEST_GETTERS[atom.name]


def end_getter(atom: Atom) -> EndGetter:
    """Return the getter of a value of the request's end."""
    if atom.name == "response_field":
        return _response_field(atom.argument)
    return END_GETTERS["addr" if atom.name == "variable" else atom.name]


JSON_REQUEST: dict[str, RequestGetter] = {
    "http.request.method": _part(1),
    "url.path": _path,
    "url.query": _part(7),
    "network.protocol.version": lambda parts: (parts[9] or "").partition("/")[2],
}
JSON_END: dict[str, EndGetter] = {
    "client.address": lambda process, record: record.client if record.client != "-" else None,
    "http.response.status_code": lambda process, record: record.status or None,
    "http.response.body.size": END_GETTERS["size"],
    "http.server.request.duration": _duration,
    "aserve.queue_wait": _queue_wait,
    "aserve.end": END_GETTERS["end"],
    "aserve.worker": END_GETTERS["worker"],
    "process.pid": END_GETTERS["pid"],
    "thread.name": _thread,
}
JSON_FIELDS: dict[str, FieldGetter] = {
    "user_agent.original": _field("HTTP_USER_AGENT"),
    "http.request.header.host": _field("HTTP_HOST"),
    "http.request.header.referer": _field("HTTP_REFERER"),
    "http.request.header.x-request-id": _request_id,
    "http.request.header.traceparent": _field("HTTP_TRACEPARENT"),
}


def died(text: str, seconds: float) -> Ended:
    """Return the end of a request lost with a process: "METHOD target", escaped, and the seconds so far."""
    method, _, target = re.sub(r"\\x([0-9a-f]{2})", lambda match: chr(int(match[1], 16)), text).partition(" ")
    path, _, query = target.partition("?")
    pairs = {
        "REQUEST_METHOD": method, "REQUEST_URI": target, "PATH_INFO": unquote(path, "latin-1"), "QUERY_STRING": query,
        "SERVER_PROTOCOL": "",
    }  # fmt: skip
    vars, now = "\0".join(part for pair in pairs.items() for part in pair), time.monotonic()
    return Ended(vars, False, "", 0, 0, WORKER_DIED, now - seconds, 0.0, 0.0, now, 0, False, b"")


def request_path(record: Record) -> str:
    """Return the decoded path, in the app's form."""
    return split(record.vars, record.is_from_front)[5] or ""


def split(vars: str, is_from_front: bool) -> Parts:
    parts: Parts
    if not is_from_front:
        parts = vars.split("\0", _REQUEST_PARTS)  # type: ignore[assignment]
        if len(parts) == _REQUEST_PARTS + 1:
            return parts
    pairs = pairs_of(vars)  # of a front server, in any order; or of HTTP/1.0 without a field; or empty
    get = pairs.get
    uri = get("REQUEST_URI") or get("PATH_INFO")
    return [
        get("REMOTE_ADDR"), get("REQUEST_METHOD"), None, uri, None, get("PATH_INFO") or get("DOCUMENT_URI"), None,
        get("QUERY_STRING"), None, get("SERVER_PROTOCOL"), vars if is_from_front else "",
    ]  # fmt: skip
