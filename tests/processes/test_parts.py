"""The processes, and the parts that look at them."""

from aserve.processes.children.pages import Pages


def test_what_looks_sees_the_same_processes(supervised):
    """Decisions, status and counts are about the same workers."""
    one = supervised(2)
    children, parts = one.start(), one.supervisor.parts
    assert list(one.supervisor.fleet.workers) == list(parts.children) == children
    assert [worker["slot"] for worker in parts.status.describe()["workers"]] == [1, 2]
    assert parts.overview.ready_count == 2 and parts.tally is parts.overview.tally


def test_there_is_a_page_for_each_successor(supervised):
    """There are enough pages for a successor of each worker, and workers look at expected ones from the start."""
    one = supervised(3)
    pages = one.supervisor.parts.children._pages
    assert isinstance(pages, Pages) and pages.top == 5
