"""The fate of jobs, with a clock moved by the test."""

import asyncio
import contextvars
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from aserve.compat.uwsgi_api.spooler import runner as module
from aserve.compat.uwsgi_api.spooler.board import PAGE_BYTES, Page
from aserve.compat.uwsgi_api.spooler.folder import JobFolder, list_jobs, write_job
from aserve.compat.uwsgi_api.spooler.queues import Queue
from aserve.compat.uwsgi_api.spooler.runner import (
    SPOOL_IGNORE,
    SPOOL_OK,
    SPOOL_RETRY,
    Spooler,
    run_spooler,
    values_of,
)
from aserve.features.sharing.leases import Leases
from aserve.features.sharing.settings import Shared
from aserve.features.sharing.store import Store

FAR = 4e9  # behind any clock: so are the times of jobs put off


class Running:
    """A spooler whose clock and function are the test's."""

    def __init__(self, folder):
        self.folder, self.now, self.done, self.results = folder, FAR, [], []
        self.function = self.do
        self.spooler = Spooler(JobFolder(folder), lambda: self.function, lambda: self.now)

    def do(self, values):
        """Do a job as the test says."""
        self.done.append(values)
        result = self.results.pop(0) if self.results else SPOOL_OK
        if isinstance(result, BaseException):
            raise result
        return result() if callable(result) else result

    def turn(self, seconds=0.0):
        """Let time pass; return the jobs done then, by a value, and the time to sleep."""
        self.now += seconds
        before = len(self.done)
        rest = self.spooler.do_due()
        return [values[b"n"] for values in self.done[before:]], rest


@pytest.fixture
def run(tmp_path, caplog):
    caplog.set_level("INFO", "aserve")
    running = Running(str(tmp_path))
    yield running
    running.spooler.close()


def test_jobs_are_done_once_in_order(run):
    """Each job is done once, in order, with the values; then the job is gone."""
    write_job(run.folder, {b"n": b"1"}, b"body")
    write_job(run.folder, {b"n": b"2"}, priority="5")
    assert run.turn() == ([b"2", b"1"], 10.0) and list_jobs(run.folder) == []
    first = run.done[1]
    assert (
        first["body"] == b"body"
        and first["spooler_task_name"].startswith("uwsgi_spoolfile_on_")
        and "body" not in run.done[0]
    )
    assert run.turn() == ([], 10.0)


def test_a_later_job_sets_the_sleep(run):
    write_job(run.folder, {b"n": b"1"}, at=FAR + 3)
    assert run.turn() == ([], 3.0) and run.turn(2.5) == ([], 0.5) and run.turn(0.5) == ([b"1"], 10.0)


@pytest.mark.parametrize(
    ("result", "seconds", "text"),
    [
        (SPOOL_RETRY, 30, ""),
        (SPOOL_IGNORE, 30, ""),
        (None, 30, "its function has returned None, and not SPOOL_OK"),
        ("-2", 30, "has returned '-2'"),
        (ValueError("no mail today"), 3600, "has failed; the next try is in 3600 s"),
        (SystemExit(3), 3600, "has failed"),
        (asyncio.CancelledError(), 3600, "has failed"),
    ],
)
def test_undone_jobs_are_done_later(run, caplog, result, seconds, text):
    write_job(run.folder, {b"n": b"1"})
    run.results = [result]
    assert run.turn()[0] == [b"1"] and run.turn(seconds - 1)[0] == [] and run.turn(1)[0] == [b"1"]
    assert list_jobs(run.folder) == [] and text in caplog.text
    assert ("ValueError: no mail today" in caplog.text) == isinstance(result, ValueError)


def test_a_job_that_takes_a_signal(run, caplog):
    before = signal.getsignal(signal.SIGTERM)
    write_job(run.folder, {b"n": b"1"})
    run.results = [lambda: (signal.signal(signal.SIGTERM, signal.SIG_IGN) and SPOOL_OK) or SPOOL_OK]
    assert run.turn()[0] == [b"1"] and signal.getsignal(signal.SIGTERM) == before
    assert "has set handlers for SIGTERM" in caplog.text and "the job uwsgi_spoolfile" in caplog.text


def test_a_context_for_each(run):
    """A job's context is not the next job's."""
    variable, found = contextvars.ContextVar("variable", default="none"), []

    def note():
        found.append(variable.get())
        variable.set("a job's")
        return SPOOL_OK

    for number in range(2):
        write_job(run.folder, {b"n": b"%d" % number})
    run.results = [note, note]
    run.turn()
    assert found == ["none", "none"] and variable.get() == "none"


def test_the_first_retry(tmp_path):
    """The sleep ends when a failed job is due once more: after 1 s."""
    running = Running(str(tmp_path))
    running.now = time.time() + 1
    write_job(running.folder, {b"n": b"1"}, at=running.now)
    running.results = [ValueError(), ValueError()]
    done, rest = running.turn()
    assert done == [b"1"] and rest == pytest.approx(1, abs=0.01)
    done, rest = running.turn(1.01)
    assert done == [b"1"] and 1 <= rest < 1.1
    running.spooler.close()


def test_one_that_becomes_due_meanwhile(run):
    """Such a job is done at once when the long job before it in the list has ended."""
    write_job(run.folder, {b"n": b"1"}, at=FAR + 3, priority="1")
    write_job(run.folder, {b"n": b"2"})

    def take_long():
        run.now += 5
        return SPOOL_OK

    run.results = [take_long]
    assert run.turn() == ([b"2"], 0.0) and run.turn() == ([b"1"], 10.0)


@pytest.mark.parametrize("name", ["utime", "unlink"])
def test_a_file_of_another_user(run, caplog, monkeypatch, name):
    """A fixed job, neither put off nor removed, stops no further job; the log says so once."""
    path = write_job(run.folder, {b"n": b"1"}, priority="1")
    write_job(run.folder, {b"n": b"2"})
    inode, before = os.stat(path).st_ino, getattr(os, name)

    def refuse(place, *arguments):
        if os.stat(place).st_ino == inode:
            raise PermissionError(1, "Operation not permitted")
        before(place, *arguments)

    monkeypatch.setattr(os, name, refuse)
    monkeypatch.setattr(module, "BATCH", 1)  # which it does not use up
    first = [] if name == "utime" else [b"1"]
    assert run.turn()[0] == [*first, b"2"]
    for _ in range(2):
        assert run.turn(7200)[0] == first
    assert caplog.text.count("cannot be put off, or removed: [Errno 1] Operation not permitted") == 1


def test_a_folder_that_cannot_be_read(run, caplog, monkeypatch):
    """Such a folder is told once, and jobs elsewhere are done."""
    write_job(run.folder, {b"n": b"1"}, priority="1")
    scandir = os.scandir

    def refuse(place):
        if place.endswith("/1"):
            raise PermissionError(13, "Permission denied")
        return scandir(place)

    monkeypatch.setattr(os, "scandir", refuse)
    for _ in range(2):
        write_job(run.folder, {b"n": b"2"})
        assert run.turn()[0] == [b"2"]
    assert caplog.text.count("/1 cannot be looked at: [Errno 13] Permission denied") == 1


def test_few_faults_are_kept(run, caplog, monkeypatch):
    """Memory has a limit: then the log tells them once more."""
    monkeypatch.setattr(module, "MAX_TOLD", 2)
    for path in ("a", "b", "a", "b", "c", "a"):
        run.spooler._tell(path, "is bad", OSError(5, "x"))
    assert [text.split()[0] for text in caplog.messages] == ["a", "b", "c", "a"]


FORKS = """\
import os, signal, sys
from aserve.compat.uwsgi_api.spooler.folder import JobFolder, list_jobs, write_job
from aserve.compat.uwsgi_api.spooler.runner import SPOOL_OK, run_spooler

folder, how = sys.argv[1:]
spooler = os.getpid()

def do(values):
    if b"last" in values:
        print("the last is done by", "the spooler" if os.getpid() == spooler else "its child", flush=True)
        os.kill(os.getpid(), signal.SIGTERM)
        return SPOOL_OK
    pid = os.fork()
    if pid:
        print("status", os.waitpid(pid, 0)[1], flush=True)
        return SPOOL_OK
    if how == "exit":
        sys.exit(0)
    if how == "signal":
        os.kill(os.getpid(), signal.SIGTERM)
        os.write(1, b"the child goes on\\n")
        os._exit(0)
    return SPOOL_OK

write_job(folder, {}, priority="1")
write_job(folder, {b"last": b""})
print("exit status", run_spooler(folder, lambda: do), len(list_jobs(folder)), flush=True)
"""


@pytest.mark.parametrize(("how", "status"), [("exit", 0), ("return", 1 << 8), ("signal", signal.SIGTERM)])
def test_a_job_that_forks(tmp_path, how, status):
    """A returning child does no jobs: the child ends, also by a signal."""
    done = subprocess.run(
        [sys.executable, "-Ic", FORKS, str(tmp_path), how], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines() == [f"status {int(status)}", "the last is done by the spooler", "exit status 0 0"]


def test_a_crash_does_not_repeat_at_once(run):
    """A job is put off before the run: a job with an end of the process does not repeat the end at once."""
    write_job(run.folder, {b"n": b"1"})
    seen = []
    run.results = [lambda: seen.append(list_jobs(run.folder)[0].at - run.now)]
    run.turn()
    assert seen == [3600]


def test_without_a_function(run, caplog):
    """Jobs wait."""
    write_job(run.folder, {b"n": b"1"})
    run.function = None
    assert run.turn()[0] == [] and run.turn(20)[0] == [] and "waits: the app has no function for jobs" in caplog.text
    run.function = run.do
    assert run.turn(10)[0] == [b"1"]


def test_what_cannot_be_read(run, caplog):
    """Such a job is told once, and others are done."""
    pathlib.Path(write_job(run.folder, {})).write_bytes(b"x")
    write_job(run.folder, {b"n": b"1"}, priority="9999")
    assert run.turn()[0] == [b"1"] and run.turn()[0] == []
    assert caplog.text.count("is no job that can be read: it has no head") == 1


def test_many_jobs_leave_room_for_urgent_ones(run):
    """After so many the folder is listed anew: one of a higher priority may be there."""
    for number in range(101):
        write_job(run.folder, {b"n": b"%d" % number})
    run.results = [lambda: (write_job(run.folder, {b"n": b"first"}, priority="1"), SPOOL_OK)[1]]
    done, rest = run.turn()
    assert len(done) == 100 and rest == 0.0 and run.turn()[0][0] == b"first"


def test_the_end_finishes_the_running_job(run):
    write_job(run.folder, {b"n": b"1"})
    write_job(run.folder, {b"n": b"2"})
    run.results = [lambda: (run.spooler.termination.request(), SPOOL_OK)[1]]
    assert run.turn() == ([b"1"], 0.0) and len(list_jobs(run.folder)) == 1


def test_what_is_told(run):
    """Each running job is told, and each outcome."""
    memory = memoryview(bytearray(PAGE_BYTES))
    run.spooler._page = Page(memory)
    paths = [write_job(run.folder, {b"n": b"%d" % number}) for number in range(4)]
    told = []
    run.results = [
        lambda: (told.append(Page(memory).job()[0]), SPOOL_OK)[1], SPOOL_RETRY, ValueError("no"), SPOOL_IGNORE,
    ]  # fmt: skip
    run.turn()
    assert told == [os.path.basename(paths[0])] and memory.cast("Q")[:3].tolist() == [1, 1, 2]
    assert Page(memory).job() is None


def test_so_many_jobs(tmp_path, caplog):
    """Then the spooler ends by itself, also if one has failed."""
    caplog.set_level("INFO", "aserve")
    for number in range(3):
        write_job(str(tmp_path), {b"n": b"%d" % number})
    done = []
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert run_spooler(str(tmp_path), lambda: lambda values: done.append(values) or 1 / 0, max_jobs=2) == 0
    finally:
        signal.signal(signal.SIGTERM, before)
    assert len(done) == 2 and "after 2 jobs (--spooler-max-jobs) another process goes on" in caplog.text


def test_jobs_are_awaited_until_sigterm(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    done = []

    def function(values):
        done.append(values)
        if len(done) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            threading.Timer(0.01, write_job, [str(tmp_path), {b"n": b"2"}]).start()
        return SPOOL_OK

    write_job(str(tmp_path), {b"n": b"1"})
    try:
        assert run_spooler(str(tmp_path), lambda: function) == 0
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [values[b"n"] for values in done] == [b"1", b"2"] and list_jobs(str(tmp_path)) == []


def test_a_queue_until_sigterm(store_server):
    """The jobs of a queue are done in the same way; dangers of loss are told before."""
    store = Store(Shared(store_server.url, "shop"))
    leases = Leases(store)
    queue, before = Queue("shared:jobs", store, leases), signal.getsignal(signal.SIGTERM)
    told = []
    queue.warn = lambda: told.append(queue.paths())
    path = queue.put({b"n": b"1"})

    def function(values):
        os.kill(os.getpid(), signal.SIGTERM)
        return SPOOL_OK

    try:
        assert run_spooler("shared:jobs", lambda: function, queue=queue) == 0
    finally:
        signal.signal(signal.SIGTERM, before)
    assert told == [[path]] and queue.paths() == []
    leases.end()
    store.end()


def test_values_have_bytes_as_names():
    assert values_of("/x/name", {b"a": b"b"}, b"") == {"spooler_task_name": "name", b"a": b"b"}
