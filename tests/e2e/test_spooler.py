"""Jobs of an app in a folder (--spooler) are done by processes of their own, and never lost."""

import os
import pathlib
import re
import signal

import pytest
from harness.client import fetch_once
from harness.interpreter import NEEDS_LINUX
from harness.process import run_command
from harness.waiting import wait_until

pytestmark = [NEEDS_LINUX, pytest.mark.any_parser]

PATIENCE_SECONDS = 40.0  # a process imports the app first, on a busy machine

# Each path is a job with its name; each run of the job writes its pid into a file with the name.
APP = """\
import os, signal, time
import uwsgi
from uwsgidecorators import spool, postfork

@postfork
def begin():
    if uwsgi.i_am_the_spooler():
        print("in the spooler", uwsgi.worker_id(), uwsgi.masterpid() == os.getppid(), flush=True)

@spool
def work(values):
    name = values["name"]
    with open(name, "a") as file:
        file.write(f"{os.getpid()} {values['body']}\\n")
    if name == "fails" and not os.path.exists("mended"):
        raise ValueError("not yet")
    if name == "waits":
        before = signal.getsignal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, lambda *what: (open("term", "w").close(), before(*what)))
    while name == "waits" and not os.path.exists("go"):
        time.sleep(0.005)
    if name == "dies" and not os.path.exists("mended"):
        os.kill(os.getpid(), 9)

def app(environ, start_response):
    path = work(name=environ["PATH_INFO"][1:], body=b"body")
    start_response("200 OK", [])
    return [path]
"""


@pytest.fixture
def start(start_workers, tmp_path):
    """Start a server with such a folder: start(*flags) -> the server; start.ask(process, name) -> the path of the job."""

    def start(*flags):
        return start_workers("--workers", "1", "--spooler", "jobs", *flags, app=APP)

    return start


def ask(process, name):
    """Ask for a job; return its file."""
    response = fetch_once(process.address, f"/{name}")
    assert response.status == 200
    return pathlib.Path(os.fsdecode(response.body))


def done(process, name):
    """Return the pids of a job's runs."""
    path = process.folder / name
    return [int(line.split()[0]) for line in path.read_text().splitlines()] if path.exists() else []


def test_jobs_are_done_by_another_process(start, tmp_path):
    """Jobs are done at once, in another process, with their values; the process is shown as any attached program."""
    process = start("--control", str(tmp_path / "control"))
    (worker,) = [pid for pid in process.workers if f"(pid {pid}) is ready" in process.log]
    path = ask(process, "one")
    wait_until(lambda: not path.exists(), PATIENCE_SECONDS)
    (pid,) = done(process, "one")
    assert (tmp_path / "one").read_text() == f"{pid} body\n" and pid != worker and path.parent == tmp_path / "jobs"
    process.wait_for_log(rf"attached spooler \(pid {pid}\) has begun", PATIENCE_SECONDS)
    process.wait_for_log(rf"spooler: doing the jobs of {re.escape(str(tmp_path))}/jobs", PATIENCE_SECONDS)
    process.wait_for_log("in the spooler 0 True", PATIENCE_SECONDS)
    status = run_command("status", "--control", tmp_path / "control")
    assert re.search(rf"\nspooler +{pid} +running ", status.stdout)
    assert process.stop() == 0


@pytest.mark.long_on_pypy
def test_what_kills_its_process(start):
    """A job that kills its process is not lost, and waits, while the next process does the rest."""
    process = start()
    path = ask(process, "dies")
    process.wait_for_log(
        r"attached spooler \(pid \d+\) has ended after \d+ s: it was killed by SIGKILL", PATIENCE_SECONDS
    )
    other = ask(process, "other")
    wait_until(lambda: not other.exists(), PATIENCE_SECONDS)
    assert path.exists()
    (process.folder / "mended").touch()
    wait_until(lambda: not path.exists(), PATIENCE_SECONDS)
    pids = done(process, "dies")
    assert len(pids) >= 2 and len(set(pids)) == len(pids)
    assert process.stop() == 0


@pytest.mark.long_on_pypy
def test_limits_end_a_process_and_are_counted(start, tmp_path):
    """A job out of time is killed, and done again by a process with more imports; each end is counted."""
    (tmp_path / "more.py").write_text("print('imported more', flush=True)\n")
    control = str(tmp_path / "control")
    limits = ("--spooler-timeout", "1s", "--spooler-max-jobs", "1", "--spooler-import", "more")
    process = start(*limits, "--control", control)
    path = ask(process, "waits")
    process.wait_for_log(
        rf"attached spooler \(pid \d+\) has been at {path.name} for \d+ s \(--spooler-timeout\): ending it",
        PATIENCE_SECONDS,
    )
    (tmp_path / "go").touch()
    wait_until(lambda: not path.exists(), PATIENCE_SECONDS)
    process.wait_for_log(
        r"imported more(.*\n)*.* has ended, to be started anew: it has done its jobs", PATIENCE_SECONDS
    )
    status = run_command("status", "--control", control)
    assert re.search(r"\njobs: 0 waiting; 1 done, [1-9]\d* failed, 0 retried\n", status.stdout), status.stdout
    assert process.stop() == 0


@pytest.mark.long_on_pypy
def test_several_processes_share_the_jobs(start):
    """While one process waits, the other goes on; no job is done by both."""
    process = start("--spooler-processes", "2")
    waiting = ask(process, "waits")
    wait_until(lambda: done(process, "waits"), PATIENCE_SECONDS)
    others = [ask(process, f"other{number}") for number in range(5)]
    wait_until(lambda: not any(path.exists() for path in others), PATIENCE_SECONDS)
    assert waiting.exists()
    (process.folder / "go").touch()
    wait_until(lambda: not waiting.exists(), PATIENCE_SECONDS)
    assert [len(done(process, name)) for name in ("waits", *(f"other{number}" for number in range(5)))] == [1] * 6
    assert process.stop() == 0


@pytest.mark.long_on_pypy
def test_the_end_waits_for_the_running_job(start, tmp_path):
    """SIGTERM lets the running job end; left jobs are done by the next server."""
    process = start()
    waiting = ask(process, "waits")
    wait_until(lambda: done(process, "waits"), PATIENCE_SECONDS)
    left = ask(process, "left")
    process.signal(signal.SIGTERM)
    wait_until((tmp_path / "term").exists, PATIENCE_SECONDS)  # it has the signal
    (process.folder / "go").touch()
    assert process.wait(30) == 0
    assert not waiting.exists() and left.exists() and done(process, "left") == []
    process = start()
    wait_until(lambda: not left.exists(), PATIENCE_SECONDS)
    assert len(done(process, "left")) == 1
    assert process.stop() == 0


@pytest.mark.long_on_pypy
def test_a_reload_brings_new_code_to_jobs(start, tmp_path):
    """New code does later jobs; the running job ends first."""
    process = start()
    waiting = ask(process, "waits")
    wait_until(lambda: done(process, "waits"), PATIENCE_SECONDS)
    before = done(process, "waits")[0]
    process.write_app(APP.replace("{values['body']}", "new"))
    process.signal(signal.SIGHUP)
    process.wait_for_log("SIGHUP: done in", PATIENCE_SECONDS)
    left = ask(process, "left")
    wait_until((tmp_path / "term").exists, PATIENCE_SECONDS)
    (process.folder / "go").touch()
    wait_until(lambda: not (waiting.exists() or left.exists()), PATIENCE_SECONDS)
    assert done(process, "left")[0] != before and (tmp_path / "left").read_text().endswith(" new\n")
    assert process.stop() == 0
