"""JSON of others: a value, or a ValueError whatever is wrong with it."""

from __future__ import annotations

import pytest

from aserve.core.json_text import read_json, read_object


@pytest.mark.parametrize("text", ['{"a": [1, null]}', b'{"a": [1, null]}', bytearray(b'{"a": [1, null]}')])
def test_a_value(text):
    """Text or octets."""
    assert read_json(text) == {"a": [1, None]}


def test_options():
    """They are those of json.loads."""
    assert read_json('{"a": 1, "a": 2}', object_pairs_hook=list) == [("a", 1), ("a", 2)]


@pytest.mark.parametrize("text", ["", "{", b"\xff", "[" * 100_000, '{"a":' * 100_000])
def test_what_is_wrong_is_a_value_error(text):
    """However deep it is nested."""
    with pytest.raises(ValueError):
        read_json(text)


def test_read_object():
    """A message is an object; another value is a fault, as no JSON is."""
    assert read_object(b'{"a": 1}') == {"a": 1}
    for text in ("[1]", "null", "{"):
        with pytest.raises(ValueError):
            read_object(text)
