"""Text and octets are taken alike."""

from aserve.compat.uwsgi_api.texts import octets_of


def test_octets_of_texts_are_utf_8():
    """Octets stay unchanged, in any type."""
    assert octets_of("\u00e9") == b"\xc3\xa9" and octets_of(bytearray(b"\xff")) == b"\xff"
