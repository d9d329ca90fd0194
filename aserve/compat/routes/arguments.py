"""Arguments of a route's action: text with placeholders for variables of the environ and groups of the pattern.

Owns:     compile_argument, compile_text, fill.
Thread:   compiling: any; filling: a worker.
Spec:     uWSGI 2.0.31, core/routing.c (uwsgi_routing_translate).
Not here: splitting a route into its parts (__init__.py), what an action does with its arguments (__init__.py, guards.py, changes.py).
"""

from __future__ import annotations

import re
from typing import NamedTuple, Union

from ...core.patterns import lazy_pattern
from ...wsgi.environ import Environ


class Pair(NamedTuple):
    """The value of a name in a variable of several, such as ${cookie[NAME]}."""

    variable: str
    separator: str
    name: str

    def find(self, environ: Environ) -> str:
        """Return the first value that is not empty, as uWSGI does."""
        text: str = environ.get(self.variable, "")
        for part in text.split(self.separator):
            name, _, value = (part.strip(" \t\v\f") if self.separator == ";" else part).partition("=")
            if name == self.name and value:
                return value
        return ""


# A piece of an argument: octets, the name of a variable, a name in it, or the number of a group.
Piece = Union[bytes, str, Pair, int]

_PLACEHOLDER = lazy_pattern(r"\$(?:\{([^}]*)\}|([1-9]))")
_VARIABLE = lazy_pattern(r"[A-Z][A-Z0-9_]*")
_PAIR = lazy_pattern(r"(cookie|qs)\[([^$]*)\]")
_OF_PAIRS = {"cookie": ("HTTP_COOKIE", ";"), "qs": ("QUERY_STRING", "&")}


def compile_argument(word: str, pattern: re.Pattern[str] | None) -> tuple[Piece, ...]:
    """
    Return the pieces of an argument with ${NAME}, ${cookie[NAME]}, ${qs[NAME]}, and $1 to $9.

    Raises:
        ValueError: it names a group that the pattern lacks, or what is no variable.
    """
    pieces: list[Piece] = []
    position = 0
    for found in _PLACEHOLDER.finditer(word):
        pieces.append(word[position : found.start()].encode("utf-8", "surrogateescape"))
        position = found.end()
        variable, group = found[1], found[2]
        if group is None:
            if pair := _PAIR.fullmatch(variable):
                pieces.append(Pair(*_OF_PAIRS[pair[1]], pair[2]))
                continue
            if not _VARIABLE.fullmatch(variable):
                raise ValueError(f"${{{variable}}} is no variable of the environ, such as ${{REQUEST_URI}}")
            pieces.append(variable)
        else:
            if pattern is None or int(group) > pattern.groups:
                raise ValueError(f"${group} stands for a group that the pattern does not have")
            pieces.append(int(group))
    pieces.append(word[position:].encode("utf-8", "surrogateescape"))
    return tuple(piece for piece in pieces if piece != b"")


def compile_text(text: str, pattern: re.Pattern[str] | None, what: str) -> tuple[Piece, ...]:
    """
    Return the pieces of an argument that is one text; `what`: what it is, for messages.

    Raises:
        ValueError: see compile_argument; or it is empty, or has what is no placeholder here, such as $0.
    """
    pieces = compile_argument(text.strip(), pattern)
    if not pieces or any(isinstance(piece, bytes) and re.search(rb"\$[0{]", piece) for piece in pieces):
        raise ValueError(f"{what} was expected, with placeholders such as $1 and ${{REQUEST_URI}}")
    return pieces


def fill(pieces: tuple[Piece, ...], environ: Environ | None, match: re.Match[str] | None) -> bytes:
    """Return one argument; a variable or group that is missing is empty."""
    octets = b""
    for piece in pieces:
        if isinstance(piece, bytes):
            octets += piece
        elif isinstance(piece, int):
            assert match is not None
            octets += (match[piece] or "").encode("latin-1")
        else:
            assert environ is not None
            octets += (piece.find(environ) if isinstance(piece, Pair) else environ.get(piece, "")).encode("latin-1")
    return octets
