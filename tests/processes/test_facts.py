"""The facts about one worker."""

from __future__ import annotations

import pytest

from aserve.core.page import MOLD, TRIAL
from aserve.processes.facts import Worker


@pytest.mark.parametrize(("slot", "is_worker"), [(TRIAL, False), (1, True), (MOLD - 1, True), (MOLD, False)])
def test_its_slot(slot, is_worker):
    """No request comes to a trial or a mold."""
    assert Worker(slot, 1, None).is_worker == is_worker
