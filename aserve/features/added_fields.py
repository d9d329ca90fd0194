"""Fields added to every response, such as security policies for browsers: --add-field.

Owns:     AddedFields, the extension; the settings and their grammar.
Thread:   any; pure.
Spec:     RFC 9110 sections 5.1 and 5.5.
Not here: the fields at the end of every head (wsgi/response.py).

If the app gives the same field, the response has both: aserve cannot know the app's wish.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.patterns import lazy_pattern
from ..extension import Extension
from ..settings import EngineSettings, row
from ..settings.kinds import NAME_CHARACTER, OWN_FIELDS, Kind, show_texts, texts_of

_FIELD = lazy_pattern(
    rf"({NAME_CHARACTER}+)\s*:\s*([\x21-\x7e\x80-\xff](?:[\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)"
)
# Each response has its own; a front server takes Status as the response's status (RFC 3875 section 6.3.3).
_OF_ONE_RESPONSE = frozenset((
    *OWN_FIELDS, "accept-ranges", "age", "content-encoding", "content-range", "content-type", "etag", "last-modified", "location", "status",
))  # fmt: skip


def parse_field(text: str) -> tuple[str, str]:
    """
    Parse `NAME: VALUE`; return both.

    Raises:
        ValueError: the text has another form, or the field differs between responses.
    """
    match = _FIELD.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not of the form NAME: VALUE, as in 'X-Content-Type-Options: nosniff'")
    name, value = match.groups()
    if name.lower() in _OF_ONE_RESPONSE:
        raise ValueError(
            f"{name} differs from response to response" if name.lower() != "server" else "Server is server-name's"
        )
    return name, value


def _parse_fields(value: object) -> tuple[str, ...]:
    return tuple(f"{name}: {value}" for name, value in map(parse_field, texts_of(value, str.splitlines)))


ADDED = Kind(
    "'NAME: VALUE'",
    "a field, as in 'Strict-Transport-Security: max-age=31536000'; in a variable one to a line",
    _parse_fields,
    show_texts,
)


class AddedFieldSettings(EngineSettings):
    """The settings of this feature."""

    # fmt: off
    add_field: Sequence[str] = row(
        (), "Serving", "--add-field", ADDED,
        "a field of every response, errors and files included, such as 'X-Content-Type-Options: nosniff'; repeatable; see `aserve docs added-fields`",
        "Only you know how browsers may use your pages. Each response grows by these octets; beyond 900, Python serves all "
        "requests, and --native none.",
    )
    # fmt: on


class AddedFields(Extension[AddedFieldSettings]):
    """--add-field."""

    switches = ("add_field",)

    def __init__(self, config: AddedFieldSettings) -> None:
        """See Extension."""
        super().__init__(config)
        self._fields = tuple(map(parse_field, config.add_field))

    def fields(self, is_tls: bool) -> Sequence[tuple[str, str]]:
        """See Extension."""
        return self._fields
