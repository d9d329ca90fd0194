"""Workers: as many requests at once as --threads says, none waiting for another without need."""

import contextvars
import sys
import threading

import pytest
from harness import apps
from harness.combining import long

pytestmark = pytest.mark.any_parser


VARIABLE = contextvars.ContextVar("VARIABLE", default="none")


class InContext:
    """An app that notes the context in its call, in its iteration and in close(), after setting a value each time."""

    def __init__(self, path):
        self.path = path
        self.found = []

    def __call__(self, environ, start_response):
        self.note("call")
        self.token = VARIABLE.set(environ["PATH_INFO"])
        start_response("200 OK", [("Content-Type", "text/plain")])
        if environ["PATH_INFO"] == "/file":
            return environ["wsgi.file_wrapper"](Noting(self.path, self))
        return self if environ["PATH_INFO"] == "/pieces" else [b"whole"]

    def note(self, what):
        self.found.append((what, VARIABLE.get()))

    def __iter__(self):
        for _ in range(100):
            self.note("piece")
            yield b"piece"

    def close(self):
        self.note("close")
        VARIABLE.reset(self.token)


class Noting:
    """A file that notes its close()."""

    def __init__(self, path, app):
        self.file = open(path, "rb")
        self.read, self.app = self.file.read, app

    def close(self):
        self.app.note("close")
        self.file.close()


@pytest.mark.also_inline
def test_each_request_has_a_context(start_server, raw_client, tmp_path, wait_until):
    """A request's context variables last up to its close(), and not into the next request of the thread."""
    path = tmp_path / "file"
    path.write_bytes(b"of a file")
    app = InContext(path)
    client = raw_client(start_server(app, threads=1, is_checked=False))
    bodies = []
    for target in ("/whole", "/pieces", "/file", "/whole"):
        client.request(target=target)
        bodies.append(client.recv_response().body)
    assert bodies == [b"whole", b"piece" * 100, b"of a file", b"whole"]
    wait_until(lambda: len(app.found) == 106)
    assert [value for what, value in app.found if what == "call"] == ["none"] * 4
    assert {value for what, value in app.found if what == "piece"} == {"/pieces"}
    assert sorted(value for what, value in app.found if what == "close") == ["/file", "/pieces"]


def fetch_all(raw_client, server, count, rounds=1):
    """Fetch by `count` clients at once; return the statuses."""
    clients = [raw_client(server) for _ in range(count)]
    statuses = []
    for _ in range(rounds):
        for client in clients:
            client.request()
        statuses += [client.recv_response().status for client in clients]
    return statuses


def test_all_at_once(start_server, raw_client):
    """40 threads serve 40 clients of an app in which all 40 must meet."""
    server = start_server(apps.Together(40), threads=40)
    assert fetch_all(raw_client, server, 40, rounds=3) == [200] * 120


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_small_groups_again_and_again(start_server, raw_client, count):
    """A few requests that wait for one another never stand behind a blocking one."""
    server = start_server(apps.Together(count))
    assert fetch_all(raw_client, server, count, rounds=60) == [200] * 60 * count


def test_one_after_another_wakes_workers(start_server, raw_client):
    """Requests that come one by one while earlier ones block each get a worker."""
    gate = apps.Gate()
    server = start_server(gate, threads=8)
    clients = [raw_client(server) for _ in range(8)]
    for _ in range(5):
        for client in clients:
            client.request()
            gate.wait_entered()
        gate.open(8)
        assert [client.recv_response().status for client in clients] == [200] * 8


def test_blocked_app_beside_a_busy_one(start_server, raw_client):
    """Two computing workers do not keep a third request waiting without end."""
    stop = threading.Event()

    def app(environ, start_response):
        while environ["PATH_INFO"] == "/busy" and not stop.is_set():
            sum(range(1000))
        return apps.hello(environ, start_response)

    server = start_server(app, threads=4)
    busy = [raw_client(server) for _ in range(2)]
    for client in busy:
        client.request("/busy")
    try:
        for _ in range(3):
            assert raw_client(server).fetch().status == 200
    finally:
        stop.set()
    assert [client.recv_response().status for client in busy] == [200, 200]


def test_no_more_than_asked_for(start_server, raw_client):
    """--threads bounds the requests in the app; the rest wait their turn."""
    lock, inside, most = threading.Lock(), [0], [0]
    gate = apps.Gate()

    def app(environ, start_response):
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        result = gate(environ, start_response)
        with lock:
            inside[0] -= 1
        return result

    server = start_server(app, threads=3)
    clients = [raw_client(server) for _ in range(12)]
    for client in clients:
        client.request()
    for _ in range(3):
        gate.wait_entered()
    gate.open(12)
    assert [client.recv_response().status for client in clients] == [200] * 12
    assert most == [3]


def test_threads_are_started_when_needed(start_server, raw_client, monkeypatch):
    """An app that never blocks needs one worker, however many are allowed."""
    for module in (
        "workers.executor",
        "connections.lane.lane_memory",
    ):  # without CPU a process looks blocked
        monkeypatch.setattr(f"aserve.{module}.STALL_SECONDS", 60)
    server = start_server(apps.hello, threads=32)
    client = raw_client(server)
    for _ in range(50):
        client.fetch()
    assert server.statistics().workers <= 2


TELLING = """\
import sys
{first}
def app(environ, start_response):
    start_response("200 OK", [])
    return [str(sys.getswitchinterval()).encode()]
"""


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="PyPy counts bytecodes")
@pytest.mark.parametrize(
    "flags", [(), ("--workers", "1"), ("--workers", "1", "--preload")], ids=["alone", "workers", "preload"]
)
@pytest.mark.parametrize(
    ("first", "expected"), [("", b"0.001"), long(("sys.setswitchinterval(0.02)", b"0.02"))], ids=["ours", "the-apps"]
)
def test_the_switch_interval(start_process, raw_client, tmp_path, flags, first, expected):
    """The command shortens CPython's interval in each serving process; an app may set its own."""
    (tmp_path / "telling.py").write_text(TELLING.format(first=first))
    process = start_process(f"{tmp_path / 'telling.py'}:app", *flags)
    client = raw_client(process)
    client.request()
    assert client.recv_response().body == expected


@pytest.mark.also_inline
def test_many_clients_are_served_at_once(start_server, raw_client):
    """200 connections at once, each served ten times."""
    server = start_server(apps.hello)
    assert fetch_all(raw_client, server, 200, rounds=10) == [200] * 2000


@pytest.mark.parametrize("threads", [0, 1, 4])
def test_the_names_of_threads(start_server, raw_client, threads):
    """The app runs in named workers, and never on the event loop's thread; with --threads 0, on the event loop's thread alone."""
    names = set()

    def app(environ, start_response):
        names.add(threading.current_thread().name)
        return apps.hello(environ, start_response)

    server = start_server(app, threads=threads)
    fetch_all(raw_client, server, 8, rounds=5)
    assert names <= ({f"aserve-worker-{number}" for number in range(1, threads + 1)} or {"event-loop"})
