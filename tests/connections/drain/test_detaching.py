"""Idle connections leave one server and go on in another, and the clients notice nothing."""

import asyncio
import json
import logging
import os
import socket

import pytest
from harness import apps
from harness.client import RawClient
from harness.waiting import wait_until

from aserve import Detached
from aserve.connections.loop import wire_loop
from aserve.proxies import peers as peers_module

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
V1 = b"PROXY TCP4 203.0.113.7 198.51.100.2 4711 443\r\n"


def app_of(name):
    """Return an app telling its name, and the client."""

    def app(environ, start_response):
        start_response("200 OK", apps.PLAIN)
        names = ("REMOTE_ADDR", "REMOTE_PORT", "SERVER_PORT", "wsgi.url_scheme")
        body = environ["wsgi.input"].read().decode()
        return [" ".join([name, *(environ[key] or "-" for key in names), *filter(None, [body])]).encode()]

    return app


@pytest.fixture
def two(start_server):
    """Start two servers, a and b: two(**settings)."""

    def start(**settings):
        settings.setdefault("bind", "127.0.0.1:0")
        return [start_server(app_of(name), is_checked=False, **settings) for name in "ab"]

    return start


def detach(server, count=None):
    """Let go of idle connections; the facts of their clients are written and read, as between processes."""
    found = server.call(lambda: server.server.detach_idle(count))
    return [each._replace(peer=json.loads(json.dumps(each.peer))) for each in found]


def detach_all(server, count=1):
    """Let go of so many, each when idle: a client may have a response before the worker is done."""
    found = []

    def look():
        found.extend(detach(server, count - len(found)))
        return len(found) == count

    wait_until(look)
    return found


def adopt(server, detached):
    """Go on with a connection; return whether the server took the connection."""
    return server.call(lambda: server.server.adopt(detached))


def move(old, new, count=1):
    """Let so many connections of `old` go on in `new`."""
    assert all(adopt(new, each) for each in detach_all(old, count))


def who(client, **options):
    """Return the answering server, and the client in the view of the server."""
    reply = client.fetch(**options)
    assert reply.status == 200
    return tuple(reply.body.decode().split()[:3])


def seen(name, client):
    """Return the answer of `who` if `name` answers and sees this client rightly."""
    return (name, *map(str, client.sock.getsockname()))


# Connections going on


@pytest.mark.also_inline
def test_a_kept_connection(two, raw_client):
    """The second server serves the connection from now on, for the same client."""
    a, b = two()
    client = raw_client(a)
    for old, new, names in ((a, b, "ab"), (b, a, "ba")) * 3:
        for _ in range(2):
            assert who(client) == seen(names[0], client)
        move(old, new)
        assert who(client) == seen(names[1], client)
        old.wait_until_idle()
        assert new.server.connection_count == 1
    client.close()
    a.wait_until_idle()


@pytest.mark.one_way
@pytest.mark.parametrize("lane", ["auto", "off"])
def test_what_debug_tells(two, raw_client, caplog, lane):
    """Both servers tell the move, and neither a close or a new connection."""
    caplog.set_level(logging.DEBUG, "aserve.wire")
    a, b = two(lane=lane)
    client = raw_client(a)
    assert who(client) == seen("a", client)
    move(a, b)
    assert who(client) == seen("b", client)
    for server in (a, b):
        server.pass_seconds(2)
    told = [text.partition(": ")[2] for text in caplog.messages if "GET" not in text]
    there = ("is accepted", "is left to another process", "comes from another process", "is closed")
    assert [text for text in told if text in there] == list(there[:3])


@pytest.mark.also_inline
def test_a_connection_on_which_nothing_has_come(two, raw_client):
    """The connection's first request is for the second server."""
    a, b = two()
    client = raw_client(a)
    a.wait_until_known(1)
    [found] = detach_all(a)
    assert found.peer is None
    assert adopt(b, found)
    assert who(client) == seen("b", client) and who(client, method="POST", body=b"x") == seen("b", client)


@pytest.mark.one_way
@pytest.mark.parametrize("lanes", [("auto", "off"), ("off", "auto")])
def test_servers_that_differ(start_server, raw_client, lanes):
    """One server may have the fast path, and the second not."""
    a, b = (start_server(app_of(name), is_checked=False, lane=lane) for name, lane in zip("ab", lanes))
    client = raw_client(a)
    for _ in range(2):
        assert who(client) == seen("a", client)
        move(a, b)
        assert who(client) == seen("b", client)
        assert b.statistics().connections_in_lane == (lanes[1] == "auto")
        move(b, a)


def test_a_unix_socket(start_server, raw_client, tmp_path):
    a, b = (start_server(app_of(name), is_checked=False, bind=f"unix:{tmp_path / name}") for name in "ab")
    client = raw_client(a)
    assert who(client) == ("a", "-", "-")
    move(a, b)
    assert who(client) == ("b", "-", "-")


@pytest.mark.parametrize(("octets", "rest"), [(GET, b""), (GET + GET, b""), (GET[:9], GET[9:]), (POST[:-2], POST[-2:])])
def test_what_comes_on_the_way(two, raw_client, octets, rest):
    """Octets sent meanwhile by the client are read by the second server."""
    a, b = two()
    client = raw_client(a)
    who(client)
    [found] = detach_all(a)
    client.send(octets)
    assert adopt(b, found)
    client.send(rest)
    for _ in range((octets + rest).count(b"HTTP/1.1")):
        assert client.recv_response().body.startswith(b"b ")


def test_a_connection_goes_on_at_its_listener(two, raw_client):
    a, b = two(bind=["127.0.0.1:0", "127.0.0.1:0"])
    clients = [raw_client(address) for address in a.server.addresses for _ in range(2)]
    for client in clients:
        who(client)
    found = detach_all(a, 4)
    assert sorted(each.listener_index for each in found) == [0, 0, 1, 1]
    assert all(adopt(b, each) for each in found)
    ports = [client.fetch().body.decode().split()[3] for client in clients]
    assert ports == [str(address[1]) for address in b.server.addresses for _ in range(2)]


def test_a_part_of_them(two, raw_client):
    """No more go than are asked for; none is forgotten."""
    a, b = two()
    clients = [raw_client(a) for _ in range(5)]
    for client in clients:
        who(client)
    a.wait_until_waiting(5)
    assert detach(a, 0) == []
    found = detach(a, 2)
    assert len(found) == 2
    wait_until(
        lambda: found.extend(detach(a, 9)) or len(found) >= 5
    )  # a connection with an event under way stays for the moment
    assert len(found) == 5 and all(adopt(b, each) for each in found)
    assert [who(client)[0] for client in clients] == ["b"] * 5


@pytest.mark.one_way
def test_both_wires_give_their_connections(start_server, raw_client):
    """Connections on the event loop go together with connections in the lane, as many in all as asked for."""
    a = start_server(app_of("a"), is_checked=False, bind=["127.0.0.1:0", "127.0.0.1:0"])
    lane_client, loop_client = raw_client(a), raw_client(a)
    who(lane_client)
    loop_client.send(GET + GET)
    for _ in range(2):
        loop_client.recv_response()
    assert a.statistics().connections_in_lane == 1
    a.wait_until_waiting(2)
    [found] = detach(a, 1)
    assert len(detached := detach(a)) == 1
    assert all(adopt(a, each) for each in (found, *detached))
    for client in (lane_client, loop_client):
        assert who(client) == seen("a", client)


@pytest.mark.also_inline
def test_the_end_of_the_old_server(two, raw_client):
    """The old server drains at once, and moved connections are still served."""
    a, b = two()
    clients = [raw_client(a.address) for _ in range(3)]
    for client in clients:
        who(client)
    found = detach_all(a, 3)
    a.stop()
    assert a.is_clean
    for client, each in zip(clients, found):
        assert adopt(b, each)
    assert [who(client)[0] for client in clients] == ["b"] * 3


@pytest.mark.also_inline
def test_a_server_that_is_draining(two, raw_client):
    """A client without a first request need not be quick: the second server waits."""
    a, b = two()
    a.hold_clock()
    client = raw_client(a.address)
    a.wait_until_known(1)
    a.begin_drain()
    [found] = detach_all(a)
    a.stop()
    assert a.is_clean and adopt(b, found)
    assert who(client) == seen("b", client)


def test_a_client_that_has_gone(two, raw_client):
    """The end of a gone client is found where the connection goes on."""
    a, b = two()
    client = raw_client(a)
    who(client)
    [found] = detach_all(a)
    client.reset()
    assert adopt(b, found)
    b.wait_until_idle()


@pytest.mark.one_way
def test_nothing_is_kept_of_it(start_server, raw_client):
    """The lane's knowledge of a connection goes along."""
    a = start_server(app_of("a"), is_checked=False)
    client = raw_client(a)
    who(client)
    [found] = detach_all(a)
    assert a.server._listening.lane.connections == {} and a.server.connection_count == 0
    os.close(found.fd)
    assert client.is_closed()


# Staying connections


@pytest.mark.also_inline
def test_who_is_busy_stays(start_server, raw_client, wait_until):
    """A begun request is answered by the first reader; if draining, the server then closes."""
    a = start_server(apps.echo, is_checked=False)
    head, body = raw_client(a), raw_client(a)
    for client in (head, body):
        client.fetch()
    head.send(b"POST / HTT")
    body.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12")
    wait_until(lambda: a.statistics().connections_receiving == 2)
    assert detach(a) == []
    a.begin_drain()
    head.send(b"P/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n1")
    body.send(b"345")
    for client, octets in ((head, b"1"), (body, b"12345")):
        reply = client.recv_response()
        assert (reply.body, reply.get("Connection")) == (octets, "close")
        client.close()


def test_who_is_with_the_app_stays(start_server, raw_client):
    """The response comes first; then the connection may go."""
    gate = apps.Gate(app_of("a"))
    a = start_server(gate, is_checked=False)
    b = start_server(app_of("b"), is_checked=False)
    client = raw_client(a)
    client.request()
    gate.wait_entered()
    assert detach(a) == []
    gate.open()
    client.recv_response()
    move(a, b)
    assert who(client) == seen("b", client)


@pytest.mark.one_way
def test_a_tls_connection_stays(start_server, raw_client, tls_settings):
    """A TLS connection stays: a session's keys are not the kernel's."""
    a = start_server(app_of("a"), is_checked=False, **tls_settings)
    client = raw_client(a)
    who(client)
    a.wait_until_waiting(1)
    assert detach(a) == [] and who(client)[0] == "a"


def test_no_descriptor_is_left(start_server, raw_client, monkeypatch, caplog):
    """Without descriptors connections stay, and the log says why."""
    a = start_server(app_of("a"), is_checked=False, lane="off")
    client = raw_client(a)
    who(client)
    a.wait_until_waiting(1)

    def fail(fd):
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(wire_loop.os, "dup", fail)
        assert detach(a) == []
    assert "idle connections stay with this process: Too many open files" in caplog.text
    assert who(client) == seen("a", client)


def test_before_the_start_and_after_the_end(start_server):
    """A server without connections has none to give."""
    a = start_server(app_of("a"), is_checked=False)
    assert detach(a) == []
    a.stop()
    assert a.server.detach_idle() == []


# Facts of the client


@pytest.mark.one_way
def test_behind_the_proxy_protocol(two, raw_client):
    """The client in the header stays the client; another header is neither needed nor taken."""
    a, b = two(bind="proxy+http://127.0.0.1:0", trusted_proxies="127.0.0.1")
    client = raw_client(a)
    client.send(V1)
    assert client.fetch().body == b"a 203.0.113.7 4711 443 http"
    for old, new, name in ((a, b, b"b"), (b, a, b"a")):
        move(old, new)
        for _ in range(2):
            assert client.fetch().body == name + b" 203.0.113.7 4711 443 http"
    move(a, b)
    client.send(V1 + GET)
    assert client.recv_response().status == 400


@pytest.mark.one_way
def test_a_proxy_that_has_not_sent_its_header(two, raw_client):
    """An unknown client stays, before the header and behind."""
    a, b = two(bind="proxy+http://127.0.0.1:0", trusted_proxies="127.0.0.1")
    silent, announced = raw_client(a), raw_client(a)
    announced.send(V1)
    a.wait_until_known(2)
    assert detach(a) == []
    silent.send(V1)
    for client in (silent, announced):
        assert client.fetch().body == b"a 203.0.113.7 4711 443 http"
    move(a, b, 2)


@pytest.mark.one_way
@pytest.mark.skipif(peers_module.SO_PEERCRED is None, reason="only Linux tells who is at the other end")
@pytest.mark.parametrize("other", [0, 1])
@pytest.mark.parametrize("is_new", [True, False])
def test_who_is_believed(start_server, raw_client, tmp_path, other, is_new):
    """A proxy on a unix socket is believed, or not, by credentials."""
    a, b = (
        start_server(
            app_of(name), is_checked=False, bind=f"unix:{tmp_path / name}",
            trusted_proxies=f"unix:uid={os.geteuid() + other}",
        )
        for name in "ab"
    )  # fmt: skip
    client = raw_client(a)
    if is_new:
        a.wait_until_known(1)
    else:
        who(client)
    move(a, b)
    for _ in range(2):
        reply = client.fetch("/", "X-Forwarded-For: 203.0.113.9")
        assert reply.body.split()[:2] == [b"b", b"-" if other else b"203.0.113.9"]


# Time


def test_the_time_of_a_kept_connection(two, raw_client):
    """Idleness counts anew from here on, up to --keep-alive: the connection is not new."""
    a, b = two(keep_alive_seconds=5, head_seconds=2)
    b.hold_clock()
    client = raw_client(a)
    who(client)
    move(a, b)
    b.pass_seconds(5)
    assert client.is_quiet()
    b.pass_seconds_until(lambda: not client.is_quiet())
    assert client.recv_to_end() == b""


# Refusals


@pytest.fixture
def given(two, raw_client):
    """Return a server, a client, a connection given by the second server, and the second server."""
    a, b = two()
    client = raw_client(a)
    who(client)
    [found] = detach_all(a)
    return b, client, found, a


@pytest.mark.parametrize("index", [-1, 1])
def test_an_index_without_a_listener(given, index):
    """The connection stays whole, and may go elsewhere."""
    server, client, found, other = given
    assert adopt(server, found._replace(listener_index=index)) is False
    assert server.server.connection_count == 0
    assert adopt(other, found) and who(client) == seen("a", client)


def test_a_server_that_drains(given):
    server, client, found, other = given
    server.stop()
    assert asyncio.run(server.server.adopt(found)) is False
    assert adopt(other, found) and who(client) == seen("a", client)


def test_a_server_that_is_full(start_server, raw_client):
    """--max-connections is for these, too."""
    a, b = (start_server(app_of(name), is_checked=False, max_connections=1) for name in "ab")
    client, other = raw_client(a), raw_client(b)
    who(client)
    who(other)
    [found] = detach_all(a)
    assert adopt(b, found) is False
    other.close()
    b.wait_until_idle()
    assert adopt(b, found) and who(client) == seen("b", client)


@pytest.mark.one_way
def test_another_protocol_takes_no_used_connection(start_server, raw_client, given, tmp_path):
    """A listener with one request a connection takes no connection with a past request."""
    _, client, found, other = given
    server = start_server(app_of("c"), is_checked=False, bind=f"uwsgi://unix:{tmp_path / 'c'}")
    assert adopt(server, found) is False
    assert adopt(other, found) and who(client) == seen("a", client)


@pytest.mark.one_way
def test_a_lane_that_does_not_take_it(given):
    """A connection refused by the lane goes on on the event loop."""
    server, client, found, _ = given
    server.server._listening.lane.set.conns_cap = 0  # the table is full
    assert adopt(server, found) and who(client) == seen("b", client)
    assert server.statistics().connections_in_lane == 0


@pytest.mark.parametrize("is_new", [True, False])
def test_a_descriptor_that_is_none(given, is_new):
    server, client, found, _ = given
    os.close(found.fd)
    assert adopt(server, found._replace(peer=None if is_new else found.peer)) is False
    assert client.is_closed() and server.server.connection_count == 0


def test_a_loop_that_does_not_take_it(given, monkeypatch):
    """A connection refused by the event loop stays the caller's."""
    server, client, found, other = given

    async def fail(make, sock):
        raise OSError(12, "Cannot allocate memory")

    with monkeypatch.context() as patch:
        for service in server.server._listening.services:
            patch.setattr(service, "take_back", None)
            patch.setattr(service, "loop", type("Loop", (), {"connect_accepted_socket": staticmethod(fail)}))
        assert adopt(server, found) is False
    assert server.call(lambda: list(server.server._listening.connections.pending)) == []
    assert adopt(other, found) and who(client) == seen("a", client)


def test_a_pair_of_sockets(two):
    """A connection accepted by no server may be given, too."""
    _, b = two()
    with socket.create_connection(b.address) as ours, socket.create_server(("127.0.0.1", 0)) as listener:
        client = RawClient(listener.getsockname())
        accepted, _ = listener.accept()
        assert adopt(b, Detached(accepted.detach(), 0, None))
        assert who(client) == seen("b", client)
        client.close()
        ours.close()


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("lane", ["auto", "off"])
def test_the_word_that_it_is_taken(two, raw_client, lane, is_new):
    """The word comes before the connection can go to a third server: otherwise the third's word would come first."""
    a, b = two(lane=lane)
    client, words = raw_client(a.address), []
    if not is_new:
        client.send(GET)
        assert client.recv_response().status == 200
    (found,) = detach_all(a)

    async def take_and_give():
        taking = asyncio.ensure_future(b.server.adopt(found, when_taken=lambda: words.append("taken")))
        given = []
        while not given:
            given = b.server.detach_idle(1)
            words.extend("given" for _ in given)
            await asyncio.sleep(0)
        assert await taking
        return given[0]

    after = b.call(take_and_give)
    assert words == ["taken", "given"]
    assert adopt(a, after) and who(client) == seen("a", client)
