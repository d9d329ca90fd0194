"""Events on the wire, at --log-level debug; and nothing otherwise."""

import logging

import pytest
from harness import apps

from aserve.connections import wire_log

POST_HEAD = b"POST /parts HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


class Keeper(logging.Handler):
    """Keeps the told lines."""

    def __init__(self):
        super().__init__()
        self.messages = []

    def emit(self, record):
        self.messages.append(record.getMessage())


@pytest.fixture
def kept():
    """The lines at debug."""
    logger, keeper = logging.getLogger("aserve.wire"), Keeper()
    logger.addHandler(keeper)
    logger.setLevel(logging.DEBUG)
    yield keeper.messages
    logger.setLevel(logging.NOTSET)
    logger.removeHandler(keeper)


@pytest.fixture
def lines(kept):
    """lines(): the same, without the client's address."""
    return lambda: [message.partition(": ")[2] for message in kept.copy()]


@pytest.mark.one_way
def test_a_connection_is_told_on_every_path(lines, start_server, raw_client, wait_until):
    """A connection is told on the fast path, out of it, on the event loop, and back."""
    server = start_server(apps.echo, lane="auto")
    client = raw_client(server)
    client.fetch("/fast")
    wait_until(lambda: len(lines()) == 2)
    client.send(POST_HEAD + b"0\r\n\r\n")
    client.recv_response()
    client.fetch("/slow")
    url = server.url
    wait_until(lambda: any("GET /slow" in line for line in lines()))
    first, *told = lines()
    assert first == "is accepted" and first not in told
    assert told[0] == f"GET /fast on {url}, by the fast path: answered 200, 0 octets; its connection is kept"
    assert told[1] == "leaves the fast path because of its request"
    assert f"POST /parts on {url}, by the event loop: answered 200, 0 octets; its connection is kept" in told
    assert "REQUEST: RUNNING" in told
    server.pass_seconds_until(lambda: "goes back to the fast path" in lines())
    wait_until(lambda: lines()[-1] == "LOST: CLOSED")
    assert client.fetch("/again").status == 200
    wait_until(lambda: lines()[-1].startswith(f"GET /again on {url}, by the fast path"))
    client.close()
    server.pass_seconds_until(lambda: lines()[-1] == "is closed")
    assert lines().count("is accepted") == 1


@pytest.mark.one_way
def test_a_connection_that_idles(lines, start_server, raw_client, wait_until):
    """On the fast path its end is told, too; on the event loop, its acceptance."""
    server = start_server(apps.echo, lane="auto", keep_alive_seconds=2)
    raw_client(server).fetch("/")
    wait_until(lambda: len(lines()) == 2)
    server.pass_seconds_until(lambda: lines()[-1] == "is closed")
    assert lines()[0] == "is accepted" and len(lines()) == 3
    server = start_server(apps.echo, lane="off")
    raw_client(server).fetch("/")
    wait_until(lambda: lines()[3:4] == ["is accepted"])


@pytest.mark.one_way
def test_without_debug_nothing_is_told(start_server, raw_client, caplog):
    caplog.set_level(logging.INFO, "aserve")
    server = start_server(apps.echo)
    assert not wire_log.is_told() and server.server._listening.services[0].ends is None
    assert not server.server._listening.services[0].tells_wire
    raw_client(server).fetch("/")
    assert not [record for record in caplog.records if record.name == "aserve.wire"]
