"""--preload: the app is imported once, in a mold that forks workers; all rules of workers hold."""

import functools
import os
import re
import signal

import pytest
from harness.client import RawClient, fetch_once
from harness.combining import long
from harness.interpreter import NEEDS_LINUX, first_on_pypy
from harness.load import load
from harness.process import run_command
from harness.workers import is_alive

pytestmark = [NEEDS_LINUX, pytest.mark.any_parser]

# Notes each import, each call of its hook, and each request of /warm-up, with the process; /: its version, pid, parent and a random number.
APP = """\
import os, random
import aserve
{extra}

def note(what):
    with open("notes", "a") as file:
        file.write(f"{{what}} {{os.getpid()}}\\n")

@aserve.post_fork
def connect():
    note("hook")

def app(environ, start_response):
    if environ["PATH_INFO"] == "/warm-up":
        note("warm")
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"{version} %d %d %r" % (os.getpid(), os.getppid(), random.random())]

note("import")
"""
READY = r"the mold \(pid (\d+)\) is ready"


@pytest.fixture
def start(start_workers):
    """Start a supervisor with a mold: start(*flags, version="one", extra="") -> Workers."""

    def start_(*flags, version="one", extra="", app=None, size=2):
        return start_workers("--workers", str(size), "--preload", *flags, app=app or source(version, extra))

    return start_


def source(version, extra=""):
    return APP.format(version=version, extra=extra)


def notes(process, what):
    """Return the pids with this note."""
    lines = [line.split() for line in (process.folder / "notes").read_text().splitlines()]
    return [int(pid) for word, pid in lines if word == what]


def mold_of(process):
    """Return the pid of the latest ready mold."""
    return int(re.findall(READY, process.log)[-1])


def wait_for(process, count=2):
    """Wait for so many workers and one mold; return the workers' pids, and the mold's."""
    pids = process.wait_for_workers(count + 1)
    mold = mold_of(process)
    assert mold in pids
    return [pid for pid in pids if pid != mold], mold


def ask(process):
    """Return the version and pid behind a fresh connection, and the rest of the answer."""
    version, pid, *rest = fetch_once(process.address).body.decode().split()
    return version, int(pid), *rest


def answers(process, pids, wait_until):
    found = {}

    def look():
        answer = ask(process)
        found[answer[1]] = answer
        return set(found) == set(pids)

    wait_until(look)
    return list(found.values())


def test_workers_share_one_import(start, wait_until):
    """Two workers share one import, warmed up before; both are the supervisor's children; each calls the hook once."""
    process = start("--warm-up", "/warm-up", "--warm-up", "shop.example/warm-up?a=1")
    workers, mold = wait_for(process)
    seen = answers(process, workers, wait_until)
    assert {parent for _, _, parent, _ in seen} == {str(process.pid)}
    assert len({number for *_, number in seen}) == 2  # nobody draws another's
    assert notes(process, "import") == [mold] and notes(process, "warm") == [mold] * 2
    assert sorted(notes(process, "hook")) == workers
    assert "the mold: --warm-up /warm-up: status 200" in process.log
    assert process.stop() == 0 and not is_alive(mold)
    assert "threads of libraries" not in process.log and "opened" not in process.log


@pytest.mark.parametrize(
    "flags",
    first_on_pypy(
        [
            [],
            long(["--threads", "0"]),
            long(["--lane", "off"]),
            long(["--reload-at-once"]),
        ]
    ),
)
def test_a_reload_makes_a_new_mold(start, flags):
    """SIGHUP: a new mold has imported the new code before any worker goes, and no request fails."""
    process = start(*flags)
    before, first = wait_for(process)
    with load(functools.partial(RawClient, process.address)) as running:
        process.write_app(source("two"))
        process.signal(signal.SIGHUP)
        process.wait_for_log(r"SIGHUP: done in [\d.]+ s: code and settings of 2 workers are new")
        after, second = wait_for(process)
        running.wait_for(b"two")
    assert first != second and not {*before, first} & {*after, second}
    assert running.first_words == {b"one", b"two"}
    assert notes(process, "import") == [first, second] and not is_alive(first)
    assert process.stop() == 0


BROKEN = [
    ("raise ValueError('no')\n", "importing .* raised ValueError: no", 1),
    ("import os\nos._exit(3)\n", "it exited with status 3 before it was ready, without a word", 0),
    ("import time\ntime.sleep(99)\n", r"it was not ready within 5 s \(--start-timeout\)", 0),
]


@pytest.mark.long_on_pypy
@pytest.mark.parametrize(("app", "why", "tracebacks"), [BROKEN[0], *map(long, BROKEN[1:])])
def test_an_app_that_cannot_be_imported(tmp_path, app, why, tracebacks):
    """At the first start a failing import ends the command, as without the flag."""
    (tmp_path / "broken.py").write_text(app)
    timeout = ["--start-timeout", "5"] if "timeout" in why else []
    done = run_command("broken:app", "--workers", "2", "--preload", "--bind", "127.0.0.1:0", *timeout, cwd=tmp_path)
    last = done.stderr.splitlines()[-1]
    assert re.fullmatch(rf"aserve: error: the mold \(pid \d+\) could not start: {why}.*", last), done.stderr
    assert done.returncode == 1 and done.stderr.count("Traceback (most recent call last)") == tracebacks


@pytest.mark.long_on_pypy
def test_a_hook_that_raises(tmp_path):
    """A worker whose hook raises cannot serve; at the first start it ends the command, and the mold too."""
    (tmp_path / "hooked.py").write_text(
        "import aserve\n@aserve.post_fork\ndef connect():\n    raise OSError('no database')\n"
        "def app(environ, start_response): pass\n"
    )
    done = run_command("hooked:app", "--workers", "2", "--preload", "--bind", "127.0.0.1:0", cwd=tmp_path)
    last = done.stderr.splitlines()[-1]
    why = "calling the post_fork function hooked:connect raised OSError: no database"
    assert re.fullmatch(rf"aserve: error: worker 1 \(pid \d+\) could not start: {why}", last), done.stderr
    assert done.returncode == 1 and "in connect" in done.stderr


def test_a_worker_that_is_killed(start):
    """The mold forks the killed worker's successor, without a new import."""
    process = start()
    workers, mold = wait_for(process)
    os.kill(workers[1], signal.SIGKILL)
    process.wait_for_log("no worker is missing any more: 2 workers")
    after, same = wait_for(process)
    assert same == mold and workers[1] not in after and notes(process, "import") == [mold]


@pytest.mark.long_on_pypy
def test_a_mold_that_is_killed(start):
    """A killed mold is made anew while workers serve, and forks later workers."""
    process = start()
    workers, mold = wait_for(process)
    with load(functools.partial(RawClient, process.address)):
        os.kill(mold, signal.SIGKILL)
        process.wait_for_log(
            rf"the mold \(pid {mold}\) has ended after \d+ s: it was killed by SIGKILL; another is made"
        )
        process.wait_for_log(rf"(?s)another is made.*{READY}")
    after, other = wait_for(process)
    assert after == workers and other != mold
    os.kill(workers[0], signal.SIGKILL)
    process.wait_for_log("no worker is missing any more: 2 workers")
    assert wait_for(process)[1] == other
    assert process.stop() == 0


UNFIT = {
    "thread ticker": "import threading, time\n"
    "threading.Thread(target=time.sleep, args=(99,), name='ticker', daemon=True).start()",
    r"a connection to 127\.0\.0\.1:\d+ \(descriptor \d+\)": "import socket\nlistener = socket.create_server(('127.0.0.1', 0))\n"
    "client = socket.create_connection(listener.getsockname())",
}


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("name", UNFIT)
def test_an_app_that_cannot_be_shared(start, name):
    """The app's open resource is named, in one line, and each worker imports the app by itself."""
    process = start(extra=UNFIT[name])
    process.wait_for_log(
        rf"WARNING +--preload: each worker imports the app by itself, .*, at import: .*{name}; open it in"
    )
    workers = process.wait_for_workers(2)
    assert set(notes(process, "import")) > set(workers) and not set(workers) - set(notes(process, "hook"))
    assert process.stop() == 0


@pytest.mark.long_on_pypy
def test_warming_up_opens_a_connection(start):
    """A resource opened only by a request is found, too."""
    extra = "import socket\n@property\ndef x(self): pass\n"
    app = source("one", extra).replace('note("warm")', 'globals()["kept"] = socket.socketpair()')
    process = start("--warm-up", "/warm-up", app=app)
    process.wait_for_log(r"cannot share, at import or --warm-up: a unix socket \(descriptor")
    process.wait_for_workers(2)


@pytest.mark.long_on_pypy
def test_a_supervisor_that_dies(start, wait_until):
    """The mold ends with its supervisor, and nothing is left."""
    process = start()
    workers, mold = wait_for(process)
    process.signal(signal.SIGKILL)
    wait_until(lambda: not any(map(is_alive, (*workers, mold))))


def test_signals_of_a_group(start):
    """SIGTERM to all processes, as by systemd, means the supervisor: no missing mold is told."""
    process = start()
    workers, mold = wait_for(process)
    os.kill(mold, signal.SIGTERM)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        os.kill(mold, number)
    os.kill(workers[0], signal.SIGTERM)  # asks for a successor: the mold forks one
    process.wait_for_log(rf"worker \d \(pid {workers[0]}\) has ended")
    assert wait_for(process)[1] == mold
    assert process.stop() == 0 and "the mold (pid" in process.log and "another is made" not in process.log


@pytest.mark.long_on_pypy
def test_an_upgrade_makes_a_new_mold(start, wait_until):
    """SIGUSR2: the old mold ends, the new code makes its own, and no request fails."""
    process = start()
    before, first = wait_for(process)
    with load(functools.partial(RawClient, process.address)) as running:
        process.write_app(source("two"))
        process.signal(signal.SIGUSR2)
        process.wait_for_log(r"SIGUSR2: done in [\d.]+ s: code and settings of 2 workers are new", 40)
        wait_until(lambda: len(process.workers) == 3)
        after, second = wait_for(process)
        running.wait_for(b"two")
    assert not {*before, first} & {*after, second}
    assert running.first_words == {b"one", b"two"}
    os.kill(after[0], signal.SIGKILL)
    process.wait_for_log("no worker is missing any more")
    assert process.stop() == 0


@pytest.mark.long_on_pypy
@pytest.mark.provokes("was killed by SIGKILL")
@pytest.mark.parametrize("is_upgraded", [long(False), True])
def test_what_a_worker_was_at(start_workers, tmp_path, wait_until, is_upgraded):
    """The supervisor has the table of a worker's requests, though the mold forked the worker: both logs tell them, after an upgrade too."""
    process = start_workers("--workers", "1", "--preload", "--access-log", str(tmp_path / "access.log"))
    process.wait_for_log(r"worker 1 \(pid \d+\) is ready")
    client = RawClient(process.address)
    client.request(f"/wait{tmp_path}/gate")
    wait_until((tmp_path / "gate.in").exists)
    (pid,) = re.findall(r"worker 1 \(pid (\d+)\) is ready", process.log)
    if is_upgraded:
        process.signal(signal.SIGUSR2)
        process.wait_for_log("SIGUSR2: done", 40)
    os.kill(int(pid), signal.SIGKILL)
    process.wait_for_log(
        rf"worker 1 \(pid {pid}\) has .*was killed by SIGKILL.*; it was at: GET /wait{tmp_path}/gate \(\d"
    )
    assert f'"GET /wait{tmp_path}/gate -" 0 -' in (tmp_path / "access.log").read_text()
    client.close()


@pytest.mark.long_on_pypy
def test_uwsgis_hooks_run_in_workers(start, wait_until):
    """uwsgi.post_fork_hook and @postfork are called in each worker; worker_id() is the worker's, and 0 in the mold."""
    extra = (
        "import uwsgi, uwsgidecorators\nstarted = [uwsgi.worker_id()]\n"
        "@uwsgidecorators.postfork\ndef begin():\n    note(f'begun-{started[0]}-{uwsgi.worker_id()}-{uwsgi.masterpid()}')\n"
    )
    process = start("--uwsgi-module", "on", extra=extra)
    workers, _ = wait_for(process)
    for number in (1, 2):
        assert len(notes(process, f"begun-0-{number}-{process.pid}")) == 1
    assert len(answers(process, workers, wait_until)) == 2
