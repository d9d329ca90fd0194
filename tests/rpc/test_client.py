"""RPC clients, against a socket with any answer."""

import asyncio
import contextlib
import errno
import gc
import logging
import os
import socket
import struct
import threading

import pytest

from aserve import rpc


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("f", (b"x" * 65531,), rpc.PacketTooLarge),
        ("f", (b"x" * 40000, b"x" * 40000), rpc.PacketTooLarge),
        ("f", (b"",) * 255, rpc.TooManyArguments),
        ("f" * 256, (), rpc.PacketTooLarge),
        ("", (), rpc.PacketTooLarge),
        ("f", (1,), TypeError),
        (None, (), TypeError),
    ],
)
async def test_calls_that_no_packet_holds(name, arguments, error):
    """A call too large for a packet is refused before anything is sent, even where nobody listens."""
    with pytest.raises(error):
        rpc.call_blocking("127.0.0.1:1", name, *arguments)
    with pytest.raises(error):
        await rpc.call("127.0.0.1:1", name, *arguments)


@pytest.mark.parametrize(
    ("address", "bind"),
    [
        ("127.0.0.1:3031", "127.0.0.1:3031"),
        ("[::1]:3031", "[::1]:3031"),
        (":3031", ":3031"),
        ("uwsgi://example.org:3031", "example.org:3031"),
        ("unix:/run/a.sock", "unix:/run/a.sock"),
        ("uwsgi://unix:/run/a.sock", "unix:/run/a.sock"),
        ("/run/a.sock", "unix:/run/a.sock"),
        ("./a.sock", "unix:./a.sock"),
        ("unix:@abstract", "unix:@abstract"),
    ],
)
def test_addresses_of_each_form_are_understood(address, bind):
    assert str(rpc.parse_address(address)) == bind


@pytest.mark.parametrize(
    "address",
    ["", "localhost", "localhost:x", "http:/x", "unix:", "a b:1", "gopher://a:1", "fd:3", "uwsgi://systemd:web"],
)
def test_bad_addresses_are_one_line(address):
    """The error is both an RpcError and a ValueError."""
    with pytest.raises(rpc.BadAddress) as caught:
        rpc.call_blocking(address, "f")
    assert isinstance(caught.value, ValueError) and "\n" not in str(caught.value)


# Clients, against a server with a given answer


class Answering:
    """A listening socket: a single connection, with the packet kept, answered with `octets`."""

    def __init__(self, octets, family=socket.AF_INET, path=None, is_split=False, then="close"):
        self.octets, self.is_split, self.then = octets, is_split, then
        self.packet = b""
        self.is_called = threading.Event()
        self.is_closed_by_peer = threading.Event()
        self.listener = socket.socket(family)
        self.listener.bind(path or ("127.0.0.1", 0))
        self.listener.listen(1)
        self.address = f"unix:{path}" if path else "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        connection = self.listener.accept()[0]
        connection.settimeout(30)
        with connection:
            while len(self.packet) < 4 or len(self.packet) < 4 + struct.unpack_from("<H", self.packet, 1)[0]:
                self.packet += connection.recv(65536)
            self.is_called.set()
            if self.is_split:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            step = 1 if self.is_split else max(len(self.octets), 1)
            with contextlib.suppress(ConnectionError):  # the client may have heard enough
                for start in range(0, len(self.octets), step):
                    connection.sendall(self.octets[start : start + step])
            if self.then == "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if self.then == "wait":
                with contextlib.suppress(ConnectionError):
                    assert connection.recv(1) == b""
                self.is_closed_by_peer.set()

    def close(self):
        self.thread.join(30)
        assert not self.thread.is_alive()
        self.listener.close()


@pytest.fixture
def answering():
    servers = []

    def start(*args, **kwargs):
        servers.append(Answering(*args, **kwargs))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def call_async(address, *args, **kwargs):
    return asyncio.run(rpc.call(address, *args, **kwargs))


CLIENTS = [pytest.param(call_async, id="asyncio"), pytest.param(rpc.call_blocking, id="blocking")]


@pytest.mark.parametrize("call", CLIENTS)
@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize(
    ("octets", "result"),
    [
        (b"\xad\x09\x00\x00hello a,b", b"hello a,b"),
        (b"\xad\x00\x00\x00", b""),
        (b"\xad\x14\x00\x05\x0e\x00CONTENT_LENGTH\x02\x0010" + b"x" * 10, b"x" * 10),
        (b"\xad\x1a\x00\x05\x01\x00A\x01\x00B\x0e\x00CONTENT_LENGTH\x02\x0010" + b"x" * 10, b"x" * 10),
        (b"\xad\x09\x00\x00hello a,b and more", b"hello a,b"),
    ],
)
def test_good_replies_give_the_result(answering, call, is_split, octets, result):
    """A reply may be split anywhere; octets behind a reply are not looked at."""
    server = answering(octets, is_split=is_split)
    assert call(server.address, "hello", "a", b"b") == result
    server.close()
    assert server.packet == b"\xad\x0d\x00\x00\x05\x00hello\x01\x00a\x01\x00b"


@pytest.mark.parametrize("call", CLIENTS)
def test_a_long_result(answering, call):
    """A result of megabytes arrives whole."""
    server = answering(rpc.encode_reply(bytes(range(256)) * 20000))
    assert call(server.address, "f") == bytes(range(256)) * 20000


@pytest.mark.parametrize("call", CLIENTS)
def test_over_a_unix_socket(answering, tmp_path, call):
    """An address may be the path of a socket."""
    answering(b"\xad\x02\x00\x00ok", socket.AF_UNIX, str(tmp_path / "s"))
    assert call(str(tmp_path / "s"), "f") == b"ok"


@pytest.mark.parametrize("call", CLIENTS)
@pytest.mark.parametrize(
    ("octets", "error", "text"),
    [
        (b"", rpc.NoReply, "closed without a reply"),
        (b"\xad", rpc.MalformedReply, "ended within the reply, after 1 octets"),
        (b"\xad\x09\x00", rpc.MalformedReply, "after 3 octets"),
        (b"\xad\x09\x00\x00hello", rpc.MalformedReply, "after 9 octets"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", rpc.MalformedReply, "an HTTP response"),
        (b"\x48\x09\x00\x00hello a,b", rpc.MalformedReply, "begins no RPC reply"),
        (b"\xad\x09\x00\x01hello a,b", rpc.MalformedReply, "begins no RPC reply"),
        (b"\xad\x00\x00\x05", rpc.MalformedReply, "no CONTENT_LENGTH"),
        (b"\xad\x17\x00\x05\x0e\x00CONTENT_LENGTH", rpc.MalformedReply, "after 20 octets"),
        (b"\xad\x01\x00\x05\x0e", rpc.MalformedReply, "overrun"),
        (b"\xad\x04\x00\x05\x0e\x00CO", rpc.MalformedReply, "overrun"),
        (b"\xad\x10\x00\x05\x0e\x00CONTENT_LENGTH", rpc.MalformedReply, "overrun"),
        (b"\xad\x13\x00\x05\x0e\x00CONTENT_LENGTH\x01\x00x", rpc.MalformedReply, "no CONTENT_LENGTH"),
        (b"\xad\x14\x00\x05\x0e\x00CONTENT_LENGTH\x02\x00-1", rpc.MalformedReply, "no CONTENT_LENGTH"),
        (b"\xad\x25\x00\x05\x0e\x00CONTENT_LENGTH\x13\x00" + b"9" * 19, rpc.MalformedReply, "no CONTENT_LENGTH"),
        (b"\xad\x14\x00\x05\x0e\x00CONTENT_LENGTH\x02\x0010short", rpc.MalformedReply, "after 29 octets"),
        (b"\xad\x24\x00\x05\x0e\x00CONTENT_LENGTH\x12\x00" + b"9" * 18, rpc.ResultTooLarge, "more than the"),
    ],
)
def test_bad_replies_have_their_error(answering, call, octets, error, text):
    """The error is a single line with the names of server and function."""
    server = answering(octets)
    with pytest.raises(error) as caught:
        call(server.address, "hello")
    assert text in str(caught.value) and str(caught.value).startswith(f"{server.address}, 'hello': ")
    assert type(caught.value) is error and "\n" not in str(caught.value)


@pytest.mark.parametrize("call", CLIENTS)
def test_a_result_over_the_callers_limit(answering, call):
    """The caller's own limit holds for short results, too."""
    server = answering(b"\xad\x09\x00\x00hello a,b")
    with pytest.raises(rpc.ResultTooLarge, match="has 9 octets, more than the 8 allowed"):
        call(server.address, "hello", max_result_bytes=8)


@pytest.mark.parametrize("call", CLIENTS)
@pytest.mark.parametrize(("octets", "error"), [(b"", rpc.NoReply), (b"\xad\x09\x00\x00hel", rpc.MalformedReply)])
def test_a_reset_is_like_a_close(answering, call, octets, error):
    server = answering(octets, then="reset")
    with pytest.raises((error, rpc.NoReply)):  # a reset may destroy earlier octets
        call(server.address, "hello")


@pytest.mark.parametrize("call", CLIENTS)
@pytest.mark.parametrize("octets", [b"", b"\xad\x09\x00\x00hel"])
def test_a_time_out(answering, call, octets):
    """A server without an answer in time loses the client: the client closes the connection."""
    server = answering(octets, then="wait")
    with pytest.raises(rpc.TimedOut, match=r"has not answered the call of 'hello' within 0\.05 s"):
        call(server.address, "hello", timeout=0.05)
    assert server.is_closed_by_peer.wait(30)


@pytest.mark.parametrize("call", CLIENTS)
def test_no_time_left(call):
    """A time-out of 0 is over at once."""
    with pytest.raises(rpc.TimedOut):
        call("127.0.0.1:1", "hello", timeout=0)


@pytest.mark.parametrize("call", CLIENTS)
def test_without_a_time_out(answering, call):
    """None waits without a limit."""
    server = answering(b"\xad\x02\x00\x00ok")
    assert call(server.address, "hello", timeout=None) == b"ok"


class GoneQuiet:
    """A socket whose kernel gives up: nobody acknowledges the sent octets."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def settimeout(self, seconds):
        pass

    def sendall(self, octets):
        pass

    def recv(self, count):
        raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))


@pytest.mark.parametrize("timeout", [None, 60.0])
def test_the_kernel_gives_up(monkeypatch, timeout):
    """ETIMEDOUT of the kernel's is no time-out of ours, though Python has a common class for both from 3.10 on."""
    monkeypatch.setattr(socket, "create_connection", lambda *_: GoneQuiet())
    with pytest.raises(rpc.NoReply, match="without a reply"):
        rpc.call_blocking("192.0.2.1:3031", "hello", timeout=timeout)

    def give_up(*_):
        raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

    monkeypatch.setattr(socket, "create_connection", give_up)
    with pytest.raises(rpc.CannotConnect, match=os.strerror(errno.ETIMEDOUT)):
        rpc.call_blocking("192.0.2.1:3031", "hello", timeout=timeout)


@pytest.mark.parametrize("call", CLIENTS)
def test_nobody_listens_in_the_systems_words(tmp_path, call):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % bound.getsockname()[1]
        with pytest.raises(rpc.CannotConnect, match="refused"):
            call(address, "hello")
    with pytest.raises(rpc.CannotConnect, match="No such file"):
        call(f"unix:{tmp_path}/none", "hello")
    with pytest.raises(rpc.CannotConnect, match="cannot connect"):
        call("a..b:1", "hello")


async def test_cancelling_closes_the_connection(answering):
    async def main(server):
        task = asyncio.ensure_future(rpc.call(server.address, "hello", timeout=None))
        assert await asyncio.get_running_loop().run_in_executor(None, server.is_called.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    server = answering(b"", then="wait")
    await main(server)
    assert server.is_closed_by_peer.wait(30)
    gc.collect()  # an unclosed socket would be a ResourceWarning, an error here


async def test_many_at_once(answering):
    """Calls run side by side on the same loop."""

    async def main(servers):
        return await asyncio.gather(*(rpc.call(server.address, "f") for server in servers))

    servers = [answering(b"\xad\x01\x00\x00%d" % number) for number in range(8)]
    assert await main(servers) == [b"%d" % number for number in range(8)]


def test_the_clients_do_not_log(caplog, answering):
    """Only the caller tells a failed call."""
    caplog.set_level(logging.DEBUG, "aserve")
    server = answering(b"")
    with pytest.raises(rpc.NoReply):
        rpc.call_blocking(server.address, "f")
    assert caplog.records == []
