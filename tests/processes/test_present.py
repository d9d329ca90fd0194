"""The processes that there are, and what looks at them."""

from __future__ import annotations

from aserve.processes.children.pages import Pages


def test_what_looks_sees_the_same_processes(supervised):
    """What is decided by, shown and counted is about the same workers."""
    one = supervised(2)
    children, present = one.start(), one.supervisor.present
    assert list(one.supervisor.fleet.workers) == list(present.children) == children
    assert [worker["slot"] for worker in present.status.describe()["workers"]] == [1, 2]
    assert present.overview.ready_count == 2 and present.tally is present.overview.tally


def test_pages(supervised):
    """There are enough for a successor of each worker, and workers look at those that are expected from the start."""
    one = supervised(3)
    pages = one.supervisor.present.children._pages
    assert isinstance(pages, Pages) and pages.top == 5
