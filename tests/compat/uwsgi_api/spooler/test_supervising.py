"""Spoolers, in a supervisor's view; tests/processes/programs/test_attached.py has their lives."""

import os

import pytest

from aserve.compat.uwsgi_api.spooler import pages
from aserve.compat.uwsgi_api.spooler.supervising import Spoolers
from aserve.features import Config


@pytest.fixture
def spoolers(monkeypatch):
    """A supervisor's spoolers just after its start."""
    monkeypatch.setattr(pages, "KEPT", {})
    yield Spoolers(["python", "-m", "aserve"], {})
    for fd in pages.KEPT.values():
        os.close(fd)


def test_no_folder_means_no_spooler(spoolers):
    assert spoolers.programs(Config()) == [] and spoolers.status() == {"jobs": None} and pages.KEPT == {}


def test_each_has_its_folder_and_its_page(spoolers):
    """By variables; without --spooler-max-jobs and --spooler-timeout no spooler has to end."""
    one, two, other = spoolers.programs(Config(workers=1, spooler=["/x"], spooler_processes=3))
    assert [program.name for program in (one, two, other)] == ["spooler", "spooler-2", "spooler-3"]
    assert one.words == ("python", "-m", "aserve") and one.own.fds == [pages.KEPT[pages.NAME]]
    assert two.own.variables() == {"ASERVE_DOES_JOBS_OF": "/x", "ASERVE_SPOOLER_PAGE": f"{one.own.fds[0]},1"}
    assert not one.own.may_end and one.own.overdue() == ""
    one.own.on_end()
    assert spoolers.programs(Config()) == [] and spoolers.status()["jobs"]["waiting"] == {}


def test_a_limit_is_told_with_its_time(spoolers, monkeypatch):
    (one,) = spoolers.programs(Config(workers=1, spooler=["/x"], spooler_seconds=5, spooler_max_jobs=3))
    assert one.own.may_end and one.own.overdue() == ""
    monkeypatch.setattr(spoolers._pages, "overdue", lambda name, seconds: ("a", seconds + 1))
    assert one.own.overdue() == "has been at a for 6 s (--spooler-timeout)"
