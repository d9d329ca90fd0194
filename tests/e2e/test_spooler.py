"""Jobs that an app puts into a folder (--spooler): done by processes of their own, and never lost."""

from __future__ import annotations

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

PATIENCE_SECONDS = 40.0  # a process has to import the app first, and others use the machine

# Each path is a job of that name; the job writes who has done it, as often as it is done, into a file of its name.
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
    """Start a server with such a folder: start(*flags) -> it; start.ask(process, name) -> the path of the job."""

    def start(*flags):
        return start_workers("--workers", "1", "--spooler", "jobs", *flags, app=APP)

    return start


def ask(process, name):
    """Have a job done; return its file."""
    response = fetch_once(process.address, f"/{name}")
    assert response.status == 200
    return pathlib.Path(os.fsdecode(response.body))


def done(process, name):
    """Return who has done a job, and how often."""
    path = process.folder / name
    return [int(line.split()[0]) for line in path.read_text().splitlines()] if path.exists() else []


def test_jobs(start, tmp_path):
    """They are done at once, in another process, with what they were given; it is shown as any attached program."""
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
def test_what_fails(start):
    """It is done again, until it is done; others go on."""
    process = start()
    path = ask(process, "fails")
    process.wait_for_log(
        r"spooler: uwsgi_spoolfile_\S+ has failed; the next try is in \d+ s\n(.*\n)*.*ValueError: not yet"
    )
    other = ask(process, "other")
    wait_until(lambda: not other.exists(), PATIENCE_SECONDS)
    assert path.exists()
    (process.folder / "mended").touch()
    wait_until(lambda: not path.exists(), PATIENCE_SECONDS)
    assert len(done(process, "fails")) >= 2
    assert process.stop() == 0


@pytest.mark.long_on_pypy
def test_what_kills_its_process(start):
    """It is not lost, and waits, while the next process does others."""
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
def test_limits(start, tmp_path):
    """A job that takes too long is killed, and done again by a process that has imported more; each of its ends is counted."""
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
def test_several_processes(start):
    """One waits, the other goes on; no job is done by both."""
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
def test_the_end(start, tmp_path):
    """SIGTERM lets the job that runs end; what is left is done by the next server."""
    process = start()
    waiting = ask(process, "waits")
    wait_until(lambda: done(process, "waits"), PATIENCE_SECONDS)
    left = ask(process, "left")
    process.signal(signal.SIGTERM)
    wait_until((tmp_path / "term").exists, PATIENCE_SECONDS)  # it knows
    (process.folder / "go").touch()
    assert process.wait(30) == 0
    assert not waiting.exists() and left.exists() and done(process, "left") == []
    process = start()
    wait_until(lambda: not left.exists(), PATIENCE_SECONDS)
    assert len(done(process, "left")) == 1
    assert process.stop() == 0


@pytest.mark.long_on_pypy
def test_a_reload(start, tmp_path):
    """New code does the jobs that come from then on; the job that runs ends first."""
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
