"""Worker processes start, crash, are replaced and end; no request is lost."""

import functools
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest
from harness.client import RawClient, fetch_once
from harness.combining import each_once, long
from harness.interpreter import NEEDS_LINUX, first_on_pypy
from harness.load import Load, load
from harness.process import run_command
from harness.workers import children_of, is_alive

pytestmark = [NEEDS_LINUX, pytest.mark.any_parser]


@pytest.fixture
def start(start_workers):
    """Start a supervisor: start(*flags, app="one") -> Workers."""
    return start_workers


def ask(process):
    """Return the version and pid behind a fresh connection."""
    return ask_at(process.address)


def ask_at(address):
    version, pid = fetch_once(address).body.decode().split()
    return version, int(pid)


BINDS = ["127.0.0.1:0", "unix:{}/s"]


def flags_of(bind, folder):
    return ["--bind", bind.format(folder)] if "unix" in bind else []


def address_of(process, bind, folder):
    return str(folder / "s") if "unix" in bind else process.address


# Start and end


@pytest.mark.parametrize("flags", [[], ["--threads", "0"], long(["--lane", "off"]), long(["--loop", "asyncio"])])
def test_start_and_end(start, wait_until, flags):
    """Each worker serves; the banner says how many there are, and why; SIGTERM ends all, with status 0."""
    process = start("--workers", "2", *flags)
    pids = process.wait_for_workers(2)
    assert f"serving on {process.url} with 2 workers (--workers 2)" in process.log
    seen = set()
    wait_until(lambda: seen.add(ask(process)[1]) or seen == set(pids))
    assert process.stop() == 0
    assert "SIGTERM: draining" in process.log and process.log.rstrip().endswith("stopped")


@pytest.mark.parametrize("loop", first_on_pypy(["auto", "asyncio"]))
def test_the_supervisor_is_small(start, loop):
    """The supervisor has one thread and no event loop; the event loop's module is imported once for all workers, and only where workers use the
    module.
    """
    process = start("--workers", "1", "--loop", loop)
    assert len(os.listdir(f"/proc/{process.pid}/task")) == 1
    assert not [name for name in process.open_files() if "eventfd" in name or "timerfd" in name]
    (worker,) = process.wait_for_workers(1)
    for pid in (process.pid, worker):
        maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
        assert ("uvloop" in maps) == (loop == "auto" and find_spec("uvloop") is not None)


@pytest.mark.long_on_pypy
def test_without_standard_output(start):
    """With standard output closed, workers start and restart."""
    closing = ["sh", "-c", 'exec "$@" >&-', "sh"]
    process = start("--bind", "127.0.0.1:0", "--workers", "1", launcher=closing, PYTHONUNBUFFERED="")
    (first,) = process.wait_for_workers(1)
    os.kill(first, signal.SIGKILL)
    process.wait_for_log(r"(?s)has crashed.*is ready")
    assert ask(process)[0] == "one" and process.stop() == 0


@pytest.mark.long_on_pypy
def test_as_many_as_cpus(start):
    """--workers auto starts a worker for each usable CPU."""
    process = start("--workers", "auto")
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert re.search(rf"with {cpus} workers? \(--workers auto: ", process.log)
    process.wait_for_workers(cpus)


BROKEN = [
    ("raise ValueError('no')\n", "importing .* raised ValueError: no", 1),
    ("import sys\nsys.exit(3)\n", "importing .* raised SystemExit: 3", 1),
    ("def app(:\n", "importing .* raised SyntaxError: ", 0),
    ("import os\nos._exit(3)\n", "it exited with status 3 before it was ready, without a word", 0),
    ("import os\nos.kill(os.getpid(), 11)\n", "it was killed by SIGSEGV before it was ready", 0),
    ("import time\ntime.sleep(99)\n", r"it was not ready within 5 s \(--start-timeout\)", 0),
]


@pytest.mark.parametrize(
    ("source", "why", "tracebacks"), first_on_pypy([BROKEN[0], *map(long, BROKEN[1:4]), *BROKEN[4:]])
)
def test_an_app_that_cannot_be_imported(tmp_path, source, why, tracebacks):
    """An app that fails at the first start ends the command: the app's traceback once, a last line, status 1."""
    (tmp_path / "broken.py").write_text(source)
    timeout = ["--start-timeout", "5"] if "timeout" in why else []
    done = run_command("broken:app", "--workers", "4", "--bind", "127.0.0.1:0", *timeout, cwd=tmp_path)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert re.fullmatch(rf"aserve: error: worker 1 \(pid \d+\) could not start: {why}.*", last), done.stderr
    assert done.stderr.count("Traceback (most recent call last)") == tracebacks
    assert "serving on" not in done.stderr
    if "timeout" in why:
        assert re.search(r'broken.py", line \d in <module>', done.stderr)  # the place of the sleep


@pytest.mark.long_on_pypy
def test_a_port_in_use(tmp_path):
    """A used port is told before any worker begins, with status 2."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        bind = "127.0.0.1:%d" % other.getsockname()[1]
        done = run_command("--workers", "2", "--bind", bind, cwd=tmp_path)
    assert done.returncode == 2 and "another program listens there" in done.stderr and "worker" not in done.stderr


@pytest.mark.parametrize(("bind", "lane"), first_on_pypy(each_once(BINDS, ["auto", "off"])))
def test_the_queue_is_served_at_the_end(start, raw_client, tmp_path, wait_until, bind, lane):
    """A client connected before SIGTERM is answered, even if no worker could accept so far."""
    process = start("--workers", "2", "--threads", "0", "--lane", lane, *flags_of(bind, tmp_path))
    process.wait_for_workers(2)
    clients = []
    for number in range(20):
        clients.append(raw_client(address_of(process, bind, tmp_path)))
        clients[-1].request(f"/wait{tmp_path}/{number}")
        if number < 2:  # from then on both event loops are inside the app
            wait_until((tmp_path / f"{number}.in").exists)
    process.signal()
    process.wait_for_log("draining")
    for number in range(20):
        (tmp_path / f"{number}.go").touch()
    assert [client.recv_response().status for client in clients] == [200] * 20
    assert process.wait() == 0
    assert not (tmp_path / "s").exists()


def test_term_under_load(start, tmp_path):
    """On a unix socket nobody is lost: whoever connects is answered, up to the end."""
    process = start("--workers", "2", "--bind", f"unix:{tmp_path}/s")
    process.wait_for_workers(2)
    running = Load(functools.partial(RawClient, str(tmp_path / "s")), kinds=("fresh",) * 8)
    while running.count < 200:
        assert not running.failures
        time.sleep(0.01)
    assert process.stop() == 0
    running.stop()
    assert {failure.what for failure in running.failures} <= {"refused"}  # nobody listens any more


@pytest.mark.long_on_pypy
def test_ctrl_c_is_the_supervisors(start, raw_client, tmp_path, wait_until):
    """A terminal sends SIGINT to the whole group: workers finish running requests, and the supervisor drains."""
    process = start("--workers", "2")
    pids = process.wait_for_workers(2)
    client = raw_client(process)
    client.request(f"/wait{tmp_path}/gate")
    wait_until((tmp_path / "gate.in").exists)
    for pid in (*pids, process.pid):
        os.kill(pid, signal.SIGINT)
    process.wait_for_log("SIGINT: draining")
    (tmp_path / "gate.go").touch()
    assert client.recv_response().status == 200
    assert process.wait() == 0


@pytest.mark.long_on_pypy
def test_a_second_signal(start, raw_client, tmp_path, wait_until):
    """A second signal ends all workers at once."""
    process = start("--workers", "2")
    pids = process.wait_for_workers(2)
    client = raw_client(process)
    client.request(f"/wait{tmp_path}/gate")
    wait_until((tmp_path / "gate.in").exists)
    process.signal()
    process.wait_for_log("draining")
    time.sleep(0.6)  # a sooner signal counts as the same
    process.signal()
    assert process.wait() == 128 + signal.SIGTERM
    assert client.is_closed() and not any(map(is_alive, pids))


@pytest.mark.long_on_pypy
def test_sigquit_waits_for_nothing(start, raw_client, tmp_path, wait_until):
    process = start("--workers", "2")
    client = raw_client(process)
    client.request(f"/wait{tmp_path}/gate")
    wait_until((tmp_path / "gate.in").exists)
    assert process.stop(signal.SIGQUIT) == 128 + signal.SIGQUIT
    assert client.is_closed()


@pytest.mark.long_on_pypy
def test_a_drain_that_takes_too_long(start, raw_client, tmp_path, wait_until):
    """A request cut off at --drain-timeout makes the exit status 1, and has a line of the worker's in the access log."""
    log = tmp_path / "access.log"
    flags = ("--access-log", str(log), "--access-log-format", "%(end) %(request)")
    process = start("--workers", "2", "--drain-timeout", "0.3", *flags)
    client = raw_client(process)
    client.request(f"/wait{tmp_path}/gate")
    wait_until((tmp_path / "gate.in").exists)
    assert process.stop() == 1
    assert client.is_closed()
    assert log.read_text() == f"cut GET /wait{tmp_path}/gate HTTP/1.1\n"


@pytest.mark.long_on_pypy
def test_the_files_of_the_supervisor(start, tmp_path, wait_until):
    """Pid file and socket belong to the supervisor: a worker's end leaves both, the supervisor's end removes both."""
    process = start("--workers", "1", "--pid-file", str(tmp_path / "pid"), "--bind", f"unix:{tmp_path}/s")
    (worker,) = process.wait_for_workers(1)
    assert (tmp_path / "pid").read_text() == f"{process.pid}\n"
    os.kill(worker, signal.SIGTERM)
    wait_until(lambda: worker not in process.workers)
    process.wait_for_workers(1)
    assert (tmp_path / "pid").exists() and ask_at(str(tmp_path / "s"))[0] == "one"
    assert process.stop() == 0
    assert not (tmp_path / "pid").exists() and not (tmp_path / "s").exists()


# Ends that nobody asked for


@pytest.mark.long_on_pypy
def test_broken_code_after_a_crash(start):
    """While a crashed worker cannot be replaced, the rest serve on; the log says since when, why, and what to do."""
    process = start("--workers", "2")
    first, second = process.wait_for_workers(2)
    process.write_app("raise ValueError('broken')\n")
    os.kill(second, signal.SIGKILL)
    process.wait_for_log(
        r"worker 2 \(pid \d+\) could not start: importing .* raised ValueError: broken; the next try is in 0.2 s"
    )
    process.wait_for_log(r"degraded: 1 of 2 workers is missing since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d, because importing")
    process.wait_for_log("the next try is in 0.4 s")
    assert ask(process) == ("one", first)
    assert process.count("Traceback") == 1
    process.write_app("two")
    process.wait_for_log("no worker is missing any more: 2 workers")
    process.wait_for_workers(2)


def test_a_supervisor_that_dies(start, raw_client, tmp_path, wait_until):
    """kill -9 of the supervisor: workers finish running requests and end; the socket's file is removed."""
    process = start("--workers", "2", "--bind", f"unix:{tmp_path}/s")
    pids = process.wait_for_workers(2)
    client = raw_client(process)
    client.request(f"/wait{tmp_path}/gate")
    wait_until((tmp_path / "gate.in").exists)
    process.signal(signal.SIGKILL)
    wait_until(lambda: process.count("the supervisor has died: draining") == 2)
    (tmp_path / "gate.go").touch()
    assert client.recv_response().status == 200
    wait_until(lambda: not any(map(is_alive, pids)))
    assert not (tmp_path / "s").exists()


@pytest.mark.long_on_pypy
def test_a_supervisor_that_dies_before_a_worker_that_is_kept(start, wait_until):
    """A thread of the app's without an end keeps the process for some seconds after the drain, and no longer."""
    source = "import threading\nthreading.Thread(target=threading.Event().wait).start()\ndef app(*args): pass\n"
    process = start("--workers", "1", "--drain-timeout", "0.1", app=source)
    (pid,) = process.wait_for_workers(1)
    process.signal(signal.SIGKILL)
    wait_until(lambda: not is_alive(pid))


@pytest.mark.long_on_pypy
def test_a_supervisor_that_dies_while_a_worker_starts(tmp_path, wait_until):
    """A worker with a hanging import ends with its supervisor, too."""
    (tmp_path / "slow.py").write_text("import time, sys\nprint('here', flush=True)\ntime.sleep(99)\n")
    command = [sys.executable, "-Im", "aserve", "slow:app", "--workers", "2", "--bind", "127.0.0.1:0"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "here\n"
    (pid,) = children_of(process.pid)
    process.kill()
    process.wait(30)
    wait_until(lambda: not is_alive(pid))
    process.stdout.close()


# Reloading


@pytest.mark.parametrize(
    ("bind", "flags"),
    first_on_pypy(each_once(BINDS, [[], ["--lane", "off"], ["--threads", "0"], ["--reload-at-once"]])),
)
def test_reload_under_load(start, tmp_path, wait_until, bind, flags):
    """SIGHUP: the new code takes over, and no request fails on kept or fresh connections."""
    process = start("--workers", "2", *flags, *flags_of(bind, tmp_path))
    before = process.wait_for_workers(2)
    address = address_of(process, bind, tmp_path)
    with load(functools.partial(RawClient, address)) as running:
        process.write_app("two")
        process.signal(signal.SIGHUP)
        process.wait_for_log(r"SIGHUP: done in [\d.]+ s: code and settings of 2 workers are new")
        after = process.wait_for_workers(2)
        assert ask_at(address)[0] == "two"  # whoever connects from now on
        running.wait_for(b"two")
    assert not set(before) & set(after)
    assert running.first_words == {b"one", b"two"}
    assert process.stop() == 0


@pytest.mark.parametrize(
    ("bind", "flags"), first_on_pypy(each_once(BINDS, [[], ["--lane", "off"], ["--threads", "0"]]))
)
def test_kept_connections_go_on(start, raw_client, tmp_path, wait_until, bind, flags):
    """A connected client stays on the same connection while all workers are replaced, and gets the new code."""
    process = start("--workers", "2", *flags, *flags_of(bind, tmp_path))
    process.wait_for_workers(2)
    clients = [raw_client(address_of(process, bind, tmp_path)) for _ in range(40)]
    assert {client.fetch().body.split()[0] for client in clients} == {b"one"}
    busy = clients.pop()
    busy.request(f"/wait{tmp_path}/gate")
    wait_until((tmp_path / "gate.in").exists)
    process.write_app("two")
    process.signal(signal.SIGHUP)
    process.wait_for_log(r"(?s)is ready.*is ready.*is ready.*is ready")  # two new workers
    (tmp_path / "gate.go").touch()
    assert busy.recv_response().body.startswith(b"one")
    process.wait_for_log("SIGHUP: done")
    pids = process.wait_for_workers(2)
    replies = [client.fetch() for client in [*clients, busy]]
    assert {reply.get("Connection") for reply in replies} == {None}
    assert {reply.body.split()[0] for reply in replies} == {b"two"}
    assert {int(reply.body.split()[1]) for reply in replies} <= set(pids)


@pytest.mark.long_on_pypy
@pytest.mark.provokes("raised ValueError")
def test_a_reload_of_code_that_answers_with_errors(start):
    """--warm-up is part of the start: code with failing views changes nothing."""
    process = start("--workers", "2", "--warm-up", "/")
    before = process.wait_for_workers(2)
    process.write_app("def app(environ, start_response):\n    raise ValueError('no view')\n")
    process.signal(signal.SIGHUP)
    process.wait_for_log(
        r"nothing was reloaded: worker 1 \(pid \d+\) could not start: the app has answered --warm-up / with status 500; .*"
        "as before: 2 of 2 workers"
    )
    assert process.wait_for_workers(2) == before


@pytest.mark.long_on_pypy
def test_settings_are_read_anew(start, tmp_path):
    """A reload reads the file of settings; settings that need a restart are told, and a mistake changes nothing."""
    (tmp_path / "pyproject.toml").write_text("[tool.aserve]\nworkers = 1\nserver-name = 'one'\n")
    process = start()
    process.wait_for_workers(1)
    (tmp_path / "pyproject.toml").write_text("[tool.aserve]\nworkers = 2\nserver-name = 'two'\nbacklog = 5\n")
    process.signal(signal.SIGHUP)
    process.wait_for_log("unchanged until the command is started anew: --backlog")
    process.wait_for_log("SIGHUP: done")  # until then the worker of before may accept, too
    process.wait_for_workers(2)
    client = RawClient(process.address)
    assert client.fetch().get("Server") == "two"
    client.close()
    (tmp_path / "pyproject.toml").write_text("[tool.aserve]\nworkers = 'many'\n")
    process.signal(signal.SIGHUP)
    process.wait_for_log(
        "nothing was reloaded: workers in .*: 'many' is not a whole number; .*; correct it, and send SIGHUP"
    )
    assert len(process.wait_for_workers(2)) == 2
