"""The facts about one process, and its time limits."""

from __future__ import annotations

import pytest

from aserve.core.page import MOLD, TRIAL, State
from aserve.processes.fleet.facts import FORK_SECONDS, NEVER, SILENCE_SECONDS, Member


@pytest.mark.parametrize(("slot", "is_worker"), [(TRIAL, False), (1, True), (MOLD - 1, True), (MOLD, False)])
def test_its_slot(slot, is_worker):
    """No request comes to a trial or a mold."""
    assert Member(slot, 1, None).is_worker == is_worker


def test_when_it_must_be_forked():
    """Each has its time after the one before; a mold that is silent has longer, and one that does not serve is not waited for."""
    mold = Member(MOLD, 1, None, State.READY)
    worker = Member(1, 1, None, mold=mold, asked_at=100.0)
    assert worker.fork_due_at == 100.0 + SILENCE_SECONDS
    mold.forked_at = 101.0
    assert worker.fork_due_at == 101.0 + SILENCE_SECONDS
    mold.is_silent = True
    assert worker.fork_due_at == 101.0 + FORK_SECONDS
    mold.state = State.DRAINING
    assert worker.fork_due_at == Member(1, 1, None).fork_due_at == NEVER
