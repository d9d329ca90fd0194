"""Placeholders in arguments of routes."""

import re

import pytest

from aserve.compat.routes.arguments import compile_argument, fill

PATTERN = re.compile("(a)(b)?")


def test_filling_takes_groups_and_variables():
    """Groups and variables are filled in, missing ones as nothing; octets beyond ASCII stay."""
    pieces = compile_argument("x$1-$2${HTTP_HOST}${NO}\xfc", PATTERN)
    assert fill(pieces, {"HTTP_HOST": "h\xff"}, PATTERN.match("a")) == b"xa-h\xff\xc3\xbc"
    assert fill(compile_argument("", None), None, None) == b""


@pytest.mark.parametrize(
    ("word", "filled"),
    [
        ("${cookie[sid]}", b"7=8"),
        ("${cookie[b]}${cookie[SID]}${cookie[]}", b""),
        ("${qs[a]},${qs[ c]},${qs[n]}", b"1,\xff,"),
        ("${qs[x[y]]}", b"2"),
    ],
)
def test_a_name_in_a_variable_of_several(word, filled):
    """As in uWSGI the first value counts that is not empty; spaces go around cookies alone."""
    environ = {"HTTP_COOKIE": "xsid=1; sid=;  sid=7=8 ;sid=9;; b; a=b", "QUERY_STRING": "n&a=&a=1& c=\xff&x[y]=2"}
    assert fill(compile_argument(word, None), environ, None) == filled
    assert fill(compile_argument(word, None), {}, None).strip(b",") == b""


@pytest.mark.parametrize(
    ("word", "text"),
    [("${cookie[$1]}", "no variable"), ("$3", "a group that"), ("${x}", "no variable"), ("${A[b]}", "no variable")],
)
def test_what_is_no_argument(word, text):
    """The error says why."""
    with pytest.raises(ValueError, match=text):
        compile_argument(word, PATTERN)
    with pytest.raises(ValueError, match="a group that"):
        compile_argument("$1", None)
