"""The facts about one process, and its time limits."""

import pytest

from aserve.core.page import MOLD, TRIAL, State
from aserve.processes.fleet.facts import FORK_SECONDS, NEVER, SILENCE_SECONDS, Member


@pytest.mark.parametrize(("slot", "is_worker"), [(TRIAL, False), (1, True), (MOLD - 1, True), (MOLD, False)])
def test_no_request_comes_to_trials_or_molds(slot, is_worker):
    assert Member(slot, 1, None).is_worker == is_worker


def test_when_it_must_be_forked():
    """Each worker has its time after the last; a silent mold has longer, and a useless one is not waited for."""
    mold = Member(MOLD, 1, None, State.READY)
    worker = Member(1, 1, None, mold=mold, asked_at=100.0)
    assert worker.fork_due_at == 100.0 + SILENCE_SECONDS
    mold.forked_at = 101.0
    assert worker.fork_due_at == 101.0 + SILENCE_SECONDS
    mold.is_silent = True
    assert worker.fork_due_at == 101.0 + FORK_SECONDS
    mold.state = State.DRAINING
    assert worker.fork_due_at == Member(1, 1, None).fork_due_at == NEVER
