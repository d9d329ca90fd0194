"""Placeholders in arguments of routes."""

from __future__ import annotations

import re

import pytest

from aserve.compat.routes.arguments import compile_argument, fill

PATTERN = re.compile("(a)(b)?")


def test_filling():
    """Groups and variables, what is missing as nothing; octets beyond ASCII stay."""
    pieces = compile_argument("x$1-$2${HTTP_HOST}${NO}\xfc", PATTERN)
    assert fill(pieces, {"HTTP_HOST": "h\xff"}, PATTERN.match("a")) == b"xa-h\xff\xc3\xbc"
    assert fill(compile_argument("", None), None, None) == b""


@pytest.mark.parametrize(
    ("word", "text"), [("$3", "a group that"), ("${x}", "no variable"), ("${A[b]}", "no variable")]
)
def test_what_is_no_argument(word, text):
    """The error says why."""
    with pytest.raises(ValueError, match=text):
        compile_argument(word, PATTERN)
    with pytest.raises(ValueError, match="a group that"):
        compile_argument("$1", None)
