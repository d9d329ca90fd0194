"""What a line of the access log looks like: from what is kept of a request to text that no client can forge.

Owns:     LineFormat: a format compiled into a list of functions; escaping.
Thread:   who flushes the log, one at a time (access_log.py).
Spec:     Apache's mod_log_config (combined, common); RFC 8259 (json).
Not here: the values (log_values.py), how they are spelled (settings/log_line.py); when lines are made, and where they go (access_log.py).

A request of the same vars as one before, but for its end, costs a look into a dict: many clients ask the same again and again.
One whose field section alone is known costs more, and one of which nothing is known the most.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from operator import itemgetter
from typing import Any, Callable

from .exchange import escape
from .log_values import (
    JSON_END,
    JSON_FIELDS,
    JSON_REQUEST,
    OF_END,
    OF_FIELDS,
    TIMED,
    Kept,
    Process,
    Record,
    Value,
    client_of,
    end_getter,
    field_getter,
    iso_time,
    kind_of,
    pairs_of,
    record_of,
    request_getter,
    split,
)
from .settings.log_line import JSON, NAMED, Atom, parse_line_format

# Vars and field sections that are remembered, and how long they may be: 512 KiB at most, and as much for what is made of them. Guess.
_KNOWN_MAX = 128
_KNOWN_SIZE = 2048
_CREDENTIALS = "AUTHORIZATION\0"  # how a name ends
# Where `lines` puts these values; others are behind them.
_PLACES = {"addr": 0, "status": 1, "size": 2, "rsize": 2, "end": 3, "ltime": 4, "size_or_dash": 5}
_OTHERS_AT = 6
# Longer values are cut: 8190 is the longest request line by default, and a line must end somewhere.
MAX_VALUE = 8192


class LineFormat:
    """A format, and the lines that it gives; one thread at a time."""

    def __init__(self, text: str, worker: int | None = None) -> None:
        """`text`: --access-log-format; `worker`: see Process."""
        self._process = Process(worker)
        self._second, self._stamp = 0, ""
        self._templates: dict[str, str] = {}  # by vars: the format with what they say; how the request ended is to come
        self._fields: dict[str, dict[Atom, str]] = {}  # by field sections: what is asked for of them
        self._is_json = text == JSON
        self._pieces = [] if self._is_json else parse_line_format(NAMED.get(text, text))
        self._escape = _escape_json if text.lstrip().startswith("{") else escape
        atoms = [piece for piece in self._pieces if isinstance(piece, Atom)]
        names = {atom.name for atom in atoms}
        self.wants_times = self._is_json or not names.isdisjoint(TIMED)  # see Service.times_requests
        self.wants_head = "response_field" in names
        self.wants_id = "request_id" in names
        self._of_fields = [atom for atom in atoms if kind_of(atom) is OF_FIELDS]
        of_end = [atom for atom in atoms if kind_of(atom) is OF_END]
        others = [atom for atom in of_end if atom.name not in _PLACES]
        self._others = [end_getter(atom) for atom in others]
        places = [_PLACES.get(atom.name, _OTHERS_AT + others.index(atom) if atom in others else 0) for atom in of_end]
        self._values: Callable[[Any], Any] = itemgetter(*places) if len(places) > 1 else _one_or_none(places)

    def lines(self, requests: Iterable[Kept]) -> list[str]:
        """Return a line for each of these."""
        if self._is_json:
            return [self._json_line(record_of(kept)) for kept in requests]
        made: list[str] = []
        add, get, values, others = made.append, self._templates.get, self._values, self._others
        second, stamp = self._second, self._stamp
        for kept in requests:
            exchange, status, size, at, _, _ = kept
            if not second <= at < second + 1:
                second, stamp = int(at), self._process.stamp(at)
            client = (exchange.client or exchange.connection).remote_addr or "-"
            template = get(exchange.vars)
            if template is None or exchange.is_from_front:
                record = record_of(kept)
                template, client = self._new_template(record), self._show(client_of(record))
            if others:
                record = record_of(kept)
                shown = [self._show(getter(self._process, record)) for getter in others]
                add(template % values((client, status, size, exchange.end, stamp, size or "-", *shown)))
            else:
                add(template % values((client, status, size, exchange.end, stamp, size or "-")))
        self._second, self._stamp = second, stamp
        return made

    def _new_template(self, record: Record) -> str:
        """Return the format with what the request says; keep it for the next that says the same."""
        vars, parts = record.vars, split(record)
        fields: str = parts[-1]  # type: ignore[assignment]
        # What is from a front server differs with each request, and so does a request's id; credentials are not to be kept.
        is_kept = len(vars) <= _KNOWN_SIZE and not (record.is_from_front or self.wants_id or _CREDENTIALS in fields)
        shown = self._fields.get(fields)
        if shown is None:
            pairs = pairs_of(fields)
            shown = {atom: self._show(field_getter(atom)(pairs)).replace("%", "%%") for atom in self._of_fields}
            if is_kept:
                _keep(self._fields, fields, shown)
        template = ""
        for piece in self._pieces:
            if isinstance(piece, str):
                template += piece.replace("%", "%%")
            elif kind_of(piece) is OF_END:
                template += "%s"
            elif piece in shown:
                template += shown[piece]
            else:
                template += self._show(request_getter(piece)(record, parts)).replace("%", "%%")
        template += "\n"
        if is_kept:
            _keep(self._templates, vars, template)
        return template

    def _show(self, value: Value) -> str:
        if type(value) is str:
            return self._escape(value[:MAX_VALUE])
        if type(value) is float:
            return f"{value:.6f}"
        return "-" if value is None else str(value)

    def _json_line(self, record: Record) -> str:
        parts, process = split(record), self._process
        fields = pairs_of(parts[-1] or "")
        found: dict[str, Value] = {"timestamp": iso_time(record.at), "client.address": client_of(record)}
        found.update({name: getter(record, parts) for name, getter in JSON_REQUEST.items()})
        found.update({name: getter(process, record) for name, getter in JSON_END.items()})
        found.update({name: getter(fields) for name, getter in JSON_FIELDS.items()})
        found = {
            name: _decode(value[:MAX_VALUE]) if isinstance(value, str) else value
            for name, value in found.items()
            if value is not None and value != ""
        }
        return _encode_json(found) + "\n"


def _one_or_none(places: list[int]) -> Callable[[Any], Any]:
    """Return what itemgetter would be for one place, or none, if it returned tuples then, too."""
    return lambda found: tuple([found[place] for place in places])


def _keep(known: dict[str, Any], key: str, value: object) -> None:
    if len(known) >= _KNOWN_MAX:
        known.clear()  # there are many: those that go on are added again
    known[key] = value


_encode_json = json.JSONEncoder(ensure_ascii=True, check_circular=False).encode


def _escape_json(text: str) -> str:
    return _encode_json(_decode(text))[1:-1]


def _decode(text: str) -> str:
    """Return what octets as latin-1 mean: UTF-8, if they are that."""
    if text.isascii():
        return text
    try:
        return text.encode("latin-1").decode()
    except UnicodeError:
        return text
