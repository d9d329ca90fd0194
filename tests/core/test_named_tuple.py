"""Named tuples: the promises of typing.NamedTuple."""

from __future__ import annotations

import pickle
import typing

import pytest

from aserve.core import named_tuple

ZERO = 0


class Ours(named_tuple.NamedTuple):
    """A point."""

    x: int
    y: int = ZERO

    @property
    def sum(self) -> int:
        return self.x + self.y

    @classmethod
    def origin(cls) -> Ours:
        return cls(0)

    def __str__(self) -> str:
        return f"{self.x}/{self.y}"


class Theirs(typing.NamedTuple):
    """A point."""

    x: int
    y: int = ZERO


class Above(Ours):
    """One with more methods."""

    __slots__ = ()

    @property
    def double(self) -> Ours:
        """Return one twice as far."""
        return self._replace(x=2 * self.x, y=2 * self.y)


@pytest.mark.parametrize(
    "name", ["__doc__", "__module__", "_fields", "_field_defaults", "__annotations__", "__bases__"]
)
def test_as_of_typing(name):
    ours, theirs = getattr(Ours, name), getattr(Theirs, name)
    if name == "__annotations__":
        theirs = {key: getattr(value, "__forward_arg__", value) for key, value in theirs.items()}
    assert ours == theirs


def test_an_object_is_a_tuple_with_names():
    one = Ours(3)
    assert one == (3, 0) and one.sum == 3 and str(one) == "3/0" and repr(one) == "Ours(x=3, y=0)"
    assert one._replace(y=1) == Ours(y=1, x=3) and one._asdict() == {"x": 3, "y": 0}
    assert Ours.origin() == (0, 0) and Ours._make([1, 2]) == (1, 2)
    assert pickle.loads(pickle.dumps(one)) == one
    assert not hasattr(one, "__dict__")
    with pytest.raises(AttributeError):
        one.x = 4
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Ours()


def test_a_class_above_it():
    assert Above(1, 2).double == (2, 4)
    assert isinstance(Above(1), Ours) and type(Above(1, 2).double) is Above
