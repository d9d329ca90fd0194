"""Formats a line of the access log from a request's record, escaped against forged lines.

Owns:     LineFormat: a format compiled into a text with gaps, and the columns for the gaps; escaping.
Thread:   the thread of the flush, one at a time (log.py).
Spec:     Apache's mod_log_config (combined, common); RFC 8259 (json).
Not here: the values (log_values.py), their spelling in a format (log_line.py); the times of lines, and their target (log.py).

Many requests are equal, so two things are cached: the lines of this second, and the values taken from field sections.
"""

from __future__ import annotations

import functools
import json
import socket
from collections.abc import Iterable, Iterator
from operator import attrgetter, itemgetter
from typing import Any, Callable, Union

from ...core.ends import Ended
from ...core.exchange import escape, pairs_of
from ...core.named_tuple import NamedTuple
from .log_line import JSON, NAMED, Atom, parse_line_format
from .log_values import (
    HEADED,
    JSON_END,
    JSON_FIELDS,
    JSON_REQUEST,
    OF_END,
    OF_FIELDS,
    OF_REQUEST,
    TIMED,
    Process,
    Value,
    end_getter,
    field_getter,
    kind_of,
    record_of,
    request_getter,
    split,
)

# How many lines and field sections are cached, and the longest of each: 256 KiB of keys each, and as much of
# values. Guess.
_KNOWN_MAX = 128
_KNOWN_SIZE = 2048
_key_of = attrgetter("vars", "status", "size", "end", "addr")  # of an Ended: all that a line depends on but the time
LineKey = tuple[str, int, int, str, str]
_CREDENTIALS = "AUTHORIZATION\0"  # the end of a variable's name
# The indexes of values without a need of escaping in `_new_line`; the values of columns follow.
_PLACES = {"addr": 0, "status": 1, "size": 2, "rsize": 2, "end": 3, "ltime": 4, "size_or_dash": 5}
_COLUMNS_AT = 6
# Longer values are cut: 8190 is the longest request line by default, and a line must end somewhere.
MAX_VALUE = 8192

Show = Callable[[Value], str]


class Column(NamedTuple):
    """A value of a line: the way to find and to show the value."""

    kind: str  # OF_END, OF_REQUEST or OF_FIELDS
    get: Callable[..., Value]
    show: Show


_FINDERS: dict[str, Callable[[Atom], Callable[..., Value]]] = {
    OF_END: end_getter, OF_REQUEST: request_getter, OF_FIELDS: field_getter,
}  # fmt: skip
Piece = Union[str, int, Column]  # text; a value by the index in _PLACES; any further value


class LineFormat:
    """A compiled format; one thread at a time."""

    def __init__(self, text: str, worker: int | None = None, pid: int | None = None) -> None:
        """`text`: --access-log-format; `worker`, `pid`: see Process."""
        self._process = Process(worker, pid)
        self._second, self._stamp = 0.0, ""
        self._lines: dict[LineKey, str] = {}  # of this second
        self._fields: dict[str, list[str]] = {}  # by field section: the section's values in the line
        atoms = [] if text == JSON else parse_line_format(NAMED.get(text, text))
        names = {atom.name for atom in atoms if isinstance(atom, Atom)}
        self.wants_times = text == JSON or not names.isdisjoint(TIMED)  # see Service.times_requests
        self.wants_head = not names.isdisjoint(HEADED)
        self.wants_id = "request_id" in names
        show = functools.partial(show_text, escape_of(text))
        self._show: Show = show
        pieces = list(_json_pieces() if text == JSON else _text_pieces(atoms, show))
        self._text = "".join(piece.replace("%", "%%") if isinstance(piece, str) else "%s" for piece in pieces)
        columns = {
            kind: [piece for piece in pieces if isinstance(piece, Column) and piece.kind is kind]
            for kind in (OF_END, OF_REQUEST, OF_FIELDS)
        }
        self._of_end, self._of_request, self._of_fields = columns.values()
        ordered = [column for found in columns.values() for column in found]
        places = [
            _COLUMNS_AT + ordered.index(piece) if isinstance(piece, Column) else piece
            for piece in pieces
            if not isinstance(piece, str)
        ]
        self._choose: Callable[[Any], Any] = itemgetter(*places) if len(places) > 1 else _one_of(places)
        self._repeats = not (self._of_end or self.wants_id)  # else each request has a line of its own

    def lines(self, ended: Iterable[Ended], epoch: float) -> list[str]:
        """Return a line for each request; `epoch`: seconds between the Unix epoch and time.monotonic()'s zero."""
        made: list[str] = []
        add, get, second, next_second = made.append, self._lines.get, self._second, self._second + 1.0
        for each in ended:
            at = epoch + each.ended_at
            if not second <= at < next_second:
                second, next_second = self._begin_second(at)
            line = get(_key_of(each))
            if line is None or each.is_from_front:
                line = self._new_line(each, at)
            add(line)
        return made

    def _begin_second(self, at: float) -> tuple[float, float]:
        """Drop the cached lines of another second; return when this second begins, and when the next."""
        self._second, self._stamp = float(int(at)), self._process.stamp(at)
        self._lines.clear()
        return self._second, self._second + 1.0

    def _new_line(self, ended: Ended, at: float) -> str:
        """Return a line; cache it for an equal request in this second."""
        vars, is_from_front = ended.vars, ended.is_from_front
        parts = split(vars, is_from_front)
        client: str | None = ended.addr
        addr = ended.addr
        if is_from_front and vars:
            client, addr = parts[0], self._show(parts[0])
        fields = parts[-1] or ""
        shown = self._fields.get(fields)
        if shown is None:
            shown = self._show_fields(fields, is_from_front)
        values = [addr or "-", ended.status, ended.size, ended.end, self._stamp, ended.size or "-"]
        if self._of_end:
            process, record = self._process, record_of(ended, at, client or "-")
            values += [show(get(process, record)) for _, get, show in self._of_end]
        for _, get, show in self._of_request:
            values.append(show(get(parts)))
        values += shown
        line: str = self._text % self._choose(values)
        if self._repeats and fields in self._fields and len(vars) <= _KNOWN_SIZE:
            _keep(self._lines, _key_of(ended), line)
        return line

    def _show_fields(self, fields: str, is_from_front: bool) -> list[str]:
        """Return the values of a field section; cache them for the next request with the same section."""
        pairs = pairs_of(fields)
        shown = [show(get(pairs)) for _, get, show in self._of_fields]
        # Vars of a front server, and a request's id, differ in each request; credentials must not be kept.
        if not (len(fields) > _KNOWN_SIZE or is_from_front or self.wants_id or _CREDENTIALS in fields):
            _keep(self._fields, fields, shown)
        return shown


def _one_of(places: list[int]) -> Callable[[Any], Any]:
    """Return an itemgetter with a tuple also for one place, or none."""
    return lambda values: tuple([values[place] for place in places])


def _keep(known: dict[Any, Any], key: object, value: object) -> None:
    if len(known) >= _KNOWN_MAX:
        known.clear()  # full: present ones are added again
    known[key] = value


def _text_pieces(parts: Iterable[str | Atom], show: Show) -> Iterator[Piece]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif part.name in _PLACES:
            yield _PLACES[part.name]
        elif part.name == "-":
            yield "-"
        elif part.name == "hostname":
            yield show(socket.gethostname())
        else:
            kind = kind_of(part)
            yield Column(kind, _FINDERS[kind](part), show)
    yield "\n"


def escape_of(text: str) -> Callable[[str], str]:
    """Return the escaping function for the values of a format."""
    return _escape_json if is_json(text) else escape


def is_json(text: str) -> bool:
    """Whether a format makes lines of JSON."""
    return text == JSON or text.lstrip().startswith("{")


def show_text(escape: Callable[[str], str], value: Value) -> str:
    """Return a value as text for a line outside JSON."""
    if type(value) is str:
        return escape(value[:MAX_VALUE])
    if type(value) is float:
        return f"{value:.6f}"
    return "-" if value is None else str(value)


def _json_pieces() -> Iterator[Piece]:
    yield '{"timestamp": "'
    yield Column(OF_END, lambda process, record: process.iso_time(record.at), str)
    yield f'"{show_json("host.name", socket.gethostname())}'
    for kind, found in ((OF_REQUEST, JSON_REQUEST), (OF_END, JSON_END), (OF_FIELDS, JSON_FIELDS)):
        for name, get in found.items():
            yield Column(kind, get, functools.partial(show_json, name))
    yield "}\n"


def show_json(name: str, value: Value) -> str:
    """Return a JSON name and value, with a comma in front; "" for no value."""
    if type(value) is str:
        return f', "{name}": {_encode_json(_decode(value[:MAX_VALUE]))}' if value else ""
    return "" if value is None else f', "{name}": {value}'


_encode_json = json.JSONEncoder(ensure_ascii=True, check_circular=False).encode


def _escape_json(text: str) -> str:
    return _encode_json(_decode(text))[1:-1]


def _decode(text: str) -> str:
    """Decode octets, given as latin-1: as UTF-8 if valid."""
    if text.isascii():
        return text
    try:
        return text.encode("latin-1").decode()
    except UnicodeError:
        return text
