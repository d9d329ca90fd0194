"""What a line of the access log looks like: from what is kept of a request to text that no client can forge.

Owns:     LineFormat: a format compiled into a list of functions; escaping.
Thread:   who flushes the log, one at a time (access_log.py).
Spec:     Apache's mod_log_config (combined, common); RFC 8259 (json).
Not here: the values (log_values.py), how they are spelled (settings/log_line.py); when lines are made, and where they go (access_log.py).

A value is found in the request's field section alone, or in all else. A client sends the same section with each of its requests:
what was found there is remembered.
"""

from __future__ import annotations

import json
from operator import itemgetter
from typing import Any, Callable

from .exchange import escape
from .log_values import (
    JSON_FIELD_GETTERS,
    JSON_GETTERS,
    TIMED,
    Process,
    Record,
    Value,
    field_getter,
    getter_of,
    is_of_fields,
    pairs_of,
    split,
)
from .settings.log_line import JSON, NAMED, Atom, parse_line_format

# Field sections that are remembered, and how long one may be: 256 KiB at most, and as much for what is made of them. Guess.
_KNOWN_MAX = 128
_KNOWN_SIZE = 2048
_CREDENTIALS = "AUTHORIZATION\0"  # how a name ends
# Longer values are cut: 8190 is the longest request line by default, and a line must end somewhere.
MAX_VALUE = 8192


class LineFormat:
    """A format, and the lines that it gives; one thread at a time."""

    def __init__(self, text: str, worker: int | None = None) -> None:
        """`text`: --access-log-format; `worker`: see Process."""
        self._process = Process(worker)
        self._known: dict[str, tuple[object, ...]] = {}
        self.line = self._json_line
        self.wants_times, self.wants_head, self.wants_id = True, False, False  # see Service.times_requests, Record.head
        if text != JSON:
            self._compile(parse_line_format(NAMED.get(text, text)))
            self._escape = _escape_json if text.lstrip().startswith("{") else _escape_text
            self.line = self._text_line

    def _compile(self, pieces: list[str | Atom]) -> None:
        """Make the template, and what fills it."""
        atoms = [piece for piece in pieces if isinstance(piece, Atom)]
        names = {atom.name for atom in atoms}
        self.wants_times = not names.isdisjoint(TIMED)
        self.wants_head = "response_field" in names
        self.wants_id = "request_id" in names
        self._template = (
            "".join("%s" if isinstance(piece, Atom) else piece.replace("%", "%%") for piece in pieces) + "\n"
        )
        of_fields = [atom for atom in atoms if is_of_fields(atom)]
        others = [atom for atom in atoms if not is_of_fields(atom)]
        self._field_getters = [field_getter(atom) for atom in of_fields]
        self._getters = [getter_of(atom) for atom in others]
        # The values are found in this order, and the template wants them in its own.
        found = [*others, *of_fields]
        places = [found.index(atom) for atom in atoms]
        self._order: Callable[[tuple[object, ...]], Any] = itemgetter(*places) if len(places) > 1 else tuple

    # Lines: `line` is one of these

    def _text_line(self, record: Record) -> str:
        parts = split(record)
        fields: str = parts[-1]  # type: ignore[assignment]
        shown = self._known.get(fields)
        if shown is None:
            shown = self._show_fields(fields, record.is_from_front)
        line: str = self._template % self._order(
            (*[self._show(getter(self._process, record, parts)) for getter in self._getters], *shown)
        )
        return line

    def _show(self, value: Value) -> object:
        if type(value) is int:
            return value
        if type(value) is float:
            return f"{value:.6f}"
        return "-" if value is None else self._escape(value[:MAX_VALUE])  # type: ignore[index]

    def _show_fields(self, fields: str, is_from_front: bool) -> tuple[object, ...]:
        """Return what is asked for of a field section; keep it for the next request."""
        pairs = pairs_of(fields)
        shown = tuple([self._show(getter(pairs)) for getter in self._field_getters])
        # What is from a front server differs with each request, and so does a request's id; credentials are not to be kept.
        if len(fields) <= _KNOWN_SIZE and not (is_from_front or self.wants_id or _CREDENTIALS in fields):
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            self._known[fields] = shown
        return shown

    def _json_line(self, record: Record) -> str:
        parts = split(record)
        fields = pairs_of(parts[-1] or "")
        found: dict[str, Value] = {name: getter(self._process, record, parts) for name, getter in JSON_GETTERS.items()}
        found.update({name: getter(fields) for name, getter in JSON_FIELD_GETTERS.items()})
        found = {
            name: _decode(value[:MAX_VALUE]) if isinstance(value, str) else value
            for name, value in found.items()
            if value is not None and value != ""
        }
        return _encode_json(found) + "\n"


_escape_text = escape
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
