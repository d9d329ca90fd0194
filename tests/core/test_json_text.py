"""Foreign JSON: a value, or a ValueError whatever the fault."""

import pytest

from aserve.core.json_text import read_json, read_object


@pytest.mark.parametrize("text", ['{"a": [1, null]}', b'{"a": [1, null]}', bytearray(b'{"a": [1, null]}')])
def test_a_value_may_be_text_or_octets(text):
    assert read_json(text) == {"a": [1, None]}


def test_options_are_those_of_json_loads():
    assert read_json('{"a": 1, "a": 2}', object_pairs_hook=list) == [("a", 1), ("a", 2)]


@pytest.mark.parametrize("text", ["", "{", b"\xff", "[" * 100_000, '{"a":' * 100_000])
def test_what_is_wrong_is_a_value_error(text):
    with pytest.raises(ValueError):
        read_json(text)


def test_read_object_takes_objects_alone():
    """A message is an object; another value is a fault, as bad JSON is."""
    assert read_object(b'{"a": 1}') == {"a": 1}
    for text in ("[1]", "null", "{"):
        with pytest.raises(ValueError):
            read_object(text)
