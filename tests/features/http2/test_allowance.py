"""A client may send some frames that bring no request further, and no more."""

from __future__ import annotations

from aserve.features.http2.allowance import BURST, EACH_SECOND, UPDATES_PER_FRAME, Allowance


def test_spend():
    """It is used up, and fills again."""
    allowance = Allowance()
    assert all(allowance.spend() for _ in range(BURST)) and not allowance.spend()
    allowance.on_second()
    assert [allowance.spend() for _ in range(EACH_SECOND)] == [True] * (EACH_SECOND - 1) + [False]


def test_it_does_not_pile_up():
    """A quiet minute allows no more than the beginning does."""
    allowance = Allowance()
    for _ in range(60):
        allowance.on_second()
    assert all(allowance.spend() for _ in range(BURST)) and not allowance.spend()


def test_updates_of_windows():
    """What is sent asks for some."""
    allowance = Allowance()
    assert not any(allowance.is_extra_update(2) for _ in range(2 * UPDATES_PER_FRAME))
    assert allowance.is_extra_update(2) and not allowance.is_extra_update(3)
