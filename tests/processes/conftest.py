"""What the tests of processes share."""

from __future__ import annotations

import pytest
from harness.supervising import Supervised, System


@pytest.fixture
def system(monkeypatch):
    """Processes that only have numbers."""
    system = System(monkeypatch)
    yield system
    system.close()


@pytest.fixture
def supervised(monkeypatch, caplog):
    """Make a supervisor whose children are such: supervised(size=2, **settings) -> Supervised."""
    caplog.set_level("INFO", "aserve")
    made = []

    def make(size=2, **settings):
        made.append(Supervised(monkeypatch, size, **settings))
        return made[-1]

    yield make
    for one in reversed(made):  # each gives signals back to who had them before it
        one.close()
