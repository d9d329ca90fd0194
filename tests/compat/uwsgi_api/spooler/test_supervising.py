"""The processes that do jobs, as a supervisor sees them; tests/processes/programs/test_attached.py has their lives."""

from __future__ import annotations

import os

import pytest

from aserve.compat.uwsgi_api.spooler import pages
from aserve.compat.uwsgi_api.spooler.supervising import Spoolers
from aserve.features import Config


@pytest.fixture
def spoolers(monkeypatch):
    """Those of a supervisor that has just started."""
    monkeypatch.setattr(pages, "KEPT", {})
    yield Spoolers(["python", "-m", "aserve"], {})
    for fd in pages.KEPT.values():
        os.close(fd)


def test_none(spoolers):
    """Without a folder nothing is made, and nothing is known of jobs."""
    assert spoolers.programs(Config()) == [] and spoolers.status() == {"jobs": None} and pages.KEPT == {}


def test_each_has_its_folder_and_its_page(spoolers):
    """By variables; without --spooler-max-jobs and --spooler-timeout none of them has to end."""
    one, two, other = spoolers.programs(Config(workers=1, spooler=["/x"], spooler_processes=3))
    assert [program.name for program in (one, two, other)] == ["spooler", "spooler-2", "spooler-3"]
    assert one.words == ("python", "-m", "aserve") and one.own.fds == [pages.KEPT[pages.NAME]]
    assert two.own.variables() == {"ASERVE_DOES_JOBS_OF": "/x", "ASERVE_SPOOLER_PAGE": f"{one.own.fds[0]},1"}
    assert not one.own.may_end and one.own.overdue() == ""
    one.own.on_end()
    assert spoolers.programs(Config()) == [] and spoolers.status()["jobs"]["waiting"] == {}


def test_a_limit(spoolers, monkeypatch):
    """A job that takes longer is said, with its time."""
    (one,) = spoolers.programs(Config(workers=1, spooler=["/x"], spooler_seconds=5, spooler_max_jobs=3))
    assert one.own.may_end and one.own.overdue() == ""
    monkeypatch.setattr(spoolers._pages, "overdue", lambda name, seconds: ("a", seconds + 1))
    assert one.own.overdue() == "has been at a for 6 s (--spooler-timeout)"
