"""The names of an environ as str: a single object for each, within a bound against clients."""

import sys

import pytest
from harness.environs import from_client, made_by_native, new_base

# native/text.c
NAMES = 1024
PLACES = 8
KEPT_NAME_MAX = 64  # octets


pytestmark = pytest.mark.usefixtures("forget")


def kept(native, names):
    """Return the names with the same object in two environs; the text is the same in any case."""
    made = []
    for _ in range(2):
        environs = [
            made_by_native(native, new_base(), from_client(*[(name, "1") for name in names[at : at + 100]]))[0]
            for at in range(0, len(names), 100)
        ]
        made.append({name: name for environ in environs for name in environ})
        assert set(names) <= made[-1].keys()
    return [name for name in names if made[0][name] is made[1][name]]


def place_of(name):
    """Return the first place of a name: the table takes the last of 32 bits of FNV-1a."""
    hash_ = 2166136261
    for octet in name.encode("latin-1"):
        hash_ = (hash_ ^ octet) * 16777619 & 0xFFFFFFFF
    return hash_ % NAMES


def test_a_name_is_one_object(native):
    """The object is CPython's interned object, too; names in an app's own code compare by address."""
    names = ["HTTP_X_ONE", "HTTP_X", "H", "HTTP_\xe9"]
    assert kept(native, names) == names
    environ, _ = made_by_native(native, new_base(), from_client(("HTTP_X_ONE", "1")))
    assert next(name for name in environ if name == "HTTP_X_ONE") is sys.intern("".join(["HTTP_X", "_ONE"]))


def test_a_long_name_is_not_kept(native):
    """Names made up by clients take no memory for good."""
    longest = "HTTP_".ljust(KEPT_NAME_MAX, "X")
    assert kept(native, [longest, f"{longest}Y", longest * 50]) == [longest]


def test_there_is_room_for_so_many(native):
    """With more names than places all environs are right, and the table is bounded."""
    assert 100 < len(kept(native, [f"HTTP_X_{number}" for number in range(4 * NAMES)])) <= NAMES


def test_names_of_one_place(native):
    """A client with knowledge of the hash makes a look-up visit a few places, not all filled places."""
    names = [name for name in map("HTTP_X_{}".format, range(30 * NAMES)) if place_of(name) == 7]
    assert len(names) > 2 * PLACES
    assert kept(native, names) == names[:PLACES]
