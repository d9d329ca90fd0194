"""Areas of memory, with the recorded answers of real uWSGI."""

import pytest

from aserve.compat.uwsgi_api import memory
from aserve.compat.uwsgi_api.areas import AREAS
from aserve.compat.uwsgi_api.settings import Extras


@pytest.fixture(autouse=True)
def shared_memory(open_memory, monkeypatch):
    """The memory of this process, with two areas."""
    monkeypatch.setattr(memory, "_memory", open_memory(extras=Extras(areas=("8192", "16"))))


def test_octets_are_shared_within_an_area():
    read, write = AREAS["sharedarea_read"], AREAS["sharedarea_write"]
    assert (
        write(0, 0, b"hello") is None
        and read(0, 0, 5) == b"hello"
        and len(read(0, 0)) == 8192
        and read(0, 8190) == b"\0\0"
    )
    write(1, 0, "x" * 16)
    assert read(0, 8190) == b"\0\0" and bytes(AREAS["sharedarea_memoryview"](1)) == b"x" * 16
    AREAS["sharedarea_memoryview"](1)[0] = ord("y")
    assert read(1, 0, 2) == b"yx"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read", (2, 0, 5)), ("read", (2, 0)), ("read", (0, 8190, 5)), ("read", (-1, 0, 1)), ("write", (0, 8190, b"hello")),
        ("write8", (0, 8192, 1)), ("read64", (1, 9)), ("rlock", (4,)), ("wlock", (4,)), ("unlock", (4,)), ("memoryview", (2,)),
        ("inc32", (1, 13)), ("read", (0, 0, -1)),
    ],
)  # fmt: skip
def test_no_such_range(name, arguments):
    """The error is uWSGI's."""
    with pytest.raises(ValueError, match=rf"error calling uwsgi_sharedarea_{name}\(\)"):
        AREAS[f"sharedarea_{name}"](*arguments)


@pytest.mark.parametrize(
    ("suffix", "written", "found"),
    [
        ("8", 255, -1),
        ("16", 65535, -1),
        ("32", -1, -1),
        ("64", -5, -5),
        ("byte", 65, 65),
        ("long", 1 << 63, -(1 << 63)),
    ],
)
def test_numbers_have_their_bits_and_sign(suffix, written, found):
    assert (
        AREAS[f"sharedarea_write{suffix}"](0, 8, written) is None and AREAS[f"sharedarea_read{suffix}"](0, 8) == found
    )


def test_changes_go_around_the_end():
    AREAS["sharedarea_write64"](0, 8, -5)
    for name, amount in (("inc64", ()), ("inc64", (10,)), ("dec64", (3,)), ("inclong", ())):
        assert AREAS[f"sharedarea_{name}"](0, 8, *amount) is None
    assert AREAS["sharedarea_readlong"](0, 8) == 4
    AREAS["sharedarea_write32"](0, 4, (1 << 31) - 1)
    AREAS["sharedarea_inc32"](0, 4)
    assert AREAS["sharedarea_read32"](0, 4) == -(1 << 31)
    AREAS["sharedarea_dec32"](0, 4)
    assert AREAS["sharedarea_read32"](0, 4) == (1 << 31) - 1


def test_locks_are_one_for_each_area(other):
    """Each area has a separate lock, no app lock; another process waits for the lock."""
    AREAS["sharedarea_rlock"](0)
    AREAS["sharedarea_wlock"](1)
    assert not any(memory.shared().locks.is_locked(number) for number in range(256))
    code = "memory.locks.lock_area(0)\ntell('has it')\n"
    process = other(memory.shared(), code)
    AREAS["sharedarea_unlock"](0)
    assert process.hear() == "has it"
    AREAS["sharedarea_unlock"](1)
    AREAS["sharedarea_unlock"](1)
