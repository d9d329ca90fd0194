"""Processes of jobs and mules: their reading, and the files left alone."""

from aserve.command import cli, start
from aserve.compat.uwsgi_api import jobs as jobs_module
from aserve.compat.uwsgi_api import memory
from aserve.compat.uwsgi_api.mules import post
from aserve.compat.uwsgi_api.mules import runner as mule_runner
from aserve.compat.uwsgi_api.mules.settings import MULE_VARIABLE
from aserve.compat.uwsgi_api.spooler import runner
from aserve.compat.uwsgi_api.spooler.board import PAGE_VARIABLE
from aserve.compat.uwsgi_api.spooler.supervising import SPOOLER_VARIABLE
from aserve.features import Config


def test_a_spooler_reads_no_certificates(served, monkeypatch):
    """Nor does a spooler look for programs: a key under renewal, or readable to root alone, keeps no job from being done."""
    begun = []
    monkeypatch.setenv(SPOOLER_VARIABLE, "jobs")
    monkeypatch.setenv(PAGE_VARIABLE, "")
    monkeypatch.setattr(start, "load", lambda plan, is_spooler: begun.append((plan.spec, is_spooler)))
    monkeypatch.setattr(jobs_module, "load_module", begun.append)
    monkeypatch.setattr(
        runner, "run_spooler", lambda folder, function, page, count, queue: begun.append((folder, count)) or 0
    )
    key = ("--bind", "https://:1", "--certificate", "nowhere.pem", "--key", "nowhere.key")
    jobs = ("--workers", "1", "--spooler", "jobs", "--spooler-max-jobs", "3", "--spooler-import", "shop.jobs")
    assert cli.main(["hello:app", *jobs, "--attach", "no-such-program", *key]) == 0
    assert begun == [("hello:app", True), "shop.jobs", ("jobs", 3)]


def test_a_mule_runs_its_program_beside_the_app(served, monkeypatch):
    """A mule has shared memory and messages, imports the app, and runs a program."""
    begun = []
    monkeypatch.setenv(MULE_VARIABLE, "2,7 any,8,9,")
    monkeypatch.setattr(memory, "share", lambda *what: begun.append(what))
    monkeypatch.setattr(post, "share", lambda queues, number: begun.append((number, queues.queues["any"])))
    monkeypatch.setattr(start, "load", lambda plan, is_spooler: begun.append((plan.spec, is_spooler)))
    monkeypatch.setattr(
        mule_runner, "run_mule", lambda number, queues, program, *functions: begun.append((number, program)) or 0
    )
    mules = ("--workers", "1", "--uwsgi-mule", "-", "--uwsgi-mule", "shop:mule", "--uwsgi-cache", "items=3")
    assert cli.main(["hello:app", *mules, "--attach", "no-such-program"]) == 0
    assert begun == [(("items=3",), 7, None, Config().extras), (2, (8, 9)), ("hello:app", True), (2, "shop:mule")]
