"""Under systemd: passed sockets and notifications; with a notify socket of the test's own."""

import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys

import pytest
from harness.client import RawClient
from harness.interpreter import NEEDS_LINUX, first_on_pypy
from harness.lanes import uwsgi
from harness.workers import children_of, is_alive

ACTIVATE = shutil.which("systemd-socket-activate")


@pytest.fixture
def listening(tmp_path):
    """Make listening sockets as systemd does: listening("tcp" or "unix")."""
    made = []

    def make(kind):
        made.append(socket.socket(socket.AF_INET if kind == "tcp" else socket.AF_UNIX))
        made[-1].bind(("127.0.0.1", 0) if kind == "tcp" else str(tmp_path / "s"))
        made[-1].listen(100)
        return made[-1]

    yield make
    for sock in made:
        sock.close()


@pytest.mark.parametrize(  # each two of the three beside each other
    ("kind", "bind", "lane"),
    first_on_pypy(
        [
            ("tcp", "systemd:web", "auto"),
            ("unix", "fd:3", "off"),
            pytest.param("unix", "systemd:web", "off", marks=pytest.mark.long),
            pytest.param("tcp", "fd:3", "off", marks=pytest.mark.long),
            pytest.param("unix", "fd:3", "auto", marks=pytest.mark.long),
        ]
    ),
)
def test_a_restart_refuses_nobody(start_process, raw_client, listening, kind, bind, lane, wait_until):
    """A client between the end of one process and the start of the next is served by the latter: the socket stays."""
    sock = listening(kind)
    flags = ("--bind", bind, "--lane", lane)
    first = start_process("hello", *flags, fds=[sock.fileno()], LISTEN_FDNAMES="web")
    client = raw_client(sock.getsockname())
    assert client.fetch().status == 200
    first.signal()
    assert first.wait() == 0
    clients = [raw_client(sock.getsockname()) for _ in range(5)]
    for client in clients:
        client.request()
    second = start_process("hello", *flags, fds=[sock.fileno()], LISTEN_FDNAMES="web")
    assert [client.recv_response().body for client in clients] == [b"hello\n"] * 5
    assert second.url.endswith("/s" if kind == "unix" else str(sock.getsockname()[1]))


@pytest.mark.long_on_pypy
def test_names_and_protocols(start_process, raw_client, listening):
    """Each bind takes the sockets of its name, and speaks its own protocol."""
    web, admin = listening("tcp"), listening("unix")
    process = start_process(
        "environ_json", "--bind", "uwsgi://systemd:admin", "--bind", "systemd:web",
        fds=[web.fileno(), admin.fileno()], LISTEN_FDNAMES="web:admin",
    )  # fmt: skip
    assert f"serving on uwsgi://unix:{admin.getsockname()}, http://127.0.0.1:{web.getsockname()[1]}\n" in process.log
    assert raw_client(web.getsockname()).fetch().status == 200
    client = raw_client(admin.getsockname())
    client.send(uwsgi(modifier1=100))  # a ping
    assert client.recv_to_end() == uwsgi(modifier1=100)[:1] + b"\0\0\1"


def connected(path):
    """Return a client of the socket of this path; None as long as nobody listens: the path is there a moment earlier."""
    try:
        return RawClient(str(path), None)
    except (FileNotFoundError, ConnectionRefusedError):
        return None


@pytest.mark.long_on_pypy
@pytest.mark.skipif(ACTIVATE is None, reason="systemd-socket-activate is not installed")
def test_systemds_own_activation(tmp_path, wait_until):
    """systemd itself passes the socket at the first client, who is served."""
    path = tmp_path / "s"
    app = os.path.join(os.path.dirname(__file__), "../harness/apps.py:hello")
    command = [
        ACTIVATE,
        "-l",
        path,
        "--fdname=web",
        "-E",
        "PATH",
        sys.executable,
        "-I",
        "-m",
        "aserve",
        app,
        "--bind",
        "systemd:web",
    ]
    with open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen(command, cwd=tmp_path, stderr=log, stdout=log)
    try:
        client = wait_until(lambda: connected(path))
        assert client.fetch().body == b"hello\n"
        client.close()
    finally:
        process.terminate()
        status = process.wait(30)
    assert status == 0, (tmp_path / "log").read_text()
    assert path.exists()  # the socket is systemd's


def test_what_systemd_is_told(start_process, manager):
    """READY at the first accept, WATCHDOG each second, RELOADING and READY for SIGHUP, STOPPING; each from the process itself."""
    process = start_process("hello", **manager.environ, WATCHDOG_USEC="30000000")
    ready = manager.wait_for("READY=1")
    assert ready[1:] == [f"STATUS=serving on {process.url}"]  # no MAINPID: the process may be a child of the service
    manager.wait_for("WATCHDOG=1", count=2)
    process.signal(signal.SIGHUP)
    assert manager.wait_for("RELOADING=1")[1].startswith("MONOTONIC_USEC=")
    manager.wait_for("READY=1", count=2)
    process.signal()
    assert process.wait() == 0
    manager.wait_for("STOPPING=1")


@pytest.mark.parametrize(
    "flags", first_on_pypy([["--lane", "auto"], ["--lane", "off"], ["--workers", "1"]]), ids=["lane", "loop", "workers"]
)
def test_the_watchdog_of_a_stuck_app(start_process, raw_client, manager, tmp_path, wait_until, flags):
    """While every thread hangs and requests wait, the watchdog is not fed, and the log warns; moving threads feed it again."""
    process = start_process("steered", "--threads", "1", *flags, **manager.environ, WATCHDOG_USEC="4000000")
    clients = [raw_client(process) for _ in range(2)]
    for number, client in enumerate(clients):
        client.request(f"/wait{tmp_path}/gate{number}")
        if not number:
            wait_until((tmp_path / "gate0.in").exists)
    process.wait_for_log(r"no progress for \d+ s.* in . s systemd's watchdog")
    fed = manager.hear().count(["WATCHDOG=1"])
    for number in range(2):
        (tmp_path / f"gate{number}.go").touch()
    manager.wait_for("WATCHDOG=1", count=fed + 1)
    assert [client.recv_response().status for client in clients] == [200, 200]


@pytest.mark.long_on_pypy
@pytest.mark.provokes("Fatal Python error: Aborted")
def test_the_watchdog_shows_every_stack(start_process, manager):
    """systemd ends a silent service by SIGABRT: the log then has the stacks."""
    process = start_process("hello", **manager.environ, WATCHDOG_USEC="30000000")
    manager.wait_for("WATCHDOG=1")
    process.signal(signal.SIGABRT)
    assert process.wait() == -signal.SIGABRT
    assert "Fatal Python error: Aborted" in process.log and "running.py" in process.log


def start_with_store(start_process, manager, *flags):
    """Start a service whose manager keeps the stored descriptors."""
    fields = [field for message in manager.hear() for field in message]
    names = [field.partition("=")[2] for field in fields if field.startswith("FDNAME=")]
    return start_process(
        "hello", *flags, fds=manager.fds, FDSTORE="5", LISTEN_FDNAMES=":".join(names), **manager.environ
    )  # fmt: skip


# Of the ends, binds and kinds of processes, each once.
STORED = [(signal.SIGTERM, "unix:{}/s", ()), (signal.SIGKILL, "127.0.0.1:0", ("--workers", "2"))]


@pytest.mark.long_on_pypy
@pytest.mark.provokes("the supervisor has died")
@pytest.mark.parametrize(
    ("end", "bind", "workers"),
    [
        pytest.param(*row, marks=() if row in STORED else pytest.mark.long)
        for row in itertools.product(
            [signal.SIGTERM, signal.SIGKILL], ["127.0.0.1:0", "unix:{}/s"], [(), ("--workers", "2")]
        )
    ],
)
def test_listeners_are_kept_over_a_restart(
    start_process, raw_client, manager, tmp_path, wait_until, workers, bind, end
):
    """Listeners without a socket unit are kept over a restart, and over a crash; a removed bind's ends."""
    flags = ["--bind", bind.format(tmp_path), *workers]
    first = start_process("hello", *flags, launcher=["env"], FDSTORE="5", **manager.environ)
    manager.wait_for("FDSTORE=1")
    manager.wait_for("READY=1")
    assert raw_client(first).fetch().status == 200
    children = children_of(first.pid)
    first.signal(end)
    assert first.wait(30) == (0 if end == signal.SIGTERM else -end)
    wait_until(lambda: not any(map(is_alive, children)))
    client = raw_client(first.address)
    client.request()
    second = start_with_store(start_process, manager, *flags)
    assert client.recv_response().body == b"hello\n"
    assert second.url == first.url and f"sockets that systemd has kept: {first.url}" in second.log
    second.signal()
    assert second.wait(30) == 0
    third = start_with_store(start_process, manager, "--bind", "127.0.0.1:0")
    manager.wait_for("FDSTOREREMOVE=1" if "unix" in bind else "READY=1", 1 if "unix" in bind else 3)
    third.signal()
    assert third.wait(30) == 0


# With --workers


@pytest.mark.long_on_pypy
@NEEDS_LINUX
@pytest.mark.provokes("nothing was reloaded")
def test_what_systemd_is_told_of_workers(start_workers, manager):
    """READY, also after a reload only when the new workers serve; the watchdog, while a worker's loop turns; STOPPING."""
    process = start_workers("--workers", "2", WATCHDOG_USEC="5000000", **manager.environ)
    process.wait_for_workers(2)
    ready = manager.wait_for("READY=1")
    assert f"MAINPID={process.pid}" in ready and f"STATUS=serving on {process.url} with 2 workers" in ready
    manager.wait_for("WATCHDOG=1", count=2)
    process.write_app("two")
    process.signal(signal.SIGHUP)
    reloading = manager.wait_for("RELOADING=1")
    assert reloading[1].startswith("MONOTONIC_USEC=") and "STATUS=reloading: SIGHUP" in reloading
    manager.wait_for("READY=1", count=2)
    assert "code and settings of 2 workers are new" in process.log
    process.write_app("raise ValueError('no')\n")
    process.signal(signal.SIGHUP)
    manager.wait_for("READY=1", count=3)
    assert "SIGHUP: nothing was reloaded" in process.log
    assert process.stop() == 0
    assert manager.wait_for("STOPPING=1")[1].startswith("STATUS=SIGTERM: draining")


@pytest.mark.long_on_pypy
@NEEDS_LINUX
@pytest.mark.provokes("nothing was upgraded", "the app's traceback", "Traceback", "Error: no")
def test_what_systemd_is_told_of_an_upgrade(start_workers, manager):
    """RELOADING with its time; READY when the new workers serve, or, when the trial fails, with a status that says so."""
    process = start_workers("--workers", "1", **manager.environ)
    process.wait_for_workers(1)
    manager.wait_for("READY=1")
    process.write_app("raise ValueError('no')\n")
    process.signal(signal.SIGUSR2)
    reloading = manager.wait_for("RELOADING=1")
    assert reloading[1].startswith("MONOTONIC_USEC=") and "STATUS=reloading: SIGUSR2" in reloading
    failed = manager.wait_for("READY=1", count=2)
    assert failed[-1] == f"STATUS=serving on {process.url} with 1 worker; SIGUSR2 has changed nothing, see the log"
    process.write_app("two")
    process.signal(signal.SIGUSR2)
    done = manager.wait_for("READY=1", count=3)
    assert done[-1] == f"STATUS=serving on {process.url} with 1 worker" and f"MAINPID={process.pid}" in done
    assert "SIGUSR2: done in" in process.log
    assert process.stop() == 0


@pytest.mark.long_on_pypy
@NEEDS_LINUX
@pytest.mark.provokes("has crashed", "could not start", "degraded", "the app's traceback", "Traceback", "Error: no")
def test_the_status_of_missing_workers(start_workers, manager, wait_until):
    """The status tells how many workers are missing, and why; and the end of the lack."""
    process = start_workers("--workers", "2", **manager.environ)
    pids = process.wait_for_workers(2)
    process.write_app("raise ValueError('no')\n")
    os.kill(pids[0], signal.SIGKILL)
    wait_until(lambda: any(m[0].startswith("STATUS=degraded: 1 of 2 workers is missing since") for m in manager.hear()))
    process.write_app("two")
    manager.wait_for(f"STATUS=serving on {process.url} with 2 workers", count=2)
    assert process.stop() == 0
