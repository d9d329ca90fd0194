"""Processes that share a listener each get their part of the clients, whatever the clients do."""

import collections
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from harness import sidecars
from harness.interpreter import first_on_pypy, once
from harness.sharing import SharingServers
from harness.waiting import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.any_parser, pytest.mark.plain]

BINDS = {"tcp": "127.0.0.1:0", "unix": "unix:{}/s", "uwsgi": "uwsgi://127.0.0.1:0", "uwsgi unix": "uwsgi://unix:{}/s"}
# PyPy's run has each kind of socket and each protocol once: further combinations are C's (cparsers) and the kernel's.
KINDS = ["tcp", "uwsgi unix", once("unix"), once("uwsgi")]


def with_lanes(rows: list[Any], *brief: int) -> list[Any]:
    """Return each row with the lane and without; in the brief run are the rows at these places, in turn with and without."""
    found = []
    for place, row in enumerate(rows):
        values, marks = (
            (row.values, row.marks) if hasattr(row, "marks") else (row if isinstance(row, tuple) else (row,), ())
        )
        for number, lane in enumerate(("auto", "off")):
            is_brief = place in brief and brief.index(place) % 2 == number
            found.append(pytest.param(*values, lane, marks=marks if is_brief else (*marks, pytest.mark.long)))
    return found


@pytest.fixture
def share(tmp_path: Any) -> Iterator[Callable[..., SharingServers]]:
    """Start processes: share(count, kind of bind, **settings)."""
    running: list[SharingServers] = []

    def start(count: int, kind: str, **settings: Any) -> SharingServers:
        running.append(SharingServers(count, bind=[BINDS[kind].format(tmp_path)], **settings))
        return running[-1]

    yield start
    for servers in running:
        servers.kill()


def connect(servers: SharingServers) -> socket.socket:
    client = socket.socket(socket.AF_UNIX if isinstance(servers.address, str) else socket.AF_INET)
    client.settimeout(PATIENCE_SECONDS)
    client.connect(servers.address)
    return client


def send(client: socket.socket, kind: str, target: str, is_last: bool = False) -> None:
    """Send a request; over uwsgi as nginx does."""
    if kind.startswith("uwsgi"):
        vars = {"QUERY_STRING": "", "REQUEST_METHOD": "GET", "REQUEST_URI": target, "PATH_INFO": target.split("?")[0]}
        client.sendall(sidecars.uwsgi(vars))
    else:
        close = b"Connection: close\r\n" if is_last else b""
        client.sendall(b"GET %b HTTP/1.1\r\nHost: a\r\n%b\r\n" % (target.encode(), close))


def ask(client: socket.socket, kind: str, path: str = "/", is_last: bool = False) -> int:
    """Return the number of the answering process."""
    send(client, kind, path, is_last)
    octets = b""
    while not octets.partition(b"\r\n\r\n")[2]:
        more = client.recv(4096)
        assert more, octets
        octets += more
    return int(octets[-1:])


def ask_until_even(servers: SharingServers, kind: str, clients: int, requests: int, path: str) -> None:
    """Let so many clients send so many requests each, on new connections; check that each process has its part.

    On a busy machine one of two processes may get little of it for a while: then begin again, nine times at most, and judge all rounds together.
    """
    counts: collections.Counter[int] = collections.Counter()
    for _ in range(10):
        ask_at_once(counts, servers, kind, clients, requests, path)
        if is_even(list(counts.values()), 2):
            break
    assert is_even(list(counts.values()), 2), counts


def ask_at_once(
    counts: collections.Counter[int], servers: SharingServers, kind: str, clients: int, requests: int, path: str
) -> None:
    """Count the answers of each process."""
    lock = threading.Lock()
    expected = sum(counts.values()) + clients * requests

    def be_client() -> None:
        for _ in range(requests):
            with connect(servers) as client:
                number = ask(client, kind, path, is_last=True)
            with lock:
                counts[number] += 1

    threads = [threading.Thread(target=be_client, daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts.values()) == expected


def is_even(counts: list[int], count: int) -> bool:
    """Tell whether each of so many has its part: of two, 40 to 60 per cent."""
    part = sum(counts) / count
    return len(counts) == count and all(0.8 * part <= number <= 1.2 * part for number in counts)


@pytest.mark.long_on_pypy
@pytest.mark.parametrize(
    ("kind", "count", "lane"),
    with_lanes([("tcp", 2), ("uwsgi unix", 2), once("unix", 2), once("uwsgi", 2), once("tcp", 3)], 0, 1, 4),
)
def test_a_burst_of_connections(share, kind, lane, count):
    """Many connections opened at once, and used afterwards, are spread."""
    servers = share(count, kind, lane=lane)
    for _ in range(3):  # a process without CPU for a tenth of a second is not waited for: then begin again
        clients = [connect(servers) for _ in range(120)]
        wait_until(lambda: sum(load.connections for load in servers.loads()) == 120)
        loads = servers.loads()
        answers = collections.Counter(ask(client, kind) for client in clients)
        assert sorted(answers.values()) == sorted(load.connections for load in loads if load.connections)
        for client in clients:
            client.close()
        wait_until(lambda: all(load[:2] == (0, 0) for load in servers.loads()))
        if is_even(list(answers.values()), count):
            break
    assert is_even(list(answers.values()), count), loads
    assert servers.end() == [0] * count and servers.loads() == [None] * count


@pytest.mark.parametrize(("kind", "lane"), first_on_pypy(with_lanes(KINDS, 0, 1)))
def test_two_connections_go_to_two_processes(share, kind, lane):
    """Two lasting clients are served by two processes.

    On a busy machine a process may get no CPU for the tenth of a second of the wait: one pair of ten may be together.
    """
    servers = share(2, kind, lane=lane)
    pairs = []
    for _ in range(10):
        with connect(servers) as first, connect(servers) as second:
            wait_until(lambda: sum(load.connections for load in servers.loads()) == 2)
            pairs.append({ask(first, kind), ask(second, kind)})
        wait_until(lambda: all(load[:2] == (0, 0) for load in servers.loads()))
    assert pairs.count({0, 1}) >= 9, pairs


@pytest.mark.parametrize(("kind", "lane"), first_on_pypy(with_lanes(KINDS, 0, 1)))
def test_short_connections_are_spread_evenly(share, kind, lane):
    servers = share(2, kind, lane=lane)
    ask_until_even(servers, kind, clients=8, requests=100, path="/")
    wait_until(lambda: all(load[:2] == (0, 0) for load in servers.loads()))


@pytest.mark.long_on_pypy
@pytest.mark.parametrize(
    ("kind", "threads", "lane"),
    with_lanes(
        [("tcp", 32), ("uwsgi unix", 32), ("unix", 0), once("unix", 32), once("uwsgi", 32), once("tcp", 2)], 0, 1, 2
    ),
)
def test_a_slow_app(share, kind, lane, threads):
    """A process that waits for its app leaves new clients to the rest."""
    servers = share(2, kind, lane=lane, threads=threads)
    ask_until_even(servers, kind, clients=10, requests=10, path="/slow")
    wait_until(lambda: all(load[:2] == (0, 0) for load in servers.loads()))
    assert servers.end() == [0, 0] and servers.loads() == [None, None]


@pytest.mark.parametrize(("kind", "lane"), first_on_pypy(with_lanes(KINDS, 0, 1)))
def test_one_that_dies(share, kind, lane):
    """A dead process's requests can be read, and nothing more."""
    servers = share(1, kind, lane=lane)
    with connect(servers) as first, connect(servers) as kept, connect(servers) as last:
        ask(kept, kind, "/before")
        send(first, kind, "/gate")
        wait_until(lambda: [text for _, text in servers.in_flight()[0]] == ["GET /gate"])
        send(last, kind, "/die?now")
        assert not last.recv(1)
    [[(seconds, text), (late_seconds, late_text)]] = servers.in_flight()
    assert (text, late_text) == ("GET /gate", "GET /die?now") and seconds > late_seconds > 0
