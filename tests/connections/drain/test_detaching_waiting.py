"""Requests that wait for a thread leave one server with their connections, and another answers."""

import errno
import json
import mmap
import socket
import types

import pytest
from harness import apps, lanes
from harness.waiting import wait_until

from aserve import Detached
from aserve.connections.drain import detaching
from aserve.connections.in_flight import TABLE_BYTES, read_in_flight
from aserve.connections.lane import disconnects as departed
from aserve.connections.loop import wire_loop
from aserve.workers.executor import Executor

pytestmark = [pytest.mark.any_parser, pytest.mark.plain]

GET = b"GET /get?a=1 HTTP/1.1\r\nHost: test\r\nX-Field: \xe9t\xe9\r\n\r\n"
POST = b"POST /post HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nbody"
LARGE = b"POST /large HTTP/1.1\r\nHost: test\r\nContent-Length: 150000\r\n\r\n" + b"x" * 150_000
CHUNKED = b"POST /chunked HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"
OLD = b"GET /old HTTP/1.0\r\n\r\n"


def echo(environ, start_response):
    """Answer with the request and its client."""
    body = environ["wsgi.input"].read()
    names = ("PATH_INFO", "QUERY_STRING", "REMOTE_PORT", "HTTP_X_FIELD", "CONTENT_LENGTH")
    text = " ".join([environ["REQUEST_METHOD"], *(environ.get(name) or "-" for name in names), str(len(body))])
    start_response("200 OK", apps.PLAIN)
    return [text.encode("latin-1")]


@pytest.fixture
def stuck(start_server, raw_client):
    """Make a server whose only thread is inside the app: stuck(**settings) -> server, client."""
    gate = apps.Gate()

    def make(**settings):
        server = start_server(gate, is_checked=False, threads=1, **settings)
        first = raw_client(server.address)
        first.request(target="/first")
        gate.wait_entered()
        return server, first

    make.gate = gate
    yield make
    gate.open(10)


def move(old, new, count=1, limit=None):
    """Move so many waiting requests, as from one process to another."""
    wait_until(lambda: old.statistics().requests_waiting == count)
    found = old.call(lambda: old.server.detach_waiting(limit))
    for each in found:
        assert new.call(lambda each=each: new.server.adopt(each._replace(peer=json.loads(json.dumps(each.peer)))))
    return len(found)


@pytest.mark.parametrize("lane", ["auto", "off"])
@pytest.mark.parametrize("octets", [GET, POST, LARGE, CHUNKED, OLD], ids=["GET", "POST", "large", "chunked", "1.0"])
def test_another_server_answers_the_same(stuck, start_server, raw_client, octets, lane):
    """The other server answers the same, and the connection goes on there; each server counts its own."""
    old, _ = stuck(lane=lane)
    new = start_server(echo, is_checked=False)
    client, direct = raw_client(old.address), raw_client(new.address)
    client.send(octets)
    assert move(old, new) == 1
    moved = client.recv_response()
    direct.send(octets)
    expected, ports = direct.recv_response(), [str(one.sock.getsockname()[1]).encode() for one in (client, direct)]
    assert moved.status == 200 and moved.body == expected.body.replace(ports[1], ports[0])
    assert moved.get("Connection") == expected.get("Connection")
    if octets is not OLD:
        assert client.fetch(target="/next").body.startswith(b"GET /next")
        assert (old.server.connection_count, new.server.connection_count) == (1, 2)
    wait_until(lambda: new.statistics().connections_running == 0)
    assert old.statistics().requests_waiting == 0 and old.statistics().connections_running == 1


@pytest.mark.one_way
def test_it_counts_once(stuck, start_server, raw_client, tmp_path):
    """A request counts where it came; the access log of the other server has it, with the wait in both."""
    log = tmp_path / "log"
    old, _ = stuck(access_log="-")
    new = start_server(echo, is_checked=False, access_log=str(log), access_log_format="%(path)s %(status)s")
    client = raw_client(old.address)
    client.send(GET)
    assert move(old, new) == 1 and client.recv_response().status == 200
    assert (old.statistics().requests, new.statistics().requests) == (2, 0)
    new.stop()
    assert log.read_text() == "/get 200\n"


@pytest.mark.parametrize("lane", ["auto", "off"])
def test_what_other_processes_see(stuck, raw_client, lane):
    """A waiting request is in the table of its present server, before and after the move: the log tells it if that server dies."""
    tables = [mmap.mmap(-1, TABLE_BYTES) for _ in range(2)]

    def texts():
        return [[text for _, text in read_in_flight(table)] for table in tables]

    old, new = (stuck(lane=lane, in_flight=table)[0] for table in tables)
    client = raw_client(old.address)
    client.send(GET)
    wait_until(lambda: texts() == [["GET /first", "GET /get?a=1"], ["GET /first"]])
    assert move(old, new) == 1
    wait_until(lambda: texts() == [["GET /first"], ["GET /first", "GET /get?a=1"]])
    stuck.gate.open(3)
    assert client.recv_response().status == 200
    wait_until(lambda: texts() == [[], []])


@pytest.mark.parametrize(("scheme", "packet"), [("uwsgi", lanes.uwsgi), ("scgi", lanes.scgi)])
@pytest.mark.parametrize("lane", ["auto", "off"])
def test_behind_a_front_server(start_server, scheme, packet, lane):
    """Its connection carries one request, and closes with the answer."""
    gate, bind = apps.Gate(), f"{scheme}://127.0.0.1:0"
    old = start_server(gate, is_checked=False, threads=1, bind=bind, lane=lane)
    new = start_server(echo, is_checked=False, bind=bind)
    clients = [socket.create_connection(old.address, 20) for _ in range(2)]
    for number, client in enumerate(clients):
        client.sendall(packet(body=b"body"))
        if not number:
            gate.wait_entered()
    assert move(old, new) == 1
    answer = b""
    while more := clients[1].recv(1000):
        answer += more
    assert b"200 OK" in answer and answer.endswith(b" 4")
    for client in clients:
        client.close()
    gate.open(1)


@pytest.mark.one_way
def test_the_oldest_first(stuck, start_server, raw_client):
    """The oldest requests move, as many as there is room for; the rest wait on."""
    old, first = stuck()
    new = start_server(echo, is_checked=False)
    clients = []
    for number in range(3):
        clients.append(raw_client(old.address))
        clients[-1].send(GET)
        wait_until(lambda number=number: old.statistics().requests_waiting == number + 1)
    assert move(old, new, count=3, limit=2) == 2
    assert [client.recv_response().status for client in clients[:2]] == [200, 200]
    stuck.gate.open(2)
    assert first.recv_response().status == 200 and clients[2].recv_response().status == 200


@pytest.mark.one_way
def test_before_one_goes(stuck, raw_client):
    """The caller gets the octets before the request goes; without room for them the request stays, and so do later ones, in order."""
    old, first = stuck()
    clients = []
    for number in range(3):
        clients.append(raw_client(old.address))
        clients[-1].send(GET)
        wait_until(lambda number=number: old.statistics().requests_waiting == number + 1)
    seen = []

    def before(octets):
        seen.append((octets, old.server._threads.executor.waiting_count))
        if len(seen) == 2:
            raise OSError(errno.ENOMEM, "no memory")

    found = old.call(lambda: old.server.detach_waiting(before=before))
    assert [count for _, count in seen] == [3, 2] and [each.request for each in found] == [seen[0][0]]
    assert old.call(lambda: old.server.adopt(found[0], is_own=True))
    wait_until(lambda: old.statistics().requests_waiting == 3)
    exchanges = [departed.exchange_of(job) for job in old.server._threads.executor.jobs.copy()]
    ports = [each.connection.remote_port for each in exchanges]
    assert ports == [str(client.sock.getsockname()[1]) for client in clients]
    stuck.gate.open(4)
    assert [client.recv_response().status for client in (first, *clients)] == [200] * 4


@pytest.mark.one_way
def test_an_app_that_has_just_begun_it(stuck, raw_client, monkeypatch):
    """A client that has closed its input is left to the begun app."""
    old, _ = stuck()
    client = raw_client(old.address)
    client.send(POST)
    wait_until(lambda: old.statistics().requests_waiting == 1)
    monkeypatch.setattr(detaching, "write_request", lambda exchange: int("closed"))
    assert old.call(lambda: old.server.detach_waiting()) == []
    stuck.gate.open(2)
    assert client.recv_response().status == 200


def test_a_call_stays_plain():
    """A call stays, and is not promoted; another request is, to see whether it can go."""
    promoted = []
    for modifier1 in (173, 0):
        job = types.SimpleNamespace(modifier1=modifier1, promote=lambda name=modifier1: promoted.append(name))
        assert detaching._movable((None, job)) is None
    assert promoted == [0]


@pytest.mark.one_way
@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_server_that_drains(stuck, start_server, raw_client, is_replaced):
    """A draining server takes a request at the end of all servers, and answers; while another goes on, it leaves the request to the other."""
    old, _ = stuck()
    client = raw_client(old.address)
    client.send(GET)
    wait_until(lambda: old.statistics().requests_waiting == 1)
    (found,) = old.call(lambda: old.server.detach_waiting())
    new = start_server(echo, is_checked=False)
    new.call(lambda: new.server._listening.begin_draining(is_replaced))
    assert new.call(lambda: new.server.adopt(found)) is not is_replaced
    if is_replaced:
        assert old.call(lambda: old.server.adopt(found, is_own=True))
        stuck.gate.open(2)
    reply = client.recv_response()
    assert reply.status == 200 and (is_replaced or client.is_closed())


@pytest.mark.one_way
def test_no_room_after_the_end(stuck, start_server, raw_client):
    """A server past its drain takes no request, even its own: no answer would come."""
    old, _ = stuck()
    client = raw_client(old.address)
    client.send(GET)
    wait_until(lambda: old.statistics().requests_waiting == 1)
    (found,) = old.call(lambda: old.server.detach_waiting())
    old.server._listening.end_adopting()
    assert not old.call(lambda: old.server.adopt(found, is_own=True)) and not old.call(lambda: old.server.refuse(found))
    new, taken = start_server(echo, is_checked=False), []
    executor = new.server._threads.executor
    assert new.call(lambda: new.server.adopt(found, when_taken=lambda: taken.append(executor.waiting_count)))
    assert taken == [0] and client.recv_response().status == 200


@pytest.mark.one_way
@pytest.mark.parametrize("lane", ["auto", "off"])
def test_requests_that_cannot_move_are_answered_here(stuck, start_server, raw_client, lane):
    """A request with another behind it, or with a body in a file, is answered here."""
    old, _ = stuck(lane=lane, body_memory_bytes=1000)
    new = start_server(echo, is_checked=False)
    clients = [raw_client(old.address), raw_client(old.address)]
    clients[0].send(GET + GET)
    clients[1].send(LARGE)
    assert move(old, new, count=2) == 0
    stuck.gate.open(4)
    assert [client.recv_response().status for client in (*clients, clients[0])] == [200] * 3


@pytest.mark.one_way
def test_a_client_that_has_left(stuck, start_server, raw_client, caplog):
    """Nothing fails: the other server finds the client gone."""
    old, _ = stuck()
    new = start_server(echo, is_checked=False)
    client = raw_client(old.address)
    client.send(GET)
    wait_until(lambda: old.statistics().requests_waiting == 1)
    client.reset()
    move(old, new)
    new.wait_until_idle()
    assert "report this" not in caplog.text


@pytest.mark.one_way
def test_no_server_takes_it(stuck, raw_client):
    """The old server answers 503, with Retry-After, also in a drain; without a request there is nothing to answer."""
    old, _ = stuck()
    client = raw_client(old.address)
    client.send(GET)
    wait_until(lambda: old.statistics().requests_waiting == 1)
    [found] = old.call(lambda: old.server.detach_waiting())
    assert not old.call(lambda: old.server.refuse(found._replace(request=None)))
    assert old.call(lambda: old.server.refuse(found))
    reply = client.recv_response()
    assert reply.status == 503 and int(reply.get("Retry-After")) > 0 and client.is_closed()


@pytest.mark.also_inline
def test_nothing_waiting_gives_nothing(start_server):
    server = start_server(echo, is_checked=False)
    assert server.call(lambda: server.server.detach_waiting()) == []


def test_requests_begun_meanwhile_stay(monkeypatch):
    """A just begun request is left to its worker, and so is one whose connection cannot go; a closed lane has dropped it."""
    for wire, expected in ((object(), []), (object.__new__(FakeFast), ["dropped"])):
        monkeypatch.setattr(detaching, "FastWire", FakeFast)
        exchange = types.SimpleNamespace(connection=types.SimpleNamespace(wire=wire))
        FakeFast.dropped.clear()
        executor = types.SimpleNamespace(withdraw=lambda job: True)
        assert detaching._take(executor, None, exchange) is None
        assert FakeFast.dropped == expected


class FakeFast:
    """A wire in a closed lane."""

    fd = 1
    dropped: list[str] = []

    def detach(self, exchange):
        return None

    def drop(self, exchange):
        self.dropped.append("dropped")


def test_a_descriptor_and_its_facts():
    """A connection without a request has none."""
    assert Detached(1, 0, None).request is None


@pytest.mark.one_way
def test_no_descriptor_is_left(stuck, raw_client, monkeypatch):
    """A request without a descriptor for its move is answered here."""
    old, _ = stuck(lane="off")
    client = raw_client(old.address)
    client.send(GET)
    wait_until(lambda: old.statistics().requests_waiting == 1)

    def dup(fd):
        raise OSError(errno.EMFILE, "too many")

    monkeypatch.setattr(wire_loop.os, "dup", dup)
    assert old.call(lambda: old.server.detach_waiting()) == []
    monkeypatch.undo()
    stuck.gate.open(2)
    assert client.recv_response().status == 200


@pytest.mark.one_way
@pytest.mark.parametrize("lane", ["auto", "off"])
def test_a_worker_is_quicker(stuck, raw_client, monkeypatch, lane):
    old, _ = stuck(lane=lane)
    client = raw_client(old.address)
    client.send(GET)
    wait_until(lambda: old.statistics().requests_waiting == 1)
    monkeypatch.setattr(Executor, "withdraw", lambda executor, job: False)
    assert old.call(lambda: old.server.detach_waiting()) == []
    stuck.gate.open(2)
    assert client.recv_response().status == 200
