"""Requests that wait for a thread when a drain's time is over are each answered 503, on either wire."""

import asyncio
import collections
import socket
import types

import pytest
from harness import apps, lanes

from aserve.connections.drain import unstarted_requests as unbegun
from aserve.connections.drain.unstarted_requests import refuse_unbegun
from aserve.core.exchange import Exchange
from aserve.workers.executor import Executor
from aserve.workers.inline import InlineExecutor

pytestmark = [
    pytest.mark.any_parser,
    pytest.mark.plain,
]  # `stop` closes the clients of `raw_client`: these are not


@pytest.fixture
def stuck(start_server, raw_client, wait_until):
    """Make a server whose only thread is inside the app, where these requests wait: stuck(requests, **settings) -> server, clients."""
    gate = apps.Gate()

    def make(*requests, **settings):
        server = start_server(gate, threads=1, drain_seconds=0.01, **settings)
        first = raw_client(server.address)
        first.request(target="/first")
        gate.wait_entered()
        clients = []
        for octets in requests:
            clients.append(raw_client(server.address))
            clients[-1].send(octets)
        wait_until(lambda: server.statistics().requests_waiting == len(requests))
        return server, clients

    yield make
    gate.open(1)


GET = b"GET /get HTTP/1.1\r\nHost: test\r\n\r\n"
POST = b"POST /post HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nbody"
CHUNKED = b"POST /chunked HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"


def test_each_is_answered_with_503(stuck, caplog, tmp_path):
    """Each 503 has Retry-After; the access log has each request, and the log their number."""
    log = tmp_path / "log"
    server, clients = stuck(GET, POST, CHUNKED, access_log=str(log), access_log_format="%(path)s %(status)s")
    server.begin_drain()
    for client in clients:
        reply = client.recv_response()
        assert reply.status == 503 and int(reply.get("Retry-After")) > 0 and reply.get("Connection") == "close"
        assert client.is_closed()
        client.close()
    server.stop()
    assert {"/get 503", "/post 503", "/chunked 503"} <= set(log.read_text().splitlines())
    assert "requests answered 503, as no thread was free for them until --drain-timeout: 3" in caplog.text


def test_a_client_that_has_left(stuck, caplog):
    """Nothing fails for a gone client, nor for the next one."""
    server, (gone, stays) = stuck(GET, GET)
    gone.reset()
    server.begin_drain()
    assert stays.recv_response().status == 503
    stays.close()
    server.stop()
    assert "report this" not in caplog.text and "Traceback" not in caplog.text


def test_a_client_that_does_not_close(stuck, monkeypatch):
    """A client that does not close has its answer, and keeps the server for a moment only."""
    monkeypatch.setattr(unbegun, "ANSWER_SECONDS", 0.2)
    server, (client,) = stuck(GET)
    server.stop()
    assert client.recv_response().status == 503


@pytest.mark.parametrize(("scheme", "packet"), [("uwsgi", lanes.uwsgi), ("scgi", lanes.scgi)])
def test_behind_a_front_server(start_server, wait_until, scheme, packet):
    """A front server can send the request to another host."""
    gate = apps.Gate()
    server = start_server(gate, threads=1, drain_seconds=0.01, bind=f"{scheme}://127.0.0.1:0")
    clients = [socket.create_connection(server.address, 20) for _ in range(2)]
    for number, client in enumerate(clients):
        client.sendall(packet(body=b"body"))
        if not number:
            gate.wait_entered()
    wait_until(lambda: server.statistics().requests_waiting == 1)
    server.begin_drain()
    answer = b""
    while more := clients[1].recv(1000):
        answer += more
    assert b"503" in answer and b"Retry-After" in answer
    for client in clients:
        client.close()
    gate.open(1)


def test_without_threads_nothing_waits():
    assert asyncio.run(refuse_unbegun(InlineExecutor())) == 0


def test_begun_or_lost_meanwhile():
    """A just begun request is left to its thread; a lost connection needs no answer; other jobs are no requests."""
    begun, lost = types.SimpleNamespace(promote=new_exchange), types.SimpleNamespace(promote=new_exchange)
    jobs, tried = collections.deque([(print, None), (print, begun), (print, lost)]), []

    class Working(Executor):
        def __init__(self):
            self.jobs = jobs

        def withdraw(self, job):
            tried.append(job[1])
            return job[1] is lost

    async def refuse():
        return unbegun._refuse(Working())

    assert asyncio.run(refuse()) == [] and tried == [begun, lost]


def new_exchange():
    exchange = Exchange("")
    exchange.connection = types.SimpleNamespace(wire=None)
    return exchange
