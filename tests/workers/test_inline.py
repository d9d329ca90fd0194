"""--threads 0: jobs run where they are submitted."""

from __future__ import annotations

import pytest

from aserve.workers import inline
from aserve.workers.inline import InlineExecutor


def test_inline_jobs_run_at_once():
    """A job runs where it is submitted, before submit returns; its posts, too."""
    executor = InlineExecutor()
    seen = []

    def job(argument):
        executor.post(lambda first, second: seen.append((first, second)), argument, 2)
        seen.append("end")

    executor.submit(job, 1)
    assert seen == [(1, 2), "end"]
    assert executor.is_inline and not executor.is_quiet


def test_inline_jobs_wait_for_one_another():
    """A job submitted by a job runs after it: no recursion, however long the chain."""
    executor = InlineExecutor()
    seen = []

    def job(number):
        if number < 5000:
            executor.submit(job, number + 1)
        seen.append(number)

    executor.submit(job, 0)
    assert seen == list(range(5001))


def test_an_inline_job_that_raises():
    """A job must not raise; if one does, it is seen, and the next ones run."""
    executor = InlineExecutor()
    seen = []

    def fail(_):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        executor.submit(fail, None)
    executor.submit(seen.append, 1)
    assert seen == [1]


def test_an_inline_executor_has_nothing_to_stop():
    """Stop, join and the tick are there for who does not know which executor it is."""
    executor = InlineExecutor()
    executor.on_second()
    executor.stop()
    assert executor.join(1.0) == [] and executor.stalled_seconds == executor.waiting_count == executor.wait_seconds == 0


def test_in_a_child_nothing_more_runs(monkeypatch):
    """A child that the app has forked leaves, should it come for its next job."""
    executor = InlineExecutor()
    seen = []
    monkeypatch.setattr(inline, "end_child", lambda _: seen.append("left"))

    def job(_):
        executor.submit(seen.append, "another's")
        executor.on_forked()

    executor.submit(job, None)
    assert seen == ["left"]
