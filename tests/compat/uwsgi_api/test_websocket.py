"""The app's WebSockets: frames of RFC 6455, and uWSGI's handling of pings and ends."""

import socket
import struct
import threading

import pytest

from aserve.compat.uwsgi_api import websocket as module
from aserve.compat.uwsgi_api.request import remembering
from aserve.compat.uwsgi_api.websocket import (
    BINARY,
    MAX_BYTES,
    PING_SECONDS,
    PONG_SECONDS,
    TEXT,
    WEBSOCKET,
    WebSocket,
)

MASK = b"\x01\x02\x03\x04"


def frame(content=b"", first=0x81, mask=MASK):
    size = len(content)
    length = (
        bytes((0x80 | size,))
        if size < 126
        else struct.pack("!BH", 0x80 | 126, size)
        if size < 65536
        else struct.pack("!BQ", 0x80 | 127, size)
    )
    return bytes((first,)) + length + mask + bytes(octet ^ mask[at % 4] for at, octet in enumerate(content))


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def pair():
    """The two ends: a WebSocket, whose clock stands, and the client's socket."""
    one, other = socket.socketpair()
    other.settimeout(10)
    clock = Clock()
    found = WebSocket(one, clock)
    found.clock = clock
    with one, other:
        yield found, other


@pytest.mark.parametrize("size", [0, 1, 5, 125, 126, 65535, 65536, 300_000])
def test_messages_of_any_length_go_both_ways(pair, size):
    websocket, client = pair
    content = bytes(number % 251 for number in range(size))
    octets = frame(content)
    for at in range(0, len(octets), 50_000):  # the kernel has room for so much
        client.sendall(octets[at : at + 50_000])
        websocket._read(1)
    assert websocket.receive(True) == content


def test_a_frame_in_pieces_is_read(pair):
    websocket, client = pair
    for octet in frame(b"x" * 200):
        client.sendall(bytes((octet,)))
        assert websocket._next_frame() is None
        websocket._read(1)
    assert websocket.receive(False) == b"x" * 200


def test_a_frame_within_a_frame(pair):
    """A signal handler or finalizer amid a frame sends a frame behind the first, and waits for nothing."""
    websocket, client = pair

    class Interrupted:
        def sendall(self, octets, sock=websocket._sock):
            if octets.endswith(b"first"):
                websocket.send(TEXT, b"second")
            sock.sendall(octets)

    websocket._sock = Interrupted()
    thread = threading.Thread(target=websocket.send, args=(TEXT, b"first"), daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive() and client.recv(100) == b"\x81\x05first\x81\x06second"


@pytest.mark.parametrize(
    ("size", "head"), [(5, b"\x81\x05"), (126, b"\x81\x7e\x00\x7e"), (65536, b"\x81\x7f" + struct.pack("!Q", 65536))]
)
def test_a_sent_message_is_one_frame(pair, size, head):
    websocket, client = pair
    websocket.send(TEXT, b"x" * size)
    assert client.recv(len(head), socket.MSG_WAITALL) == head
    assert client.recv(size, socket.MSG_WAITALL) == b"x" * size


def test_fragments_and_pings(pair):
    """A ping between the frames of a message is answered, a pong is not; the message is whole."""
    websocket, client = pair
    client.sendall(
        frame(b"one", 0x01)
        + frame(b"?", 0x89)
        + frame(b"", 0x8A)
        + frame(b"two", 0x00)
        + frame(b"three", 0x80)
        + frame(b"next", 0x82)
    )
    assert websocket.receive(True) == b"onetwothree" and websocket.receive(True) == b"next"
    assert client.recv(10) == b"\x8a\x01?"


def test_nothing_has_come(pair):
    websocket, client = pair
    assert websocket.receive(False) == b""
    client.sendall(frame(b"x")[:3])
    assert websocket.receive(False) == b""


@pytest.mark.parametrize(
    "octets",
    [
        frame(struct.pack("!H", 1000), 0x88),  # a close
        b"\x81\x01x",  # not masked
        frame(b"x", 0xC1),  # of an extension
        frame(b"x", 0x83),  # of no kind
        b"\x81\xff" + struct.pack("!Q", MAX_BYTES + 1) + MASK,  # too long
        frame(b"x" * (MAX_BYTES // 2 + 1), 0x01) + frame(b"x" * (MAX_BYTES // 2 + 1), 0x80),
    ],
)
def test_ends_are_uwsgis_error(pair, octets):
    websocket, client = pair
    websocket._octets += octets
    with pytest.raises(OSError, match="unable to receive websocket message"):
        websocket.receive(True)


def test_a_close_is_answered(pair):
    websocket, client = pair
    client.sendall(frame(struct.pack("!H", 1000) + b"bye", 0x88))
    with pytest.raises(OSError):
        websocket.receive(True)
    assert client.recv(10) == b"\x88\x02\x03\xe8"


def test_a_client_that_is_gone(pair):
    """Neither receives nor can be sent to."""
    websocket, client = pair
    client.close()
    with pytest.raises(OSError, match="unable to receive"):
        websocket.receive(True)
    with pytest.raises(OSError, match="unable to send"):
        websocket.send(BINARY, b"x")
    websocket._sock.close()
    with pytest.raises((OSError, ValueError)):
        websocket.receive(True)


def test_a_reset_is_uwsgis_error(pair, monkeypatch):
    websocket, client = pair

    class Broken:
        def fileno(self):
            return client.fileno()

        def recv(self, size):
            raise ConnectionResetError

    websocket.send(TEXT, b"x")
    websocket._sock = Broken()
    with pytest.raises(OSError, match="unable to receive"):
        websocket.receive(True)


def test_a_quiet_client(pair):
    """A quiet client is pinged, and given up without an answer."""
    websocket, client = pair
    assert websocket._seconds_left() == PING_SECONDS
    websocket.clock.now += PING_SECONDS
    assert websocket._seconds_left() == PONG_SECONDS and client.recv(10) == b"\x89\x00"
    websocket.clock.now += 1
    assert websocket._seconds_left() == PONG_SECONDS - 1
    client.sendall(frame(b"", 0x8A))
    assert websocket._read(1) and websocket._seconds_left() == PING_SECONDS
    websocket.clock.now += PING_SECONDS
    websocket._seconds_left()
    websocket.clock.now += PONG_SECONDS
    with pytest.raises(OSError, match="unable to receive"):
        websocket.receive(True)


# The functions


def in_app(environ, function):
    """Call a function inside of the app."""
    found = []
    remembering(lambda environ, start_response: found.append(function()))(environ, None)
    return found[0]


@pytest.fixture
def asked():
    """A request for a WebSocket: its environ, and the client's socket."""
    one, other = socket.socketpair()
    other.settimeout(10)
    with one, other:
        yield {"werkzeug.socket": one, "HTTP_SEC_WEBSOCKET_KEY": "dGhlIHNhbXBsZSBub25jZQ=="}, other


def test_a_handshake_has_the_rfcs_answer(asked):
    """The key of RFC 6455 section 1.3 has its answer; then messages go both ways."""
    environ, client = asked

    def talk():
        WEBSOCKET["websocket_handshake"](None, "http://shop.example", b"chat")
        client.sendall(frame(b"hello"))
        assert WEBSOCKET["websocket_recv"]() == b"hello" and WEBSOCKET["websocket_recv_nb"]() == b""
        WEBSOCKET["websocket_send"]("text")
        WEBSOCKET["websocket_send_binary"](b"\xff")
        return WEBSOCKET["connection_fd"]()

    assert in_app(environ, talk) == environ["werkzeug.socket"].fileno()
    head, _, rest = client.recv(4096).partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0].startswith(b"HTTP/1.1 101 ") and b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in lines
    assert b"Sec-WebSocket-Protocol: chat" in lines and b"Sec-WebSocket-Origin: http://shop.example" in lines
    assert rest == b"\x81\x04text\x82\x01\xff"


@pytest.mark.parametrize(
    ("change", "arguments"),
    [
        ({"werkzeug.socket": None}, ()),
        ({"HTTP_SEC_WEBSOCKET_KEY": ""}, ()),
        ({"HTTP_ORIGIN": "http://x\r\nSet-Cookie: a=b"}, ()),
    ],
)
def test_no_handshake_for_other_requests(asked, change, arguments):
    environ, _ = asked
    with pytest.raises(OSError, match="unable to complete websocket handshake"):
        in_app({**environ, **change}, lambda: WEBSOCKET["websocket_handshake"](*arguments))


def test_a_client_that_left_before(asked):
    environ, client = asked
    client.close()
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    with pytest.raises(OSError, match="unable to complete websocket handshake"):
        in_app(environ, lambda: WEBSOCKET["websocket_handshake"]("key"))


@pytest.mark.parametrize("name", ["websocket_recv", "websocket_recv_nb", "websocket_send", "websocket_send_binary"])
def test_without_a_handshake(name):
    """There is no WebSocket."""
    arguments = (b"x",) if "send" in name else ()
    with pytest.raises(OSError, match="websocket message"):
        in_app({}, lambda: WEBSOCKET[name](*arguments))


def test_no_socket_for_other_requests():
    with pytest.raises(OSError, match="only a request for a WebSocket"):
        in_app({}, WEBSOCKET["connection_fd"])
    assert module._unmask(MASK, b"") == b""
