"""SIGUSR2: new code, aserve's own too, takes over within the same process, and no request is lost."""

import contextlib
import functools
import os
import pathlib
import re
import signal
import sys
import sysconfig
import time

import pytest
from harness.client import RawClient, fetch_once
from harness.combining import long
from harness.interpreter import NEEDS_LINUX, can_unshare
from harness.load import load
from harness.waiting import wait_until
from harness.workers import Copied, Workers, is_alive

import aserve

pytestmark = [NEEDS_LINUX, pytest.mark.any_parser]

DONE = r"SIGUSR2: done in [\d.]+ s: code and settings of \d workers? are new"


@pytest.fixture(name="start")
def _start(start_workers):
    return start_workers


def upgrade(process):
    """Upgrade, and wait until every worker is new."""
    count = process.count(DONE)
    process.signal(signal.SIGUSR2)
    wait_until(lambda: process.count(DONE) > count, 40, lambda: process.log)


def ask(process):
    return fetch_once(process.address).body.decode().split()[0]


# Upgrades that succeed


@pytest.mark.long_on_pypy
@pytest.mark.parametrize("bind", [long("127.0.0.1:0"), "unix:{}/s"])
def test_no_request_fails_under_load(start, tmp_path, bind):
    """The new code takes over in the same process, on the same listeners; no request fails on kept or fresh connections."""
    flags = ["--bind", bind.format(tmp_path)] if "unix" in bind else []
    process = start("--workers", "2", *flags)
    before = process.wait_for_workers(2)
    listeners = sockets_of(process)
    with load(functools.partial(RawClient, str(tmp_path / "s") if flags else process.address)) as running:
        process.write_app("two")
        upgrade(process)
        after = process.wait_for_workers(2)
        running.wait_for(b"two")
    assert not set(before) & set(after)
    assert running.first_words == {b"one", b"two"}
    assert listeners & sockets_of(process)
    version = re.escape(aserve.__version__)
    assert re.search(f"upgraded from {version} to {version}, with 2 old workers", process.log)
    assert process.stop() == 0
    assert not (tmp_path / "s").exists()


def sockets_of(process):
    return {name for name in process.open_files() if name.startswith("socket:")}


def test_its_own_code(start):
    """Another version of aserve takes over; settings and number of workers stay."""
    process = start("--workers", "1", kind=Copied)
    process.wait_for_workers(1)
    process.signal(signal.SIGTTIN)
    process.wait_for_workers(2)
    process.change("settings/table.py", 'VERSION = "', 'VERSION = "99.')
    upgrade(process)
    process.wait_for_log(r"upgraded from \d\S+ to 99\.\S+, with 2 old workers")
    process.wait_for_workers(2)
    assert process.stop() == 0


class PatientMetrics(Workers):
    """A client of the metrics may be silent for longer than an upgrade takes on a busy machine."""

    command = (
        sys.executable,
        "-I",
        "-c",
        "import sys; from aserve.features.metrics import scrapes; scrapes.CONNECTION_SECONDS = 600.0; "
        "from aserve.command.cli import main; sys.exit(main())",
    )


@pytest.mark.long_on_pypy
def test_clients_of_the_metrics_outlive_an_upgrade(start, tmp_path):
    """A client with a request on its way keeps its connection, and the new code answers."""
    path, request = str(tmp_path / "m"), b"GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n"
    process = start("--workers", "1", "--metrics", f"unix:{path}", kind=PatientMetrics)
    process.wait_for_workers(1)
    silent, half = clients = [RawClient(path), RawClient(path)]
    half.send(request[:20])
    upgrade(process)
    silent.send(request)
    half.send(request[20:])
    for client in clients:
        response = client.recv_response()
        assert response.status == 200 and b"aserve_build_info" in response.body
        client.close()


@pytest.mark.long_on_pypy
def test_settings_are_read_anew(start, tmp_path):
    """Settings are read anew, as by SIGHUP: bound sockets stay."""
    (tmp_path / "pyproject.toml").write_text("[tool.aserve]\nworkers = 1\nserver-name = 'one'\n")
    process = start()
    process.wait_for_workers(1)
    (tmp_path / "pyproject.toml").write_text("[tool.aserve]\nworkers = 2\nserver-name = 'two'\nbacklog = 5\n")
    upgrade(process)
    process.wait_for_workers(2)
    process.wait_for_log("unchanged until the command is started anew: --backlog")
    client = RawClient(process.address)
    assert client.fetch().get("Server") == "two"
    client.close()


@pytest.mark.long_on_pypy
@pytest.mark.provokes("was killed by SIGKILL")
def test_a_worker_of_before_that_dies(start, tmp_path, wait_until):
    """The new code tells the request of the dead worker."""
    process = start("--workers", "1")
    (pid,) = process.wait_for_workers(1)
    client = RawClient(process.address)
    client.request(f"/wait{tmp_path}/gate")
    wait_until((tmp_path / "gate.in").exists)
    upgrade(process)
    os.kill(pid, signal.SIGKILL)
    process.wait_for_log(
        rf"worker 1 \(pid {pid}\) has ended: it was killed by SIGKILL; it was at: GET /wait{tmp_path}/gate \(\d"
    )
    client.close()


@pytest.mark.long_on_pypy
def test_again_and_again(start):
    """Supervisor and workers have the descriptors of before, and nothing of the upgrade is in their environment."""
    process = start("--workers", "1")
    process.wait_for_workers(1)
    upgrade(process)
    (pid,) = process.wait_for_workers(1)
    before, of_worker = settled_kinds(process.pid), settled_kinds(pid)
    for _ in range(2):
        upgrade(process)
    (pid,) = process.wait_for_workers(1)
    assert (settled_kinds(process.pid), settled_kinds(pid)) == (before, of_worker)
    assert process.count("upgraded from") == 3


def settled_kinds(pid):
    """Return the same once five looks found no change: an ending process has some descriptors for a moment."""
    seen = []

    def is_settled():
        seen.append(kinds(pid))
        time.sleep(0.1)
        return len(seen) >= 5 and all(each == seen[-1] for each in seen[-5:])

    wait_until(is_settled, 20)
    return seen[-1]


def kinds(pid):
    """Return a process's kinds of descriptors, without numbers."""
    found = []
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed by now
            found.append(re.sub(r"\d+", "N", os.readlink(fd)))
    return sorted(found)


@pytest.mark.long_on_pypy
def test_the_console_script(start):
    """The script is found again as it was called, with its whole environment."""

    class Script(Workers):
        command = (os.path.join(sysconfig.get_path("scripts"), "aserve"),)

    process = start(kind=Script, ASERVE_WORKERS="1", ASERVE_SERVER_NAME="mine")
    process.wait_for_workers(1)
    upgrade(process)
    client = RawClient(process.address)
    assert client.fetch().get("Server") == "mine"
    client.close()


RELEASE = """\
NAME = open("name").read()
def app(environ, start_response):
    start_response("200 OK", [])
    return [NAME.encode()]
"""


@pytest.mark.long_on_pypy
def test_the_link_leads_to_another_release(start, tmp_path):
    """A working directory behind a link to the current release follows the link to the next release."""

    class Released(Workers):
        command = ("sh", "-c", 'cd current && exec "$0" "$@"', *Workers.command)

    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "name").write_text(name)
    (tmp_path / "current").symlink_to("one")
    process = start("--workers", "1", app=RELEASE, kind=Released)
    process.wait_for_workers(1)
    assert ask(process) == "one"
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").rename(tmp_path / "current")
    upgrade(process)
    assert ask(process) == "two"


# Upgrades that are refused


def refused(process, why, count=2):
    """Ask for new code; check that the upgrade is refused for this reason and changes nothing."""
    workers, files = process.wait_for_workers(count), kinds(process.pid)
    line = rf"(?m)SIGUSR2: nothing was upgraded: {why}.*; correct it, and send SIGUSR2; workers that go on as before: {count}$"
    before = len(re.findall(line, process.log))  # another trial may have been refused for the same reason
    process.signal(signal.SIGUSR2)
    wait_until(lambda: len(re.findall(line, process.log)) > before, 40, lambda: f"no {line!r}:\n{process.log}")
    assert process.workers == workers and ask(process) == "one"
    wait_until(lambda: kinds(process.pid) == files)
    assert "upgraded from" not in process.log


BROKEN_APPS = [
    ("def app(:\n", r"the trial \(pid \d+\) could not start: importing .* raised SyntaxError: "),
    ("import os\nos._exit(3)\n", "the trial .* exited with status 3 before it was ready, without a word"),
    ("import os\nos.kill(os.getpid(), 9)\n", "the trial .* was killed by SIGKILL before it was ready"),
]


@pytest.mark.long_on_pypy
def test_an_app_that_is_broken(start):
    """A broken app changes nothing, however broken, and no request fails; a corrected app is taken."""
    process = start("--workers", "2")
    process.wait_for_workers(2)
    with load(functools.partial(RawClient, process.address), kinds=("kept", "fresh")) as running:
        for source, why in BROKEN_APPS:
            process.write_app(source + "\n")
            refused(process, why)
        process.write_app("two")
        upgrade(process)
        running.wait_for(b"two")
    assert running.first_words == {b"one", b"two"}


BROKEN_COPIES = [
    (
        "__init__.py",
        "from . import rpc\n",
        "raise ValueError('broken')\n",
        "the trial .* exited with status 1 before it was ready",
    ),
    ("command/cli.py", '"""The', "def broken(:\n", "the trial .* exited with status 1 before it was ready"),
    (
        "server/server.py",
        "        check_unpatched()\n",
        "        raise ValueError('broken')\n",
        "the trial .* ValueError: broken",
    ),
    (
        "processes/children/command.py",
        'TRIAL_VARIABLE = "',
        'TRIAL_VARIABLE = "OLD_',
        "the trial .* exited with status 2 before it was ready",
    ),
]


@pytest.mark.long_on_pypy
@pytest.mark.provokes("please report this as a bug")
def test_its_own_code_is_broken(start):
    """Nothing changes, whatever of aserve is broken, or knows nothing of trials."""
    process = start("--workers", "2", kind=Copied)
    process.wait_for_workers(2)
    for name, old, new, why in BROKEN_COPIES:
        process.change(name, old, new)
        refused(process, why)
        process.change_back(name)
    for name, old, new, _ in BROKEN_COPIES:
        process.change(name, old, new)
    process.signal(signal.SIGHUP)  # loaded code goes on
    process.wait_for_log("SIGHUP: done")


class Linked(Copied):
    """A copy whose interpreter the test may take away."""

    def __init__(self, folder, app, *flags, **env):
        (folder / "python").symlink_to(os.path.realpath(sys.executable))
        self.command = (str(folder / "python"), "-m", "aserve")
        super().__init__(folder, app, *flags, PYTHONPATH=sysconfig.get_path("purelib"), **env)


@pytest.mark.long_on_pypy
def test_a_missing_interpreter_changes_nothing(start, tmp_path):
    """An interpreter missing for the trial, or only afterwards, changes nothing."""
    process = start("--workers", "1", kind=Linked)
    process.wait_for_workers(1)
    (tmp_path / "python").rename(tmp_path / "gone")
    refused(process, rf"the trial .* {tmp_path}/python could not be run in {tmp_path}: No such file", 1)
    (tmp_path / "gone").rename(tmp_path / "python")
    process.write_app(f"import os\nos.remove({str(tmp_path / 'python')!r})\ndef app(environ, start_response): pass\n")
    refused(process, f"{tmp_path}/python could not be run: No such file", 1)


# Upgrades beside other events


GATE = """\
import os, time
while "ASERVE_INHERITANCE" in os.environ and not os.path.exists("gate"):
    open("waiting", "w").close()
    time.sleep(0.005)
"""


@pytest.fixture
def between(start, tmp_path, wait_until):
    """A server of new code, held by `gate` before it supervises."""
    process = start("--workers", "2", kind=Copied)
    process.wait_for_workers(2)
    process.change("__init__.py", "from . import rpc", f"{GATE}from . import rpc")
    process.signal(signal.SIGUSR2)
    wait_until((tmp_path / "waiting").exists)
    return process


@pytest.mark.long_on_pypy
def test_a_signal_between_is_not_lost(between, tmp_path):
    """A signal is not lost while one program becomes the next; workers serve meanwhile."""
    between.signal(signal.SIGTERM)
    pending = re.search(r"ShdPnd:\s+(\w+)", pathlib.Path(f"/proc/{between.pid}/status").read_text())[1]
    assert int(pending, 16) & 1 << (signal.SIGTERM - 1)
    assert ask(between) == "one"
    (tmp_path / "gate").touch()
    assert between.wait(20) == 0
    assert "SIGTERM: draining" in between.log


@pytest.mark.long_on_pypy
def test_a_worker_that_dies_between(between, tmp_path):
    """A dead worker is reaped and replaced by the new code."""
    first, second = between.wait_for_workers(2)
    os.kill(second, signal.SIGKILL)
    assert ask(between) == "one"
    (tmp_path / "gate").touch()
    between.wait_for_log(rf"worker 2 \(pid {second}\) has crashed after \d+ s: it was killed by SIGKILL")
    between.wait_for_log(DONE, 40)
    assert not {first, second} & set(between.wait_for_workers(2))
    assert between.stop() == 0


@pytest.mark.long_on_pypy
def test_another_form_starts_new_workers(start):
    """New code that cannot read the state of old code starts its own workers, and no request fails."""
    process = start("--workers", "2", kind=Copied)
    before = process.wait_for_workers(2)
    process.change("processes/upgrade/inheritance.py", "FORM = ", "FORM = 99")
    with load(functools.partial(RawClient, process.address), kinds=("fresh", "fresh")) as running:
        process.write_app("two")
        upgrade(process)
        wait_until(lambda: not any(map(is_alive, before)), 20, lambda: process.log)
        running.wait_for(b"two")
    assert running.first_words == {b"one", b"two"}
    process.wait_for_workers(2)
    assert process.stop() == 0


# While a file `gate` exists, an import waits for a file `import-PID`. The path /hold waits for a file `free`.
HELD_APP = """
import os, pathlib, time
FOLDER = pathlib.Path({folder!r})
def wait_for(name):
    while not (FOLDER / name).exists():
        time.sleep(0.005)
if (FOLDER / "gate").exists():
    (FOLDER / f"importing-{{os.getpid()}}").touch()
    wait_for(f"import-{{os.getpid()}}")
def app(environ, start_response):
    if environ["PATH_INFO"] == "/hold":
        (FOLDER / "held").touch()
        wait_for("free")
    body = b"%d" % os.getpid()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""


@pytest.mark.long_on_pypy
def test_requests_that_wait_while_the_form_changes(start, tmp_path):
    """Old workers pass waiting requests to each other through the new code, before and after its workers serve; all are answered."""

    def let_import():
        for each in tmp_path.glob("importing-*"):
            (tmp_path / each.name.replace("importing", "import")).touch()

    process = start("--workers", "2", "--threads", "1", app=HELD_APP.format(folder=str(tmp_path)), kind=Copied)
    process.wait_for_workers(2)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(contextlib.closing(RawClient(process.address))) for _ in range(8)]
        by_pid = {}
        for client in clients:
            by_pid.setdefault(client.fetch().body, []).append(client)
        first, *waiting = max(by_pid.values(), key=len)
        first.request(target="/hold")
        wait_until((tmp_path / "held").exists)
        process.change("processes/upgrade/inheritance.py", "FORM = ", "FORM = 99")
        (tmp_path / "gate").touch()
        process.signal(signal.SIGUSR2)
        wait_until(lambda: any(tmp_path.glob("importing-*")), 40)
        let_import()  # the trial
        process.wait_for_log("upgraded from", 40)
        for client in waiting:
            client.request(target="/quick")
        wait_until(lambda: let_import() or process.count(DONE), 40, lambda: process.log)
        (tmp_path / "free").touch()
        assert {client.recv_response().status for client in (first, *waiting)} == {200}
    assert process.stop() == 0


@pytest.mark.long_on_pypy
@pytest.mark.skipif(not can_unshare(), reason="needs the right to make a namespace of processes")
def test_as_pid_1(start):
    """In a container the supervisor is PID 1, and stays PID 1."""

    class Contained(Workers):
        command = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *Workers.command)

    process = start("--workers", "2", kind=Contained)
    process.wait_for_log(r"worker 2 \(pid \d+\) is ready")
    (pid,) = process.workers
    os.kill(pid, signal.SIGUSR2)
    process.wait_for_log(DONE, 40)
    assert process.workers == [pid] and ask(process) == "one"
    os.kill(pid, signal.SIGTERM)
    assert process.wait(20) == 0
