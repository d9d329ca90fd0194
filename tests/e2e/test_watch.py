"""Workers at the end of their time, or hanging: another serves before they end, and the log says why."""

import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest
from harness.client import RawClient, fetch_once
from harness.combining import long
from harness.interpreter import NEEDS_LINUX, first_on_pypy

pytestmark = [NEEDS_LINUX, pytest.mark.any_parser]

# /die: SIGSEGV. /grow: 256 MiB more. /hang: does not return.
APP = """\
import os, time

kept = []

def app(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/grow":
        kept.append(b"x" * (256 << 20))
    start_response("200 OK", [("Content-Type", "text/plain")])
    if path == "/die":
        os.kill(os.getpid(), 11)  # it may come to another thread
    if path.startswith("/wait"):
        open(path[len("/wait"):], "w").close()
    if path.startswith(("/hang", "/wait", "/die")):
        time.sleep(600)
    return [b"%d" % os.getpid()]
"""


def ask(process, path="/"):
    """Return the pid behind a fresh connection."""
    return int(fetch_once(process.address, path).body)


@pytest.mark.long_on_pypy
@pytest.mark.parametrize(
    ("flags", "path", "requests", "why"),
    [
        (("--max-requests", "5"), "/", 5, r"it has answered 5 requests \(--max-requests 5\)"),
        (("--max-lifetime", "1s"), "/", 1, r"it has served for \d+ s \(--max-lifetime 1\)"),
        (("--max-rss", "200M"), "/grow", 1, r"its RSS is \d+\.\d MiB \(--max-rss 200MiB\)"),
        long((("--max-uss", "200M"), "/grow", 1, r"its USS is \d+\.\d MiB \(--max-uss 200MiB\)")),
    ],
    ids=["requests", "lifetime", "rss", "uss"],
)
def test_a_worker_that_has_served_its_time(start_workers, flags, path, requests, why):
    """A worker's successor is ready before the drain; the log names reason and value; no request fails."""
    process = start_workers("--workers", "1", *flags, app=APP)
    (pid,) = process.wait_for_workers(1)
    for _ in range(requests):
        ask(process, path)
    process.wait_for_log(rf"worker 1 is to be replaced: {why}\n")
    process.wait_for_log(rf"worker 1 \(pid {pid}\) drains: {why}\n")
    process.wait_for_log(rf"worker 1 \(pid {pid}\) has ended: it exited with status 0\n")
    text = process.log
    successor = text.index(") is ready", text.index("is to be replaced"))
    assert successor < text.index(f"(pid {pid}) drains")
    assert ask(process) != pid
    assert process.stop() == 0


@pytest.mark.provokes("its event loop", "ending it, with its stack", "Fatal Python error: Aborted")
def test_a_worker_that_hangs(start_workers):
    """A hanging worker is told, with its stacks; then replaced, and ended when its successor serves."""
    process = start_workers(
        "--workers", "1", "--threads", "0", "--hang-warning", "2s", "--hang-timeout", "4s", app=APP
    )  # fmt: skip
    (pid,) = process.wait_for_workers(1)
    client = RawClient(process.address)
    try:
        client.request("/hang")
        process.wait_for_log(
            rf"worker 1 \(pid {pid}\): its event loop has not turned for \d+ s.*; after 4 s \(--hang-timeout\) it is replaced"
        )
        process.wait_for_log(r'File ".*site_app.py", line \d+ in app')
        process.wait_for_log(
            r"worker 1 is to be replaced: its event loop has not turned for \d+ s.* \(--hang-timeout 4\)"
        )
        process.wait_for_log(rf"\(pid {pid}\): its event loop hangs, and its successor serves; ending it")
        process.wait_for_log(rf"\(pid {pid}\) has ended: it was killed by SIGABRT")
    finally:
        client.close()
    assert ask(process) != pid
    assert process.stop(signal.SIGTERM) == 0


@pytest.mark.provokes("has crashed", "Fatal Python error: Segmentation fault")
@pytest.mark.parametrize("lane", first_on_pypy(["auto", long("off")]))
def test_what_a_worker_was_at_when_it_crashed(start_workers, tmp_path, wait_until, lane):
    """The log line of a crash names the requests, and each has its line in the access log."""
    log = tmp_path / "access.log"
    flags = ["--access-log", str(log), "--access-log-format", "%(end) %(worker) %(status) %(request) %(secs)"]
    process = start_workers("--workers", "1", "--threads", "2", "--lane", lane, *flags, app=APP)
    (pid,) = process.wait_for_workers(1)
    slow, deadly = RawClient(process.address), RawClient(process.address)
    try:
        slow.request(f"/wait{tmp_path}/in")
        wait_until(lambda: pathlib.Path(tmp_path, "in").exists())
        deadly.request("/die?a=1")
        process.wait_for_log(
            rf"worker 1 \(pid {pid}\) has crashed after \d+ s: it was killed by SIGSEGV; another is started in .* s; "
            rf"it was at: GET /wait{tmp_path}/in \(\d+\.\d s\), GET /die\?\.\.\. \(\d+\.\d s\)\n"
        )
    finally:
        slow.close()
        deadly.close()
    process.wait_for_workers(1)
    assert process.stop() == 0
    found = [line.rpartition(" ")[0] for line in log.read_text().splitlines() if "died" in line]
    assert found == [f"worker_died 1 0 GET /wait{tmp_path}/in -", "worker_died 1 0 GET /die?a=1 -"]


@pytest.mark.long_on_pypy
def test_what_a_worker_was_at_when_the_app_ended_it(start_workers, tmp_path):
    """An exit status of 0 is no better: the end was unasked, and the worker's requests have their lines."""
    log = tmp_path / "access.log"
    app = "import os\ndef app(environ, start_response):\n    os._exit(0)\n"
    process = start_workers("--workers", "1", "--access-log", str(log), app=app)
    process.wait_for_workers(1)
    client = RawClient(process.address)
    client.request("/exit")
    process.wait_for_log(
        r"has crashed after \d+ s: it exited with status 0; another .*; it was at: GET /exit \(\d+\.\d s\)\n"
    )
    client.close()
    assert process.stop() == 0 and '"GET /exit' in log.read_text()


@pytest.mark.long_on_pypy
def test_workers_share_the_work(start_workers):
    """A worker with an idle connection leaves the next one to the other."""
    process = start_workers("--workers", "2", "--threads", "2", app=APP)
    pids = process.wait_for_workers(2)
    clients, served = [], []
    try:
        # On a busy machine one of them may not run for a while, and gets its part of later connections.
        while len(served) < 20 or (len(served) < 100 and min(map(served.count, pids)) < 0.3 * len(served)):
            clients.append(RawClient(process.address))
            served.append(int(clients[-1].fetch("/").body))
    finally:
        for client in clients:
            client.close()
    assert min(map(served.count, pids)) >= 0.3 * len(served), served
    assert process.stop() == 0


@pytest.mark.skipif(not shutil.which("taskset") or os.cpu_count() == 1, reason="needs taskset and two CPUs")
def test_cpus_that_go_and_come_back(start_workers, wait_until):
    """With --workers auto there are fewer workers while the supervisor may run on one CPU alone, and as many as before on all again."""

    def bind(cpus):
        subprocess.run(["taskset", "-cp", cpus, str(process.pid)], check=True, stdout=subprocess.DEVNULL)

    process = start_workers("--workers", "auto", "--threads", "1", app=APP)
    process.wait_for_log("serving on")
    every = subprocess.run(
        ["taskset", "-cp", str(process.pid)], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.split()[-1]
    before = int(re.search(r"serving on .* with (\d+) workers", process.log)[1])  # the first of them starts alone
    wait_until(lambda: process.log.count(" is ready") == before)
    bind(every.replace(",", "-").partition("-")[0])
    process.wait_for_log("--workers auto: CPUs: 1: the number of workers is 1 now")
    wait_until(lambda: len(process.workers) == 1)
    assert ask(process) in process.workers
    bind(every)
    process.wait_for_log(f"the number of workers is {before} now; it was 1")
    wait_until(lambda: len(process.workers) == before)
    assert ask(process) in process.workers
