"""A connection as a WebSocket: octets both ways, slow sides, and the end.

Moments beyond sockets: test_websocket_moments.py.
"""

import contextlib
import socket
import threading

import pytest
from harness import apps
from harness.waiting import wait_until
from harness.websockets import ASKING, SWITCHING, Held, Switching, begin

from aserve.connections.progress import LINGER_SECONDS

MB = 1 << 20
LARGE = bytes(range(256)) * (32 * MB // 256)  # no system holds so much for a socket


@pytest.fixture
def begun(start_server, raw_client):
    """Start a server whose app talks so, and a client with a WebSocket: begun(talk) -> app, server, client."""

    def start(talk=None, **settings):
        app = Switching(talk)
        server = start_server(app, is_checked=False, **settings)
        return app, server, begin(raw_client(server))

    return start


def count(server):
    return server.statistics().connections_websocket


def test_octets_both_ways(begun):
    """Each side gets the other's octets, and nobody reads HTTP in them."""
    _, server, client = begun()
    for octets in (b"\0", b"GET / HTTP/1.1\r\n\r\n", bytes(range(256))):
        client.send(octets)
        assert client.recv_exactly(len(octets)) == octets
    assert count(server) == server.statistics().connections_open == 1
    client.end_sending()
    assert client.recv_to_end() == b""
    server.wait_until_idle()


@pytest.mark.any_parser
def test_the_app_needs_to_know_no_tls(begun, tls_settings):
    """The app needs to know nothing of TLS; its end is the client's closure alert, not only a FIN."""
    _, server, client = begun(**tls_settings)
    client.send(b"abc" * MB)
    assert client.recv_exactly(3 * MB) == b"abc" * MB
    client.close()
    server.wait_until_idle()


@pytest.mark.one_way
def test_the_app_ends_it_over_tls(begun, tls_settings):
    """The client gets all, then the closure alert; its later octets are dropped."""
    _, server, client = begun(lambda sock: sock.sendall(LARGE), **tls_settings)
    assert client.recv_exactly(len(LARGE)) == LARGE
    client.send(b"bye")
    assert client.recv_to_end() == b""
    client.close()
    server.wait_until_idle()


@pytest.mark.one_way
def test_over_a_unix_socket(begun, tmp_path):
    """The same."""
    _, _, client = begun(bind=f"unix:{tmp_path}/a")
    client.send(b"abc")
    assert client.recv_exactly(3) == b"abc"


def test_octets_that_come_with_the_request(start_server, raw_client):
    """Octets read with the head are the app's, in order."""
    server = start_server(Switching(), is_checked=False)
    client = raw_client(server)
    head = "\r\n".join(["GET / HTTP/1.1", "Host: a", *ASKING, "", ""]).encode()
    client.send(head + b"early")
    assert client.recv_head().status == 101
    client.send(b" and late")
    assert client.recv_exactly(14) == b"early and late"


@pytest.mark.any_parser
def test_behind_other_requests(start_server, raw_client):
    """A WebSocket has its turn on a kept connection, and behind a running pipelined request."""
    server = start_server(Switching(), is_checked=False)
    client = raw_client(server)
    assert client.fetch("/plain").status == 200
    client.send(b"GET /plain HTTP/1.1\r\nHost: a\r\n\r\n" * 2)
    client.request("/", *ASKING)
    client.send(b"abc")
    assert [client.recv_response().status for _ in range(3)] == [200, 200, 101]
    assert client.recv_exactly(3) == b"abc"


def test_a_client_that_is_gone(begun):
    """The app reads the end, and its thread is free."""
    app, server, client = begun()
    client.reset()
    assert app.ended.acquire(timeout=30)
    server.wait_until_idle()
    wait_until(lambda: server.call(lambda: server.server._threads.executor.workers.aside) == 0)


@pytest.mark.any_parser
def test_a_client_that_reads_slowly(begun):
    """The app waits in send(), and little is held for the client."""
    sent = []

    def talk(sock):
        for at in range(0, len(LARGE), MB):
            sock.sendall(LARGE[at : at + MB])
            sent.append(MB)

    _, server, client = begun(talk)
    server.wait_until_steady(lambda: sum(sent))
    assert sum(sent) < len(LARGE) / 2 and server.statistics().responses_unsent_bytes < MB
    assert client.recv_exactly(len(LARGE)) == LARGE
    assert client.recv_to_end() == b""


@pytest.mark.any_parser
def test_an_app_that_reads_slowly(begun):
    """The client waits, and gets back all its octets."""
    may_read = threading.Event()
    got = []

    def talk(sock):
        may_read.wait(30)
        while octets := sock.recv(MB):
            got.append(octets)

    app, server, client = begun(talk)
    sender = threading.Thread(target=lambda: (client.send(LARGE), client.end_sending()))
    sender.start()
    wait_until(
        lambda: server.call(lambda: [each._unsent for each in server.server._listening.connections if each._unsent])
    )
    may_read.set()
    sender.join(30)
    assert app.ended.acquire(timeout=30) and b"".join(got) == LARGE


@pytest.mark.one_way
def test_a_client_that_does_not_read(begun, caplog):
    """A client that does not read is cut off after --write-timeout, and the app's send() fails."""
    app, server, _ = begun(lambda sock: sock.sendall(LARGE), write_seconds=3)
    wait_until(lambda: server.statistics().responses_unsent_bytes)
    server.wait_until_steady(lambda: server.server.statistics().responses_unsent_bytes)
    server.pass_seconds(8)
    assert app.ended.acquire(timeout=30)
    server.wait_until_idle()
    assert "the client did not read for --write-timeout" in caplog.text


@pytest.mark.one_way
def test_no_time_ends_it(begun):
    """Neither --request-timeout, nor --keep-alive-timeout or --head-timeout."""
    _, server, client = begun(request_seconds=1, slow_request_seconds=1)
    client.send(b"a")
    assert client.recv_exactly(1) == b"a"
    server.pass_seconds(200)
    client.send(b"b")
    assert client.recv_exactly(1) == b"b"


@pytest.mark.one_way
def test_the_threads_of_others(begun, raw_client):
    """However many there are, all of --threads are for requests."""
    app, server, first = begun(threads=2)
    clients = [first, *(begin(raw_client(server)) for _ in range(5))]
    assert count(server) == 6
    assert raw_client(server).fetch("/plain").status == 200
    assert server.statistics().workers <= 2
    for client in clients:
        client.close()
    for _ in clients:
        assert app.ended.acquire(timeout=30)
    wait_until(lambda: not count(server))
    wait_until(lambda: server.call(lambda: server.server._threads.executor.workers)[2:] == (0, 0, 0, 0, 0))


@pytest.mark.one_way
def test_an_app_that_closes_and_stays(begun):
    """The connection ends as the app closes its socket; the thread is counted as long as its call runs."""
    may_return = threading.Event()

    def talk(sock):
        sock.sendall(b"bye")
        sock.close()
        may_return.wait(30)

    app, server, client = begun(talk)
    assert client.recv_to_end() == b"bye"
    client.close()
    server.wait_until_idle()
    may_return.set()
    assert app.ended.acquire(timeout=30)


@pytest.mark.one_way
def test_an_app_that_returns_without_closing(start_server, raw_client):
    """Written octets are sent, then the connection closes, and the app's end; threads left behind see the close."""
    left, ended = [], []

    def read():
        with contextlib.suppress(OSError):  # closed first
            assert left[0].recv(1) == b""
        ended.append(True)

    reader = threading.Thread(target=read)

    def app(environ, start_response):
        left.append(environ["werkzeug.socket"])
        left[0].sendall(SWITCHING + LARGE[:MB])
        reader.start()
        return apps.hello(environ, start_response)

    server = start_server(app, is_checked=False)
    client = begin(raw_client(server))
    assert client.recv_to_end() == LARGE[:MB]
    wait_until(lambda: left[0].fileno() == -1)
    reader.join(30)
    assert ended


@pytest.mark.one_way
def test_a_client_that_does_not_close(begun):
    """After the app's end the client has a moment; its octets are dropped."""
    _, server, client = begun(lambda sock: None)
    assert client.recv_to_end() == b""
    client.send(b"late")
    assert server.server.connection_count == 1
    server.pass_seconds(int(LINGER_SECONDS) + 1)
    server.wait_until_idle()


@pytest.mark.one_way
def test_a_drain_lets_the_app_say_something(begun):
    """The app reads the end, may still say something, and nothing is cut off."""

    def talk(sock):
        assert sock.recv(1) == b""
        sock.sendall(b"bye")

    _, server, client = begun(talk)
    server.begin_drain()
    assert client.recv_to_end() == b"bye"
    client.close()
    server.stop()
    assert server.is_clean


@pytest.mark.one_way
def test_an_app_that_hears_nothing_of_a_drain(begun, caplog):
    """A deaf app is cut off after --drain-timeout."""
    may_return = threading.Event()
    app, server, client = begun(lambda sock: may_return.wait(30), drain_seconds=0.2)
    server.begin_drain()
    assert client.is_closed()
    server.stop()
    assert not server.is_clean and "threads still inside the app at the end" in caplog.text
    may_return.set()
    assert app.ended.acquire(timeout=30)


@pytest.mark.one_way
def test_begun_while_the_server_drains(start_server, raw_client):
    """A WebSocket begun in a drain ends at once."""
    app = Held(Switching())
    server = start_server(app, is_checked=False)
    client = raw_client(server)
    client.request("/", *ASKING)
    assert app.is_in.wait(30)
    server.begin_drain()
    app.may_begin.set()
    assert client.recv_head().status == 101 and client.recv_to_end() == b""
    client.close()
    server.stop()
    assert server.is_clean


@pytest.mark.one_way
@pytest.mark.parametrize("error", [ConnectionError, StopIteration, None])
def test_how_libraries_return(start_server, raw_client, caplog, error):
    """engineio raises ConnectionError for one server, flask-sock StopIteration for another; or no response is started: none is a fault."""

    def app(environ, start_response):
        environ["werkzeug.socket"].sendall(SWITCHING)
        if error is not None:
            raise error
        return []

    server = start_server(app, is_checked=False)
    assert begin(raw_client(server)).recv_to_end() == b""
    server.stop()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.one_way
def test_an_app_that_fails(begun, caplog):
    """Any other exception is logged, and ends the WebSocket."""

    def talk(sock):
        raise ZeroDivisionError

    _, server, client = begun(talk)
    assert client.recv_to_end() == b""
    server.stop()
    assert "raised ZeroDivisionError at GET /" in caplog.text


@pytest.mark.one_way
@pytest.mark.parametrize("status", [101, 400])
def test_the_access_log(start_server, raw_client, tmp_path, status):
    """One line, at the end: the status written by the app, its octets, its duration."""

    def app(environ, start_response):
        sock = environ["werkzeug.socket"]
        sock.sendall(SWITCHING.replace(b"101", b"%d" % status) + b"abc")
        sock.recv(1)
        return []

    log = tmp_path / "log"
    server = start_server(app, is_checked=False, access_log=str(log), access_log_format="%(r)s %(s)s %(b)s %(D)s")
    client = raw_client(server)
    client.request("/a", *ASKING)
    assert client.recv_head().status == status
    client.recv_exactly(3)
    client.close()
    server.wait_until_idle()
    server.stop()
    line, micros = log.read_text().rsplit(" ", 1)
    assert line == f"GET /a HTTP/1.1 {status} {len(SWITCHING) + 3}" and int(micros) > 0


@pytest.mark.one_way
def test_a_peer_that_a_proxy_names(begun, raw_client):
    """The app sees the client named by a trusted proxy, and has the socket all the same."""
    app, server, _ = begun(trusted_proxies="127.0.0.1")
    begin(raw_client(server), "/", "X-Forwarded-For: 203.0.113.7")
    assert app.environs[-1]["REMOTE_ADDR"] == "203.0.113.7"
    assert isinstance(app.environs[-1]["werkzeug.socket"], socket.socket)
