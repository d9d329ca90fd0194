"""The fast lane behaves as one by one, whatever arrives or leaves."""

import os
import random
import socket
import threading
from types import SimpleNamespace

import pytest
from harness import apps, sidecars

from aserve.connections.lane import lane as lane_module
from aserve.connections.loop import inbox, wire_loop
from aserve.core.forks import local_address
from aserve.features import turnover

HELLO = b"My Own Hello World!"


def uwsgi(path="/", body=b"", modifier1=0, **vars):
    """Return a uwsgi packet with a body."""
    vars = {"REQUEST_METHOD": "POST" if body else "GET", "PATH_INFO": path, "CONTENT_LENGTH": str(len(body)), **vars}
    return sidecars.uwsgi(vars, body, modifier1)


def scgi(path="/", body=b"", **vars):
    """Return an SCGI request."""
    return sidecars.scgi({"REQUEST_METHOD": "POST" if body else "GET", "PATH_INFO": path, **vars}, body)


ENCODERS = {"uwsgi": uwsgi, "scgi": scgi}


def app(environ, start_response):
    """Answer in the way of the path."""
    path, body = environ["PATH_INFO"], environ["wsgi.input"].read()
    headers = [("Content-Type", "text/plain")]
    if path == "/pieces":
        start_response("200 OK", headers)
        return iter([b"a" * 10, b"", b"b" * 300_000, b"c"])
    if path == "/write":
        write = start_response("200 OK", headers)
        write(b"written ")
        write(b"twice ")
        return [b"and returned"]
    if path == "/large":
        start_response("200 OK", headers)
        return [b"x" * 3_000_000]
    if path == "/file":
        start_response("200 OK", headers)
        return environ["wsgi.file_wrapper"](open(__file__, "rb"))
    if path == "/fails":
        raise ValueError("meant to fail")
    if path == "/dies":
        start_response("200 OK", [*headers, ("Content-Length", "100")])
        return iter([b"short"])
    start_response("200 OK", headers)
    return [body or HELLO]


@pytest.fixture(params=["auto", "off"])
def lane(request):
    """With the lane and without."""
    return request.param


@pytest.fixture(params=ENCODERS)
def ask(request, lane, start_server, tmp_path):
    """ask(path, body, pieces=...) -> all octets until the end."""
    encode = ENCODERS[request.param]
    address = str(tmp_path / "socket")
    ask.server = start_server(app, is_checked=False, bind=f"{request.param}://unix:{address}", lane=lane)

    def ask_once(path="/", body=b"", cut=0, **vars):
        octets = encode(path, body, **vars)
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(30)
            client.connect(address)
            if cut:
                client.sendall(octets[:cut])
                ask.server.wait_until_known(1)
            client.sendall(octets[cut:])
            return recv_all(client)

    return ask_once


def recv_all(client):
    """Return all octets until the end."""
    reply = b""
    while True:
        data = client.recv(1 << 16)
        if not data:
            return reply
        reply += data


def body_of(reply):
    """Return the body of a response, whose status must be 200."""
    head, _, body = reply.partition(b"\r\n\r\n")
    assert head.split(b"\r\n")[0] in (b"HTTP/1.1 200 OK", b"Status: 200 OK"), head
    assert b"transfer-encoding" not in head.lower()
    return body


@pytest.mark.one_way
@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/", b"", HELLO),
        ("/", b"echo me", b"echo me"),
        ("/", b"0123456789" * 20_000, b"0123456789" * 20_000),  # more than one read
        ("/pieces", b"", b"a" * 10 + b"b" * 300_000 + b"c"),
        ("/write", b"", b"written twice and returned"),
        ("/large", b"", b"x" * 3_000_000),
    ],
)
def test_answers_of_every_size_arrive_whole(ask, path, body, expected):
    """A response in one go, in pieces or too large for the lane arrives whole."""
    assert body_of(ask(path, body)) == expected


@pytest.mark.one_way
@pytest.mark.parametrize("cut", [1, 30, -1])
def test_requests_in_two_halves(ask, cut):
    """A request incomplete at the first read is served when complete."""
    assert body_of(ask("/", b"the body", cut)) == b"the body"


@pytest.mark.one_way
def test_a_file_is_sent_unchanged(ask):
    with open(__file__, "rb") as file:
        assert body_of(ask("/file")) == file.read()


@pytest.mark.one_way
def test_failures_of_the_app_are_seen(ask):
    """A raising app gets a 500; a body with an early end closes the connection before the length."""
    assert b"500 Internal Server Error" in ask("/fails").split(b"\r\n")[0]
    assert body_of(ask("/dies")) in (b"", b"short")
    assert body_of(ask()) == HELLO


@pytest.mark.one_way
def test_head_has_no_body(ask):
    assert body_of(ask(REQUEST_METHOD="HEAD")) == b""


@pytest.mark.one_way
def test_many_at_once(start_server, tmp_path, lane, wait_until):
    """More connections than a batch holds are all answered, and nothing stays open."""
    address = str(tmp_path / "socket")
    server = start_server(app, is_checked=False, bind=f"uwsgi://unix:{address}", lane=lane)
    replies = []

    def many():
        for number in range(50):
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(30)
                client.connect(address)
                client.sendall(uwsgi("/", b"%d" % number))
                replies.append((number, recv_all(client)))

    many()
    server.wait_until_idle()
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else None
    threads = [threading.Thread(target=many, daemon=True) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(replies) == 550
    assert all(body_of(reply) == b"%d" % number for number, reply in replies)
    server.wait_until_idle()
    if before is not None:
        # Some of the 8 workers are new; a loop may have made a descriptor for itself meanwhile.
        wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before + 2)


@pytest.mark.one_way
def test_a_drain_answers_who_has_connected(start_server, tmp_path, lane):
    """A client in the accept queue when the drain begins is served."""
    address = str(tmp_path / "socket")
    server = start_server(app, is_checked=False, bind=f"uwsgi://unix:{address}", lane=lane)
    client = socket.socket(socket.AF_UNIX)
    with client:
        client.settimeout(30)
        client.connect(address)
        client.sendall(uwsgi())
        server.begin_drain()
        assert body_of(recv_all(client)) == HELLO


@pytest.mark.one_way
def test_clients_that_leave(start_server, tmp_path, lane):
    """A front server gone before the answer, or before the request, does no harm."""
    address = str(tmp_path / "socket")
    server = start_server(app, is_checked=False, bind=f"uwsgi://unix:{address}", lane=lane)
    for octets in (b"", uwsgi()[:7], uwsgi("/large"), uwsgi("/pieces"), uwsgi("/", b"x" * 300_000)[:-1]):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(address)
            client.sendall(octets)
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(30)
        client.connect(address)
        client.sendall(uwsgi())
        assert body_of(recv_all(client)) == HELLO
    server.wait_until_idle()


# Failures in one batch, since nothing runs on the loop meanwhile


def http(path="/", body=b"", sent=None):
    """Return a request with a body, or the beginning: `sent` octets of the body."""
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body[:sent]


@pytest.fixture
def inline(start_server, raw_client, wait_until):
    """A server with --threads 0, whose lane the test polls: inline.run(function), inline.take()."""
    server = start_server(app, is_checked=False, threads=0, lane="auto", body_seconds=1)
    lane = server.server._listening.lane

    def take(count=None):
        lane.submit_arrivals(lane.wait(1000) if count is None else count)
        lane.executor.run()

    def wait_for_body():
        wait_until(lambda: lane.incomplete_bodies)

    return SimpleNamespace(
        server=server, lane=lane, run=server.call, take=take, wait_for_body=wait_for_body,
        connect=lambda: raw_client(server),
    )  # fmt: skip


@pytest.mark.one_way
def test_what_a_child_must_not_keep(inline, wait_until):
    """The lane names all connections, whatever their state, and the descriptors for waiting."""
    before = set(inline.lane.fds)
    client, busy = inline.connect(), inline.connect()
    client.fetch()
    busy.send(http(body=b"abc", sent=1))
    inline.wait_for_body()
    named = set(inline.lane.fds) - before
    assert len(named) == 2
    assert {inline.lane.set.epoll_fd, inline.lane.set.wake_fd} <= before and min(before) >= 0
    fds, addresses = inline.run(inline.server.server._inner.on_forked)
    assert named <= set(fds) and {local_address(fd) for fd in named} == set(addresses)
    inline.server.server._threads.executor.jobs.clear()  # we are none
    client.close()
    busy.close()


@pytest.mark.one_way
def test_a_body_that_comes_too_late(inline):
    """The client of a late body is told; clients of the same batch are served."""
    client, other = inline.connect(), inline.connect()
    client.send(http(body=b"abc", sent=1))
    inline.wait_for_body()

    def act():
        inline.lane.on_second()
        inline.lane.on_second()
        other.send(http(body=b"of the other"))
        inline.take()

    inline.run(act)
    assert client.recv_response().status == 408
    assert other.recv_response().body == b"of the other"


@pytest.mark.one_way
def test_a_part_that_comes_as_the_time_is_over(inline):
    """The part was read before the refusal: the body goes on, and the request is answered."""
    client = inline.connect()
    client.send(http(body=b"abc", sent=1))
    inline.wait_for_body()

    def act():
        evicted = inline.lane.evict_idle()
        client.send(b"b")
        count = inline.lane.wait(1000)
        inline.lane.set.is_paused = 1
        inline.lane.on_second()
        inline.lane.on_second()
        inline.take(count)
        client.send(b"c")
        inline.take()
        return evicted, inline.lane.set.is_paused

    assert inline.run(act) == (0, 0)  # nor was the client evicted as idle; and a second ends the pause of a full lane
    assert client.recv_response().body == b"abc"


@pytest.mark.one_way
def test_a_number_that_is_used_again(inline):
    """A new upload is not refused for the lateness of a gone client's with the same number."""
    first = inline.connect()
    first.send(http(body=b"abc", sent=1))
    inline.wait_for_body()
    [number] = inline.lane._uploads

    def act():
        second = inline.connect()
        second.send(http(body=b"of the second", sent=1))
        first.reset()
        fillers = [os.dup(0)]
        while fillers[-1] < number:  # no lower number is free
            fillers.append(os.dup(0))
        os.close(fillers.pop())
        count = inline.lane.wait(1000)  # the leader has no GIL to take the request yet
        for filler in fillers:
            os.close(filler)
        inline.lane.on_second()
        inline.lane.on_second()
        inline.take(count)
        assert count == 2 and list(inline.lane._uploads) == [number]
        second.send(b"f the second")
        inline.take()
        return second

    second = inline.run(act)
    assert second.recv_response().body == b"of the second"


@pytest.mark.one_way
def test_a_disk_that_is_full(start_server, raw_client, monkeypatch):
    """A body without room on the disk gets a 500; clients of the same batch are served."""
    monkeypatch.setenv("TMPDIR", "/nonexistent")
    server = start_server(app, is_checked=False, threads=0, lane="auto", body_memory_bytes=10)
    client, other = raw_client(server), raw_client(server)

    def act():
        client.send(http(body=b"x" * 100, sent=50))
        other.send(http(body=b"small"))

    server.call(act)
    assert other.recv_response().body == b"small"
    assert client.recv_response().status == 500
    assert server.statistics().bodies_incomplete == 0


@pytest.mark.one_way
@pytest.mark.parametrize("kind", ["whole", "begun", "part", "done", "left", "gone"])
@pytest.mark.provokes("please report this as a bug")
def test_a_fault_in_a_batch(inline, caplog, monkeypatch, kind):
    """A fault of ours costs one connection, and none beside."""
    first, other = inline.connect(), inline.connect()
    sent = {"whole": 3, "begun": 1, "left": None}.get(kind, 0)
    if kind in ("part", "done", "gone"):
        first.send(http(body=b"abc", sent=0))
        inline.wait_for_body()

    def fail(*_):
        raise KeyError("ours")

    def act():
        with monkeypatch.context() as patch:
            if kind in ("whole", "begun"):
                patch.setattr(inline.lane, "_factories", [fail])
            elif kind == "left":
                patch.setattr(inline.lane.handovers, "begin_idle", fail)
            else:
                patch.setattr(inline.lane, "_on_part_or_end", fail)
            if kind == "gone":
                first.end_sending()
            else:
                first.send({"part": b"a", "done": b"abc", "left": b"GET"}.get(kind) or http(body=b"abc", sent=sent))
            other.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")  # plain: no factory is asked
            inline.take()

    inline.run(act)
    assert other.recv_response().body == HELLO
    assert first.is_closed()
    assert "ours" in caplog.text
    caplog.clear()
    other.close()
    inline.server.wait_until_idle()
    assert inline.lane.incomplete_bodies == []


# The way back


STREAM = b"GET /pieces HTTP/1.1\r\nHost: a\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
EXPECT = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
PLAIN = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def leave_lane(client, kind):
    """Ask for something only possible on the event loop's wire."""
    if kind == "stream":
        client.send(STREAM)
        assert client.recv_response().body == b"a" * 10 + b"b" * 300_000 + b"c"
    elif kind == "chunked":
        client.send(CHUNKED)
        assert client.recv_response().body == b"abc"
    elif kind == "pair":
        client.send(PLAIN + PLAIN)
        assert [client.recv_response().body for _ in range(2)] == [HELLO, HELLO]
    else:
        client.send(EXPECT)
        assert client.recv_response().status == 100
        client.send(b"abc")
        assert client.recv_response().body == b"abc"


@pytest.fixture
def soon(monkeypatch):
    """Let connections go back as soon as possible."""
    for module in (inbox, wire_loop):
        monkeypatch.setattr(module, "RETURN_SECONDS", -1.0)


@pytest.mark.one_way
@pytest.mark.also_inline
@pytest.mark.parametrize("kind", ["stream", "chunked", "pair", "expect"])
def test_a_connection_comes_back(start_server, raw_client, wait_until, soon, kind):
    """After a plain request the connection is in the lane again, however often gone; nothing is lost on the way."""
    server = start_server(app, is_checked=False, lane="auto")
    client = raw_client(server)
    for _ in range(3):
        leave_lane(client, kind)
        for _ in range(3):
            assert client.fetch("/").body == HELLO
        wait_until(lambda: server.call(server.server.statistics)[:6] == (False, 1, 0, 1, 0, 0))
        assert server.call(server.server.statistics).connections_in_lane == 1
        assert client.fetch("/", method="POST", body=b"x").body == b"x"
        assert client.fetch("/fails").status == 500


@pytest.mark.one_way
@pytest.mark.also_inline
@pytest.mark.parametrize("kind", ["stream", "chunked", "pair", "expect"])
def test_it_stays_the_same_connection(start_server, raw_client, monkeypatch, soon, kind):
    """The connection stays the same over all wires: request counts need not learn of a change."""
    monkeypatch.setattr(turnover, "JITTER", 0.0)
    count = 9 if kind == "pair" else 6
    client = raw_client(start_server(app, is_checked=False, lane="auto", max_connection_requests=count + 1))
    for _ in range(3):
        assert client.fetch("/").get("Connection") is None
        leave_lane(client, kind)
    assert client.fetch("/").get("Connection") == "close"


@pytest.mark.one_way
def test_a_number_that_another_connection_had(inline):
    """An ended connection gives nothing to the next of the same number, even before the removal."""
    early, handed_over = inline.connect(), []
    begin = inline.lane.handovers.begin_idle

    def note(*args):
        handed_over.append(args)
        begin(*args)

    with socket.socket() as late:
        late.settimeout(30)

        def act():
            early.send(PLAIN.replace(b"Host", b"Connection: close\r\nHost"))
            inline.take()
            [fd] = inline.lane.connections
            late.connect(inline.server.address)
            late.sendall(CHUNKED)
            inline.take()
            return fd

        inline.lane.handovers.begin_idle = note
        fd = inline.run(act)
        assert early.recv_response().body == HELLO
        assert late.recv(9) == b"HTTP/1.1 "
    [(number, _, _, is_new)] = handed_over
    assert (number, is_new) == (fd, True)


@pytest.mark.one_way
def test_a_connection_that_cannot_come_back(start_server, raw_client, monkeypatch, soon):
    """A connection refused by the lane goes on as before."""
    server = start_server(app, is_checked=False, lane="auto")

    def fail(fd):
        raise OSError("no descriptor is left")

    monkeypatch.setattr(lane_module.os, "dup", fail)
    client = raw_client(server)
    leave_lane(client, "stream")
    for _ in range(9):
        assert client.fetch("/").body == HELLO
    monkeypatch.undo()
    for module in (inbox, wire_loop):
        monkeypatch.setattr(module, "RETURN_SECONDS", -1.0)
    server.server._listening.lane.set.conns_cap = 0  # the table is full
    for _ in range(9):
        assert client.fetch("/").body == HELLO
    assert server.call(server.server.statistics).connections_in_lane == 0


@pytest.mark.one_way
@pytest.mark.also_inline
def test_who_comes_and_goes_at_once(start_server, raw_client, soon):
    """Clients with mixed requests, without waits between, get all responses in order."""
    server = start_server(app, is_checked=False, lane="auto")
    wrong = []

    def ask(seed):
        choose, client = random.Random(seed), raw_client(server)
        try:
            for _ in range(30):
                leave_lane(client, choose.choice(["stream", "chunked", "pair", "expect"]))
                for number in range(choose.randrange(12)):
                    body = b"%d" % number
                    if client.fetch("/", method="POST", body=body).body != body:
                        wrong.append(number)
            client.close()
        except BaseException as exc:
            wrong.append(exc)
            raise

    threads = [threading.Thread(target=ask, args=(seed,), daemon=True) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert wrong == []
    server.wait_until_idle()


# Draining


@pytest.mark.one_way
def test_a_request_that_is_taken_as_the_drain_begins(inline):
    """A request with the app is told; a request taken by a leader from then on closes the connection, too."""
    early, late = inline.connect(), inline.connect()
    late.fetch("/")

    def act():
        early.send(http(body=b"abc", sent=1))
        inline.take()
        late.request("/")
        count = inline.lane.wait(1000)
        inline.lane.drain()
        inline.take(count)
        early.send(b"bc")
        inline.take()

    inline.run(act)
    for client, body in ((late, HELLO), (early, b"abc")):
        reply = client.recv_response()
        assert (reply.body, reply.get("Connection")) == (body, "close")


@pytest.mark.one_way
def test_a_drain_answers_what_has_been_sent(start_server, raw_client, wait_until):
    """An unread request on an idle connection is answered in a drain."""
    gate = apps.Gate(app)
    server = start_server(gate, is_checked=False, threads=1, lane="auto")
    busy, idle = raw_client(server), raw_client(server)
    gate.open()
    assert idle.fetch("/").body == HELLO
    busy.request("/")
    gate.wait_entered()
    gate.wait_entered()
    idle.request("/")  # no reader is there
    server.begin_drain()
    wait_until(lambda: server.server._listening.lane.is_draining)
    gate.open(2)
    for client in (busy, idle):
        reply = client.recv_response()
        assert (reply.body, reply.get("Connection")) == (HELLO, "close")
