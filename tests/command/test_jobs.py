"""The process that does jobs: what it reads, and what it leaves alone."""

from __future__ import annotations

from aserve.command import cli
from aserve.command import jobs as jobs_module
from aserve.features.uwsgi_api.spooler import runner
from aserve.features.uwsgi_api.spooler.board import PAGE_VARIABLE
from aserve.features.uwsgi_api.spooler.supervising import SPOOLER_VARIABLE


def test_a_spooler_reads_no_certificates(served, monkeypatch):
    """Nor does it look for programs: a key that is renewed just then, or that only root may read, keeps no job from being done."""
    begun = []
    monkeypatch.setenv(SPOOLER_VARIABLE, "jobs")
    monkeypatch.setenv(PAGE_VARIABLE, "")
    monkeypatch.setattr(jobs_module, "load", lambda plan, is_spooler: begun.append((plan.spec, is_spooler)))
    monkeypatch.setattr(jobs_module, "load_module", begun.append)
    monkeypatch.setattr(
        runner, "run_spooler", lambda folder, function, page, count, queue: begun.append((folder, count)) or 0
    )
    key = ("--bind", "https://:1", "--certificate", "nowhere.pem", "--key", "nowhere.key")
    jobs = ("--workers", "1", "--spooler", "jobs", "--spooler-max-jobs", "3", "--spooler-import", "shop.jobs")
    assert cli.main(["hello:app", *jobs, "--attach", "no-such-program", *key]) == 0
    assert begun == [("hello:app", True), "shop.jobs", ("jobs", 3)]
