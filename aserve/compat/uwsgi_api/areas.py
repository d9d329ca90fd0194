"""The functions of the module `uwsgi` for areas of memory that all processes share (--uwsgi-sharedarea).

Owns:     AREAS, by their names.
Thread:   any.
Spec:     uWSGI 2.0.30, "SharedArea -- share memory pages between uWSGI components".
Not here: the memory (memory.py), the locks (locks.py).
"""

from __future__ import annotations

import functools
import struct
from typing import Any, Callable

from .memory import shared
from .texts import Text, octets_of


def _range(name: str, area: int, position: int, size: int) -> int:
    """
    Return the offset of a range of an area.

    Raises:
        ValueError: the area has no such range.
    """
    areas = shared().areas
    if not 0 <= area < len(areas) or not 0 <= position <= areas[area].size - size or size < 0:
        raise ValueError(f"error calling uwsgi_sharedarea_{name}()")
    return areas[area].offset + position


def sharedarea_read(area: int, position: int, size: int | None = None) -> bytes:
    """
    Return octets of an area; without a size all from the position on.

    Raises:
        ValueError: the area has no such range; the same for all of these.
    """
    areas = shared().areas
    if size is None and 0 <= area < len(areas):
        size = areas[area].size - position
    offset = _range("read", area, position, size or 0)
    return shared().locks.run(lambda: shared().octets[offset : offset + (size or 0)])


def sharedarea_write(area: int, position: int, octets: Text) -> None:
    """Write octets."""
    given = octets_of(octets)
    offset = _range("write", area, position, len(given))

    def write() -> None:
        shared().octets[offset : offset + len(given)] = given

    shared().locks.run(write)


def sharedarea_memoryview(area: int) -> memoryview:
    """Return an area itself; take its lock to change it."""
    offset = _range("memoryview", area, 0, 0)
    return memoryview(shared().octets)[offset : offset + shared().areas[area].size]


def _read(name: str, form: str, area: int, position: int) -> int:
    """Return a number."""
    offset = _range(name, area, position, struct.calcsize(form))
    return shared().locks.run(struct.unpack_from, form, shared().octets, offset)[0]  # type: ignore[no-any-return]


def _write(name: str, form: str, area: int, position: int, number: int) -> None:
    """Write a number, of which as many bits are kept as there is room for."""
    offset = _range(name, area, position, struct.calcsize(form))
    shared().locks.run(struct.pack_into, form, shared().octets, offset, _fitted(number, form))


def _change(name: str, form: str, sign: int, area: int, position: int, amount: int = 1) -> None:
    """Add to a number."""
    offset, octets = _range(name, area, position, struct.calcsize(form)), shared().octets

    def change() -> None:
        (number,) = struct.unpack_from(form, octets, offset)
        struct.pack_into(form, octets, offset, _fitted(number + sign * amount, form))

    shared().locks.run(change)


def _fitted(number: int, form: str) -> int:
    """Return a number cut to the bits of its form, as C does."""
    bits = 8 * struct.calcsize(form)
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def sharedarea_rlock(area: int) -> None:
    """Take the lock of an area, for reading; it is the same as that for writing."""
    _range("rlock", area, 0, 0)
    shared().locks.lock_area(area)


def sharedarea_wlock(area: int) -> None:
    """Take the lock of an area."""
    _range("wlock", area, 0, 0)
    shared().locks.lock_area(area)


def sharedarea_unlock(area: int) -> None:
    """Let the lock of an area go."""
    _range("unlock", area, 0, 0)
    shared().locks.unlock_area(area)


AREAS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        sharedarea_read, sharedarea_write, sharedarea_memoryview, sharedarea_rlock, sharedarea_wlock, sharedarea_unlock,
    )
}  # fmt: skip
for _suffix, _form in (("8", "=b"), ("16", "=h"), ("32", "=i"), ("64", "=q"), ("byte", "=b"), ("long", "=q")):
    for _name, _function in (("read", _read), ("write", _write)):
        _full = f"sharedarea_{_name}{_suffix}"
        AREAS[_full] = functools.partial(_function, f"{_name}{_suffix}", _form)
for _suffix, _form in (("32", "=i"), ("64", "=q")):
    for _name, _sign in (("inc", 1), ("dec", -1)):
        AREAS[f"sharedarea_{_name}{_suffix}"] = functools.partial(_change, f"{_name}{_suffix}", _form, _sign)
AREAS["sharedarea_inclong"] = functools.partial(_change, "inclong", "=q", 1)
