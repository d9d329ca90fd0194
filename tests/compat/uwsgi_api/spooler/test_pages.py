"""Counts of jobs, by pages beyond the life of processes; tests/e2e/test_spooler.py has real processes."""

import os

import pytest

from aserve.compat.uwsgi_api.spooler import pages as module
from aserve.compat.uwsgi_api.spooler.board import PAGE_VARIABLE, Page
from aserve.compat.uwsgi_api.spooler.folder import write_job
from aserve.compat.uwsgi_api.spooler.pages import JobPages
from aserve.core.memory_file import map_memory_file


@pytest.fixture
def kept(monkeypatch):
    """The state kept for new code."""
    monkeypatch.setattr(module, "KEPT", {})
    yield module.KEPT
    for fd in module.KEPT.values():
        os.close(fd)


def page_of(spoolers, name):
    """Return a process's page, in its own view."""
    fd, number = spoolers.variables(name)[PAGE_VARIABLE].split(",")
    return Page.inherited(f"{os.dup(int(fd))},{number}", map_memory_file)


def test_counts_are_of_all_processes(kept, tmp_path):
    """Counts are of all processes, of earlier and of removed ones, and of old code."""
    spoolers = JobPages()
    spoolers.follow(["spooler", "spooler-2"])
    for name in ("spooler", "spooler-2", "spooler-2"):
        page_of(spoolers, name).end("done")
    page_of(spoolers, "spooler").end("retried")
    spoolers.follow(["spooler"])
    write_job(str(tmp_path), {b"a": b"b"})
    ended = {"done": 3, "failed": 0, "retried": 1}
    assert spoolers.describe([str(tmp_path), "/nowhere", "shared:mail"]) == {
        "ended": ended,
        "waiting": {str(tmp_path): 1, "/nowhere": 0},
    }
    assert JobPages(kept).describe(["shared:mail"]) == {"ended": ended, "waiting": {}}  # 0 would not be true


def test_an_end_fails_the_present_job(kept):
    """A job under way has failed; a process without one has not."""
    spoolers = JobPages()
    spoolers.follow(["spooler", "spooler-2"])
    page_of(spoolers, "spooler").begin("x")
    for name in ("spooler", "spooler", "spooler-2", "celery"):
        spoolers.on_end(name)
    assert spoolers.describe([])["ended"] == {"done": 0, "failed": 1, "retried": 0}


def test_one_that_was_named_no_more(kept):
    """A former process's job is nothing for its successor's limit."""
    spoolers = JobPages()
    spoolers.follow(["spooler"])
    page_of(spoolers, "spooler").begin("x")
    spoolers.follow([])
    spoolers.on_end("spooler")
    spoolers.follow(["spooler"])
    spoolers.variables("spooler")
    assert spoolers.overdue("spooler", -1.0) is None and spoolers.describe([])["ended"]["failed"] == 1


def test_what_takes_too_long(kept):
    """A long job is named; another process has none."""
    spoolers = JobPages()
    spoolers.follow(["spooler", "spooler-2"])
    page_of(spoolers, "spooler-2").begin("x")
    job, seconds = spoolers.overdue("spooler-2", -1.0)
    assert job == "x" and seconds >= 0 and spoolers.overdue("spooler-2", 3600.0) is None
    assert spoolers.overdue("spooler", -1.0) is None and spoolers.overdue("celery", -1.0) is None


def test_more_than_there_are_pages(kept, monkeypatch):
    monkeypatch.setattr(module, "MAX_PAGES", 1)
    spoolers = JobPages()
    spoolers.follow(["spooler", "spooler-2"])
    assert spoolers.variables("spooler") and spoolers.variables("spooler-2") == {}
    spoolers.on_end("spooler-2")


def test_at_an_upgrade(kept):
    """The supervisor's counts of jobs go on in its successor, by the kept file."""
    before = JobPages()
    before.follow(["spooler"])
    after = JobPages({module.NAME: before.fd})
    after.follow(["spooler"])
    page_of(before, "spooler").begin("x")
    before.on_end("spooler")
    assert after.fd == before.fd and after.describe([]) == before.describe([])
    assert after.describe([])["ended"]["failed"] == 1
