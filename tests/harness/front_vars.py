"""The vars of front servers, in the parsers' order."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

Pair = TypeVar("Pair", bound=Sequence[str])

# cparsers/vars.h: vars that differ from request to request.
OWN = frozenset(
    [
        "CONTENT_LENGTH", "DOCUMENT_URI", "PATH_INFO", "PATH_TRANSLATED", "QUERY_STRING", "REMOTE_ADDR", "REMOTE_PORT", "REQUEST_URI",
        "SCRIPT_FILENAME", "SCRIPT_NAME",
    ]
)  # fmt: skip


def own_first(pairs: Iterable[Pair], *more: str) -> tuple[list[Pair], int]:
    """Return the request's own vars and the ones named in `more`, then the rest, each in order; and the number of the first."""
    pairs = list(pairs)
    own = [pair for pair in pairs if pair[0] in OWN or pair[0] in more]
    return own + [pair for pair in pairs if not (pair[0] in OWN or pair[0] in more)], len(own)
