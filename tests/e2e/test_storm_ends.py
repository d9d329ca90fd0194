"""Invariants while processes are killed, stopped and forgotten, and of their remains. Each test is an invariant.

Over TCP, or each way of `make storm`, while clients ask without a break; see harness/storm.py.
"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest
from harness.client import RawClient
from harness.halting import halt
from harness.interpreter import NEEDS_LINUX
from harness.storm import CLIENTS, IS_LONG, TEST_SECONDS, kept_results, start_storm
from harness.waiting import wait_until
from harness.workers import Workers, children_of, is_alive

__all__ = ["kept_results", "start_storm"]  # fixtures
pytestmark = [NEEDS_LINUX, pytest.mark.slow, pytest.mark.checkout, pytest.mark.timeout(TEST_SECONDS)]


def test_a_worker_that_is_killed(start_storm):
    """4: kill -9 of a worker costs its running requests, and no more; another worker starts in its slot."""
    storm = start_storm("--workers", "2")
    kills = 0
    for number in storm.rounds():
        slot = 1 + number % 2
        pids = storm.wait_for_workers(2)
        pid = next(pid for pid in pids if f"worker {slot} (pid {pid}) is ready" in storm.process.log)
        os.kill(pid, signal.SIGKILL)
        kills += 1
        storm.wait_for(rf"worker {slot} \(pid {pid}\) has crashed .*it was killed by SIGKILL", 1)
        storm.wait_for("no worker is missing any more", kills)
        storm.ask_more()
    storm.end_load()
    assert set(storm.seen()) <= {"answered", "reset", "closed", "status 502"}, storm.load.failures[:5]
    assert len(storm.load.failures) <= kills * len(CLIENTS)  # a client has one request at a time
    storm.stop()


@pytest.mark.long_on_pypy
def test_a_supervisor_that_is_killed(start_storm, tmp_path):
    """5: kill -9 of the supervisor: workers finish their requests, and nothing is left."""
    storm = start_storm("--workers", "2")
    pids = storm.wait_for_workers(2)
    storm.ask_more()
    storm.process.signal(signal.SIGKILL)
    wait_until(lambda: not any(map(is_alive, pids)), 30, lambda: storm.process.log)
    assert storm.process.count("the supervisor has died: draining") == 2
    storm.check_none_cut_off()
    assert not [path for path in tmp_path.iterdir() if path.is_socket()]


def test_descriptors_do_not_grow(start_storm):
    """10: after many reloads the supervisor has the descriptors of before, and its workers no more than the first."""
    storm = start_storm("--workers", "2")
    storm.wait_for_workers(2)
    before, reloads = storm.process.open_files(), 0
    for _ in storm.rounds():
        for _ in range(50 if IS_LONG else 5):
            storm.reload()
            reloads += 1
    storm.check_nothing_lost()
    pids = storm.wait_for_workers(2)
    # The channel of a child is closed a moment after its reaping, and a connection after its client's end.
    wait_until(lambda: kinds_of(storm.process.open_files()) == kinds_of(before))
    wait_until(lambda: len({count_files(pid) for pid in pids}) == 1)
    count = count_files(pids[0])
    storm.reload()
    wait_until(lambda: {count_files(pid) for pid in storm.wait_for_workers(2)} == {count})
    assert storm.process.count("SIGHUP: done") == reloads + 1
    storm.stop()


def kinds_of(names):
    return [re.sub(r"\d+", "N", name) for name in names]


def count_files(pid):
    """Return a process's number of files, without uvloop's /dev/null of its first transport."""
    count = 0
    for path in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            count += os.readlink(path) != os.devnull
    return count


@pytest.mark.long_on_pypy
def test_nobody_is_killed_for_having_been_stopped(start_storm):
    """14: when all processes were stopped for a while, as by a debugger or a freezer, the same go on, and answer."""
    storm = start_storm("--workers", "2", "--start-timeout", "6")
    for _ in storm.rounds():
        pids = storm.wait_for_workers(2)
        storm.ask_more()
        stop_for([storm.process.pid, *pids], 7.0)
        storm.ask_more()
        assert storm.wait_for_workers(2) == pids
    storm.check_nothing_lost()
    storm.stop()


def stop_for(pids, seconds):
    halt(*pids)
    time.sleep(seconds)  # this is the test
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.skipif(not IS_LONG, reason="it takes 6 s; tests/processes/children/test_poller.py has the cause")
def test_none_that_starts_is_killed_for_having_been_stopped(start_storm):
    """14: nor is a successor, whose --start-timeout has passed meanwhile."""
    gate = "import os, time\nwhile not os.path.exists('gate'):\n    time.sleep(0.01)\n"
    storm = start_storm("--workers", "1", "--start-timeout", "5")
    before = storm.wait_for_workers(1)
    storm.process.write_app(gate + APP)
    storm.signal(signal.SIGHUP, "replacing 1 worker")
    (new,) = wait_until(lambda: [pid for pid in storm.process.workers if pid not in before])
    stop_for([storm.process.pid, *before, new], 6.0)
    storm.ask_more()
    (storm.process.folder / "gate").touch()
    storm.wait_for("SIGHUP: done", 1)
    assert storm.wait_for_workers(1) == [new]
    storm.check_nothing_lost()
    storm.stop()


APP = """\
import os
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"new %d" % os.getpid()]
"""

# As PID 1, and in a system that gives nothing

DAEMON = """\
import os

def start_daemon():
    child = os.fork()
    if child == 0:
        if os.fork() == 0:  # its parent ends: it becomes a child of PID 1
            os.setsid()
            while not os.path.exists("gate"):
                pass
        os._exit(0)
    os.waitpid(child, 0)
    return b"done"

def children():  # of PID 1: their states
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                name, _, rest = file.read().rpartition(")")
        except OSError:
            continue
        if rest.split()[1] == "1":
            yield rest.split()[0]

def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    path = environ["PATH_INFO"]
    return [start_daemon() if path == "/daemon" else "".join(children()).encode() if path == "/children" else b"ok"]
"""


def need(*command: str, runs: tuple[str, ...] = ("true",)) -> list[str]:
    """Skip the test unless `runs` can be run with this command in front; return the command."""
    try:
        done = subprocess.run([*command, *runs], capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError:
        pytest.skip(f"{command[0]} is not installed")
    if done.returncode:
        pytest.skip(f"{command[0]} ... {' '.join(runs)}: not possible here: {done.stderr.strip()}")
    return list(command)


@pytest.fixture
def start_within():
    """Start workers behind a command that runs them in another world: start_within(command, app, *flags) -> Workers."""
    running = []

    def start(command, app, *flags, **env):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="aserve-"))  # open to anybody; pytest's is not
        folder.chmod(0o755)
        running.append(
            (Workers(folder, app, "--bind", "127.0.0.1:0", "--workers", "2", *flags, launcher=command, **env), folder)
        )
        return running[-1][0]

    yield start
    for process, folder in running:
        process.end()
        faults = process.faults()
        shutil.rmtree(folder)
        assert not faults, faults


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("preload", [False, True])
def test_strangers_are_reaped_as_pid_1(start_within, preload):
    """11: as PID 1 of a container the supervisor adopts orphans, a mold too, and leaves no zombie."""
    world = need("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    app = f"{DAEMON}\nstart_daemon()\n" if preload else DAEMON
    process = start_within(world, app, *["--preload"] * preload)
    (supervisor,) = children_of(process.pid)
    client, own = RawClient(process.address), 3 if preload else 2
    wait_until(lambda: len(client.fetch("/children").body) == own + preload)  # also the second worker
    for _ in range(3):
        assert client.fetch("/daemon").body == b"done"
    assert len(client.fetch("/children").body) == own + preload + 3
    (process.folder / "gate").touch()
    wait_until(lambda: len(client.fetch("/children").body) == own)
    client.close()
    os.kill(supervisor, signal.SIGTERM)
    assert process.wait(30) == 0 and "stopped" in process.log


# Python may be in a folder closed to all but its owner: $0 is its place, $1 the folder, or empty.
READ_ONLY = """\
closed=$1
shift
if [ "$closed" ]; then
    mount --bind "$0" /mnt && mount -t tmpfs -o mode=755 none "$closed" &&
    mkdir -p "$0" && mount --bind /mnt "$0" || exit
fi
mount -o remount,bind,ro / && exec "$@"
"""
NOBODY = ["--reuid=54321", "--regid=54321", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]


@pytest.mark.long_on_pypy
def test_a_system_that_gives_nothing(start_within):
    """16: a read-only root, a user in no list, no HOME: aserve starts, serves and reloads; the one warning is of large bodies."""
    python = pathlib.Path(sys.base_prefix)
    closed = [str(folder) for folder in python.parents if not folder.stat().st_mode & 1]
    world = ["unshare", "--mount", "sh", "-c", READ_ONLY, str(python), "".join(closed[-1:])]
    command = need(*world, "setpriv", *NOBODY, "env", "-u", "HOME", runs=(sys.executable, "-Ic", "import aserve"))
    process = start_within(command, "one")
    (worker, _) = process.wait_for_workers(2)
    assert re.search(r"^Uid:\s54321\s", pathlib.Path(f"/proc/{worker}/status").read_text(), re.MULTILINE)
    client = RawClient(process.address)
    assert client.fetch().status == 200
    process.signal(signal.SIGHUP)
    process.wait_for_log("SIGHUP: done")
    assert client.fetch("/", "Connection: close").status == 200
    client.close()
    assert process.stop() == 0
    assert not re.search("WARNING(?!.*: no room for request bodies over)|ERROR|Traceback|Error", process.log), (
        process.log
    )
