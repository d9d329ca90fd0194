"""gunicorn's addresses."""

import pytest

from aserve.compat.moving.addresses import place_of, texts


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (":80", "0.0.0.0:80"),
        ("a", "a:8000"),
        ("tcp://a:1", "a:1"),
        ("[::1]", "[::1]:8000"),
        ("[::]:80", "[::]:80"),
        ("fd://3", "fd:3"),
        ("unix:s", "unix:/srv/s"),
        ("unix:/s", "unix:/s"),
        ("unix:///s", "unix:/s"),
        ("unix:@s", "unix:@s"),
    ],
)
def test_each_place_is_an_address_of_bind(value, place):
    assert place_of(value, "/srv/") == place


@pytest.mark.parametrize("port", ["x", "²", "٣"])
def test_digits_of_other_scripts_are_no_port(port):
    with pytest.raises(ValueError, match="is not a port"):
        place_of(f"h:{port}", "")


def test_texts_are_lists_or_split_at_commas():
    assert texts("a, b") == texts(["a", "b"]) == ["a", "b"]
    with pytest.raises(ValueError, match="neither text nor a list"):
        texts(3)
