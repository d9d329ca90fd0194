"""Requests sent without waiting for responses: all answered, in order, within bounds."""

import contextlib

import pytest
from harness import apps
from harness.rules import rule


def path_app(environ, start_response):
    """Answer with the path, in one form of a response."""
    path = environ["PATH_INFO"]
    start_response("200 OK", apps.PLAIN)
    body = path.encode()
    return [body] if int(path[1:]) % 3 else iter([body[:1], body[1:]])


def get(path, *fields):
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: test", *fields, "", ""]).encode()


@rule("RFC 9112 9.3.2", "pipelined requests are answered in order", "in order, however many, one after another")
@pytest.mark.also_inline
@pytest.mark.parametrize("is_half_closed", [False, True])
def test_hundreds_in_one_send(start_server, raw_client, is_half_closed):
    """500 requests in one send get 500 responses in order, also when the client then stops sending."""
    client = raw_client(start_server(path_app))
    client.send(b"".join(get(f"/{number}") for number in range(500)))
    if is_half_closed:
        client.end_sending()
    for number in range(500):
        assert client.recv_response().body == b"/%d" % number
    if is_half_closed:
        assert client.recv_to_end() == b""
    else:
        assert client.fetch("/501").body == b"/501"


@rule("RFC 9112 2.2", "a message is a sequence of octets", "how they are cut into segments makes no difference")
@pytest.mark.also_inline
def test_octet_by_octet(start_server, raw_client):
    """However the octets are split, the requests are the same."""
    client = raw_client(start_server(apps.read_as_told))
    octets = b"".join([
        b"GET /?read HTTP/1.1\r\nHost: test\r\n\r\n",
        b"POST /?read HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\n\r\nabc",
        b"POST /?read HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nde\r\n1\r\nf\r\n0\r\n\r\n",
        b"GET /?read HTTP/1.1\r\nHost: test\r\n\r\n",
    ])  # fmt: skip
    for octet in octets:
        client.send(bytes([octet]))
    assert [client.recv_response().json() for _ in range(4)] == [[""], ["abc"], ["def"], [""]]


def test_one_exchange_at_a_time(start_server, raw_client):
    """The next pipelined request reaches the app when the last has been answered, not before."""
    gate = apps.Gate()
    client = raw_client(start_server(gate))
    client.send(b"".join(get(f"/{number}") for number in range(3)))
    for number in range(3):
        gate.wait_entered()
        assert gate.paths == [f"/{count}" for count in range(number + 1)]
        assert client.is_quiet()
        gate.open()
        assert client.recv_response().status == 200


def test_reading_pauses_at_the_limit(start_server, raw_client):
    """While --max-pipelined requests wait, no more is read: a client cannot fill our memory."""
    gate = apps.Gate()
    client = raw_client(start_server(gate, max_pipelined=4))
    client.send(get("/"))
    gate.wait_entered()
    client.sock.settimeout(0.1)

    def send_64_mib():
        for _ in range((1 << 26) // len(get("/") * 1000)):
            client.send(get("/") * 1000)

    with pytest.raises(OSError):  # a time-out: the kernel's buffers are full
        send_64_mib()
    client.reset()
    gate.open(10_000)


@pytest.mark.also_inline
def test_writing_pauses_the_app(start_server, raw_client):
    """A pipelining client that does not read its responses stops being served."""
    app = apps.Recorder(apps.returns([b"x" * 100_000]))
    client = raw_client(server := start_server(app, write_buffer_bytes=65536), receive_buffer_bytes=4096)
    client.sock.settimeout(0.1)
    with contextlib.suppress(OSError):  # the server reads no more: just as well
        for _ in range(4):  # 10,000 requests for 1 GB in all
            client.send(get("/") * 2500)
    assert server.wait_until_steady(lambda: app.count) < 400  # the kernel's buffers, and a little
    client.sock.settimeout(30)
    for _ in range(500):
        assert len(client.recv_response().body) == 100_000


@rule(
    "RFC 9112 9.3.2",
    "a fault after good requests does not change their answers",
    "they are answered, then the fault, then nothing",
)
@pytest.mark.also_inline
def test_bad_request_after_good_ones(start_server, raw_client):
    """Good requests before a bad one are answered, then the error, then nothing."""
    client = raw_client(start_server(path_app))
    client.send(get("/1") + get("/3") + b"NO SUCH THING\r\n\r\n" + get("/5"))
    assert [client.recv_response().body for _ in range(2)] == [b"/1", b"/3"]
    assert client.recv_response().status in (400, 505)
    assert client.recv_to_end() == b""


@rule("RFC 9112 9.6", "after close no request is processed", "what comes is dropped")
@pytest.mark.also_inline
def test_nothing_after_close(start_server, raw_client):
    app = apps.Recorder(path_app)
    client = raw_client(start_server(app))
    client.send(get("/1") + get("/3", "Connection: close") + get("/5") * 10)
    assert [client.recv_response().body for _ in range(2)] == [b"/1", b"/3"]
    assert client.recv_to_end() == b""
    assert app.count == 2


@rule("RFC 9112 6.3", "responses to HEAD have no body", "what follows them is in step")
@pytest.mark.also_inline
def test_heads_among_gets(start_server, raw_client):
    """A HEAD between GETs does not put the following responses out of step."""
    client = raw_client(start_server(apps.several_chunks))
    client.send((get("/") + get("/").replace(b"GET", b"HEAD")) * 10)
    for _ in range(10):
        assert client.recv_response().body == b"one two three"
        assert client.recv_response(is_head=True).get("Content-Length") == "13"
