"""Requests do not wait for a busy worker while another is free, nor are they lost with an ending worker."""

import contextlib
import functools
import os
import re
import signal

import pytest
from harness.client import RawClient
from harness.halting import halt
from harness.interpreter import NEEDS_LINUX
from harness.metrics import ready_of
from harness.outages import clients_of as clients_of_site
from harness.process import run_command
from harness.shared_pages import SharedPages, let_hang, let_turn

from aserve.core.page import Field

pytestmark = [NEEDS_LINUX, pytest.mark.any_parser]

# Each path /hold/NAME waits for a file NAME; all others are answered at once.
APP = """
import os, pathlib, time
FOLDER = pathlib.Path({folder!r})
def app(environ, start_response):
    path = environ["PATH_INFO"]
    if path.startswith("/hold/"):
        (FOLDER / f"new-{{path[6:]}}").write_text(str(os.getpid()))
        (FOLDER / f"new-{{path[6:]}}").rename(FOLDER / f"in-{{path[6:]}}")
        while not (FOLDER / path[6:]).exists():
            time.sleep(0.005)
    body = b"%d %d" % (os.getpid(), len(environ["wsgi.input"].read()))
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""


@pytest.fixture
def held(start_workers, wait_until, tmp_path):
    """Start workers with one thread each: held(*args) -> process, hold, free; at the end all requests may go on."""
    names = []

    def hold(client: RawClient) -> tuple[str, int]:
        """Send a request that keeps a worker's only thread until `free`; return its name, and the worker: the connection may just have gone to
        another.
        """
        name = f"n{len(names)}"
        names.append(name)
        client.request(target=f"/hold/{name}")
        wait_until((tmp_path / f"in-{name}").exists)
        return name, int((tmp_path / f"in-{name}").read_text())

    def free(name: str) -> None:
        (tmp_path / name).touch()

    def start(*args):
        return start_workers("--threads", "1", *args, app=APP.format(folder=str(tmp_path))), hold, free

    yield start
    for name in names:
        free(name)


def pid_of(reply) -> int:
    assert reply.status == 200
    return int(reply.body.split()[0])


@contextlib.contextmanager
def clients_of(address, count):
    """Connect so many clients."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(RawClient(address))) for _ in range(count)]


@pytest.mark.parametrize("lane", ["auto", "off"])
def test_quick_requests_beside_a_busy_worker(held, lane):
    """Requests on the busy worker's kept connections are answered by the other, with their bodies, and so are later ones; none fails."""
    process, hold, free = held("--workers", "2", "--lane", lane)
    process.wait_for_workers(2)
    with clients_of(process.address, 8) as clients:
        first, *others = clients
        for client in clients:
            client.fetch()
        name, busy = hold(first)
        for _ in range(2):
            for client in others:
                reply = client.fetch(method="POST", body=b"x" * 100_000)
                assert pid_of(reply) != busy and reply.body.endswith(b" 100000")
        free(name)
        assert pid_of(first.recv_response()) == busy


@pytest.mark.parametrize("how", ["recycle", "reload"])
def test_a_worker_that_ends(held, how):
    """An ending worker's waiting requests go to its successor, which answers while the old thread is inside the app."""
    process, hold, free = held("--workers", "1")
    (pid,) = process.wait_for_workers(1)
    with clients_of(process.address, 4) as clients:
        for client in clients:
            pid_of(client.fetch())
        first, *others = clients
        name, _ = hold(first)
        for client in others:
            client.request(target="/quick")
        if how == "reload":
            process.signal(signal.SIGHUP)
        else:
            os.kill(pid, signal.SIGTERM)
        for client in others:
            assert pid_of(client.recv_response()) != pid
        free(name)
        assert pid_of(first.recv_response()) == pid


def test_workers_that_are_all_busy(held, wait_until):
    """With all workers busy a request waits, and is answered by the first free one."""
    process, hold, free = held("--workers", "2")
    process.wait_for_workers(2)
    pages = SharedPages(process.pid)
    with clients_of(process.address, 8) as clients:
        wait_until(lambda: pages.connections == [4, 4])
        by_pid: dict[int, list[RawClient]] = {}
        for client in clients:
            by_pid.setdefault(pid_of(client.fetch()), []).append(client)
        (a, *_), (b, *rest) = by_pid.values()
        hold(a)
        name, _ = hold(b)
        waiting = rest[0] if rest else clients[-1]
        waiting.request(target="/quick")
        free(name)
        assert waiting.recv_response().status == 200 and b.recv_response().status == 200


def moved_requests(process) -> int:
    """Return how many requests on their way the supervisor keeps."""
    return sum("aserve-request" in name for name in process.open_files())


def two_at_one(clients):
    """Return two clients answered by the same worker."""
    pids = [pid_of(client.fetch()) for client in clients]
    busiest = max(pids, key=pids.count)
    return [client for client, pid in zip(clients, pids) if pid == busiest][:2]


@pytest.fixture
def sent(held, wait_until):
    """One of two workers is busy, the other is stopped and looks free, and a request has been sent there: process, free, and others."""
    process, hold, free = held("--workers", "2")
    process.wait_for_workers(2)
    pages = SharedPages(process.pid)
    with clients_of(process.address, 3) as clients:
        wait_until(lambda: pages.connections == [1, 2])  # levelling is over
        first, waiting = two_at_one(clients)
        name, busy = hold(first)
        stopped = next(pid for pid in process.workers if pid != busy)
        halt(stopped)
        let_turn(pages.of(stopped))
        waiting.request(target="/quick")
        wait_until(lambda: moved_requests(process) == 1)
        yield process, lambda: free(name), busy, stopped, first, waiting
        wait_until(lambda: moved_requests(process) == 0)


def test_a_worker_that_is_killed_before_it_has_a_request(sent):
    """Another worker answers, the client notices nothing, and the log tells the request."""
    process, free, busy, stopped, first, waiting = sent
    os.kill(stopped, signal.SIGKILL)
    process.wait_for_log(
        r"\(pid %d\) has ended; requests that were on their way to it are kept for another worker: 1\n" % stopped
    )
    assert pid_of(waiting.recv_response()) not in (busy, stopped)
    free()
    assert pid_of(first.recv_response()) == busy


def test_a_worker_that_does_not_answer(sent, wait_until):
    """The request is taken back from a stopped worker, and answered once, also when the worker goes on."""
    process, free, busy, stopped, first, waiting = sent
    let_hang(SharedPages(process.pid).of(stopped))
    process.wait_for_log(r"\(pid %d\) does not answer: a request that was on its way" % stopped)
    free()
    assert [pid_of(client.recv_response()) for client in (first, waiting)] == [busy, busy]
    os.kill(stopped, signal.SIGCONT)

    def goes_on() -> bool:
        with clients_of(process.address, 1) as (client,):  # either worker may get a new connection
            return pid_of(client.fetch()) == stopped

    wait_until(goes_on)
    assert waiting.is_quiet() and pid_of(waiting.fetch())


def test_a_worker_that_is_killed_with_a_request(held, wait_until):
    """A moved request is among the requests that the log names, and is not begun again."""
    process, hold, free = held("--workers", "2")
    process.wait_for_workers(2)
    with clients_of(process.address, 8) as clients:
        first, moved = two_at_one(clients)
        _, busy = hold(first)
        name, other = hold(moved)
        assert other != busy
        os.kill(other, signal.SIGKILL)
        process.wait_for_log(r"\(pid %d\) has crashed .*; it was at: GET /hold/%s \(" % (other, name))
        assert moved.is_closed()
        assert moved_requests(process) == 0


def test_connections_at_rest_on_their_way_to_a_worker_that_is_killed(held, wait_until):
    """Other workers get the connections, and no client notices anything."""
    process, _, _ = held("--workers", "2")
    process.wait_for_workers(2)
    pages = SharedPages(process.pid)
    with clients_of(process.address, 8) as clients:
        wait_until(lambda: pages.connections == [4, 4])  # levelling is over
        pids = [pid_of(client.fetch()) for client in clients]
        ends, stopped = sorted(set(pids))
        halt(stopped)
        page = pages.of(stopped)
        let_turn(page)
        page[Field.CONNECTIONS] = 0  # it gets at least as many connections of the first as the successor
        os.kill(ends, signal.SIGTERM)
        process.wait_for_log(r"\(pid %d\) has ended" % ends)
        os.kill(stopped, signal.SIGKILL)
        process.wait_for_log(
            r"\(pid %d\) has ended; connections at rest .* are kept for another worker: [1-4]\n" % stopped
        )
        for client, pid in zip(clients, pids):
            assert pid == stopped or pid_of(client.fetch()) not in pids


def test_an_upgrade_in_place(sent):
    """The new code knows the request, and gives it to another worker once the stopped worker is killed."""
    process, free, busy, stopped, first, waiting = sent
    process.signal(signal.SIGUSR2)
    process.wait_for_log("upgraded from")
    os.kill(stopped, signal.SIGKILL)
    assert pid_of(waiting.recv_response()) != stopped
    free()
    assert pid_of(first.recv_response()) == busy


# While there is a file of this name no request is answered: the database is away.
STUCK = """
import os, time
def app(environ, start_response):
    while os.path.exists({stuck!r}):
        time.sleep(0.05)
    start_response("200 OK", [("Content-Length", "0")])
    return []
"""


@pytest.mark.long
@pytest.mark.parametrize("flags", [("--workers", "2"), (), ("--lane", "off"), ("--native", "off")])
def test_a_stall_that_no_client_waits_out(start_workers, wait_until, tmp_path, flags):
    """Every thread waits, and forty clients leave after 8 s and come again: status, /ready and the log tell the stall, and all is well behind it."""
    stuck, metrics, control = (str(tmp_path / name) for name in ("stuck", "metrics", "control"))
    app = STUCK.format(stuck=stuck)
    process = start_workers(*flags, "--threads", "2", "--metrics", f"unix:{metrics}", "--control", control, app=app)
    process.wait_for_log("serving on")
    status = functools.partial(run_command, "status", "--control", control)
    wait_until(lambda: status().returncode == 0 and ready_of(metrics) == 200)
    (tmp_path / "stuck").touch()
    with clients_of_site(process, count=40, patience_seconds=8.0):
        count = 2 if "--workers" in flags else 1
        wait_until(lambda: process.log.count("all threads busy: no queued request started for 10 s") == count)
        wait_until(lambda: ready_of(metrics) == 503)
        wait_until(lambda: re.search(r"all threads busy: no queued request started for [2-9]\d s", status().stdout))
        assert status().returncode == 1 and ready_of(metrics) == 503 and process.log.count("all threads busy") == count
        (tmp_path / "stuck").unlink()
        wait_until(lambda: ready_of(metrics) == 200)
    wait_until(lambda: process.log.count("queued requests start again, after") == count)
    wait_until(lambda: "all threads busy" not in status().stdout)
