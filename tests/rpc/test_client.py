"""RPC without a server: the registry, the octets of each reply, and clients against a socket that says anything."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import os
import socket
import struct
import threading
import time

import pytest

from aserve import rpc
from aserve.errors import AserveError
from aserve.exchange import RpcCall


@pytest.fixture(autouse=True)
def functions(monkeypatch):
    """An empty registry, put back afterwards."""
    registry = {}
    monkeypatch.setattr(rpc.client, "_functions", registry)
    return registry


def hello(*arguments):
    return b"hello " + b",".join(arguments)


def fail(*arguments):
    raise LookupError("of the function")


def leave(*arguments):
    raise SystemExit(3)


def register_all():
    rpc.register("hello", hello)
    rpc.register("big", lambda count: b"x" * int(count))
    rpc.register("empty", lambda: b"")
    rpc.register("text", lambda: "text")
    rpc.register("nothing", lambda: None)
    rpc.register("fail", fail)
    rpc.register("leave", leave)


def respond(modifier2, *items, accept="", is_head=False):
    return rpc.respond(RpcCall(modifier2, list(items), accept, is_head))


# The registry


def test_register_and_unregister():
    """Functions are listed in order; taking one back twice is no error."""
    rpc.register("b", hello)
    rpc.register("a", hello)
    assert rpc.registered() == ["b", "a"]
    rpc.unregister("b")
    rpc.unregister("b")
    assert rpc.registered() == ["a"]


def test_a_name_is_taken_once():
    """A second function of the same name is a mistake, unless it is said to replace the first."""
    rpc.register("f", lambda: b"1")
    with pytest.raises(ValueError, match="already"):
        rpc.register("f", lambda: b"2")
    assert rpc.call_local(b"f") == b"1"
    rpc.register("f", lambda: b"2", replace=True)
    assert rpc.call_local(b"f") == b"2"


@pytest.mark.parametrize("name", ["", "x" * 256, "é" * 128, "a\0b"])
def test_names_that_no_packet_could_carry(name):
    """A name has 1 to 255 octets without NUL."""
    with pytest.raises(ValueError, match="1 to 255 octets"):
        rpc.register(name, hello)


def test_the_longest_name():
    """255 octets are a name."""
    rpc.register("é" * 127 + "x", hello)
    assert respond(1, ("é" * 127 + "x").encode(), b"a") == b"hello a"


async def coroutine_function():
    return b""


@pytest.mark.parametrize("function", [None, b"bytes", coroutine_function])
def test_what_is_no_function(function):
    """What cannot be called for bytes is refused when it is registered."""
    with pytest.raises(TypeError, match="must be a function that returns bytes"):
        rpc.register("f", function)


def test_registering_from_many_threads(functions):
    """Each of many threads that take the same names gets either the name or the error."""
    taken = []

    def register():
        for number in range(200):
            with contextlib.suppress(ValueError):
                rpc.register(f"f{number}", hello)
                taken.append(number)

    threads = [threading.Thread(target=register, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(200)) and len(functions) == 200


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(("exc", "status"), [(SystemExit(3), 3), (SystemExit(), 0), (ValueError(), 1)])
def test_a_child_of_a_function_that_raises(exc, status):
    """A process that a function has forked ends as one of a view does: by sys.exit() with its status."""
    pids = []

    def fork():
        pids.append(os.fork())
        if not pids[0]:
            raise exc
        return b"parent"

    rpc.register("fork", fork)
    try:
        assert rpc.call_local(b"fork") == b"parent"
    finally:
        if not pids[0]:
            os._exit(99)
    assert os.waitpid(pids[0], 0)[1] == status << 8


# Replies: the octets were observed on uWSGI 2.0.30


def test_reply_framed():
    """modifier2 0: a packet."""
    register_all()
    assert respond(0, b"hello", b"a", b"b") == b"\xad\x09\x00\x00hello a,b"


def test_reply_framed_longest():
    """65,535 octets still fit a header."""
    register_all()
    assert respond(0, b"big", b"65535") == b"\xad\xff\xff\x00" + b"x" * 65535


@pytest.mark.parametrize("count", [65536, 70000])
def test_reply_framed_long(count):
    """More do not: the length comes in vars."""
    register_all()
    head = b"\xad\x17\x00\x05\x0e\x00CONTENT_LENGTH\x05\x00%d" % count
    assert respond(0, b"big", b"%d" % count) == head + b"x" * count


@pytest.mark.parametrize("modifier2", [1, 3, 5, 255])
def test_reply_raw(modifier2):
    """Any modifier2 but 0 and 2: the result as it is."""
    register_all()
    assert respond(modifier2, b"hello", b"a", b"b") == b"hello a,b"


def test_reply_http():
    """modifier2 2: an HTTP response of the media type that the caller accepts."""
    register_all()
    assert respond(2, b"hello", b"x", b"y", accept="text/plain") == (
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nContent-Type: text/plain\r\n\r\nhello x,y"
    )
    assert respond(2, b"hello", b"x", b"y", is_head=True).endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "application/binary"),
        ("*/*", "application/binary"),
        ("text/html,text/plain", "application/binary"),
        ("text/plain; charset=utf-8", "text/plain; charset=utf-8"),
        ("image/svg+xml", "image/svg+xml"),
        ("text/plain\r\nSet-Cookie: a=b", "application/binary"),
        ("text/é", "application/binary"),
    ],
)
def test_reply_http_type(accept, kind):
    """Only what is one media type becomes the Content-Type; nothing else gets into the head."""
    register_all()
    head = respond(2, b"hello", accept=accept).split(b"\r\n\r\n")[0]
    assert head == f"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nContent-Type: {kind}".encode()


@pytest.mark.parametrize(
    ("items", "status"),
    [
        ([], b"500 Internal Server Error"),  # no PATH_INFO
        ([b"other"], b"404 Not Found"),
        ([b"empty"], b"404 Not Found"),
        ([b"fail"], b"500 Internal Server Error"),
        ([b"text"], b"500 Internal Server Error"),
        ([b"empty", b"too", b"many"], b"500 Internal Server Error"),
    ],
)
def test_reply_http_errors(items, status):
    """What gives no result gives an error of HTTP, framed."""
    register_all()
    head, _, body = respond(2, *items).partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 " + status and b"Content-Length: %d" % len(body) in lines
    assert respond(2, *items, is_head=True) == head + b"\r\n\r\n"  # RFC 9110 9.3.2


@pytest.mark.parametrize("modifier2", [0, 1])
@pytest.mark.parametrize("items", [[], [b"other"], [b"empty"], [b"fail"], [b"leave"], [b"text"], [b"nothing"]])
def test_no_reply(modifier2, items):
    """What gives no result gives no octet."""
    register_all()
    assert respond(modifier2, *items) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"other", "refused a call of 'other': there is no RPC function 'other'"),
        (b"text", "the RPC function 'text' returned str, but must return bytes; return text.encode()"),
        (b"nothing", "the RPC function 'nothing' returned NoneType, but must return bytes"),
        (b"fail", "the RPC function 'fail' raised LookupError"),
        (b"leave", "the RPC function 'leave' raised SystemExit"),
        (b"\xff\n" + b"x" * 300, None),
    ],
)
def test_one_log_line(caplog, name, text):
    """Every failure is one record, and a name from the network cannot forge or flood lines."""
    register_all()
    respond(0, name)
    (record,) = caplog.records
    message = record.getMessage()
    assert message == text if text else "\n" not in message and len(message) < 250
    assert bool(record.exc_info) == ("raised" in message)


def test_nothing_registered(caplog):
    """Without functions every call is refused with one line."""
    assert respond(0, b"hello") is None
    assert respond(2, b"hello").startswith(b"HTTP/1.1 404 ")
    assert [r.getMessage() for r in caplog.records] == ["refused a call of 'hello': no RPC function is registered"] * 2


# The packets of the clients


def test_encode_call():
    """Name and arguments, as observed; text is sent as UTF-8, and whatever holds octets as it is."""
    assert rpc.encode_call("hello", ("a", b"b")) == b"\xad\x0d\x00\x00\x05\x00hello\x01\x00a\x01\x00b"
    packet = b"\xad\x0c\x00\x00\x01\x00f\x02\x00\xc3\xa9\x01\x00b\x00\x00"
    assert rpc.encode_call(b"f", ("é", memoryview(b"b"), bytearray())) == packet


def test_encode_the_largest():
    """A packet holds 65,535 octets, and 254 arguments."""
    assert len(rpc.encode_call("f", (b"x" * 65530,))) == 4 + 65535
    assert rpc.encode_call("f", (b"",) * 254)[:4] == b"\xad" + struct.pack("<H", 3 + 254 * 2) + b"\0"


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
    """What does not fit is refused before anything is sent, even where nobody listens."""
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
def test_addresses(address, bind):
    """Each form is understood."""
    assert str(rpc.parse_address(address)) == bind


@pytest.mark.parametrize("address", ["", "localhost", "localhost:x", "http:/x", "unix:", "a b:1", "gopher://a:1"])
def test_bad_addresses(address):
    """What is no address is one line, and both an RpcError and a ValueError."""
    with pytest.raises(rpc.BadAddress) as caught:
        rpc.call_blocking(address, "f")
    assert isinstance(caught.value, ValueError) and "\n" not in str(caught.value)


def test_every_error_is_one_kind():
    """`except aserve.rpc.RpcError` catches every failure of a call; it is one of aserve's errors."""
    errors = [
        rpc.BadAddress, rpc.CannotConnect, rpc.TimedOut, rpc.NoReply, rpc.MalformedReply, rpc.ResultTooLarge,
        rpc.PacketTooLarge, rpc.TooManyArguments, rpc.UnknownFunction, rpc.FunctionFailed,
    ]  # fmt: skip
    assert all(issubclass(error, rpc.RpcError) for error in errors) and issubclass(rpc.RpcError, AserveError)


# Clients, against a server that answers whatever it is told


class Answering:
    """A listening socket: one connection, its packet kept, answered with `octets`."""

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
        connection.settimeout(5)
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
        self.thread.join(5)
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
def test_good_replies(answering, call, is_split, octets, result):
    """Each form of reply gives its result, however it is split; what follows is not looked at."""
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
def test_bad_replies(answering, call, octets, error, text):
    """Each kind of bad reply has its error, one line that names server and function."""
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
def test_a_reset(answering, call, octets, error):
    """A connection that is reset is an RpcError like one that is closed."""
    server = answering(octets, then="reset")
    with pytest.raises((error, rpc.NoReply)):  # a reset may destroy what came before it
        call(server.address, "hello")


@pytest.mark.parametrize("call", CLIENTS)
@pytest.mark.parametrize("octets", [b"", b"\xad\x09\x00\x00hel"])
def test_a_time_out(answering, call, octets):
    """A server that does not answer in time loses its client, which closes the connection."""
    server = answering(octets, then="wait")
    began = time.monotonic()
    with pytest.raises(rpc.TimedOut, match=r"has not answered the call of 'hello' within 0\.05 s"):
        call(server.address, "hello", timeout=0.05)
    assert time.monotonic() - began < 4
    assert server.is_closed_by_peer.wait(5)


@pytest.mark.parametrize("call", CLIENTS)
def test_no_time_left(call):
    """A time-out of 0 is over before it begins."""
    with pytest.raises(rpc.TimedOut):
        call("127.0.0.1:1", "hello", timeout=0)


@pytest.mark.parametrize("call", CLIENTS)
def test_without_a_time_out(answering, call):
    """None waits for as long as it takes."""
    server = answering(b"\xad\x02\x00\x00ok")
    assert call(server.address, "hello", timeout=None) == b"ok"


class GoneQuiet:
    """A socket whose kernel gives up: nobody acknowledges what it has sent."""

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
    """ETIMEDOUT of the kernel's is no time-out of ours, though Python has one class for both from 3.10 on."""
    monkeypatch.setattr(socket, "create_connection", lambda *_: GoneQuiet())
    with pytest.raises(rpc.NoReply, match="without a reply"):
        rpc.call_blocking("192.0.2.1:3031", "hello", timeout=timeout)

    def give_up(*_):
        raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

    monkeypatch.setattr(socket, "create_connection", give_up)
    with pytest.raises(rpc.CannotConnect, match=os.strerror(errno.ETIMEDOUT)):
        rpc.call_blocking("192.0.2.1:3031", "hello", timeout=timeout)


@pytest.mark.parametrize("call", CLIENTS)
def test_nobody_listens(tmp_path, call):
    """Where nobody listens, the error says so in the system's words."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % bound.getsockname()[1]
        with pytest.raises(rpc.CannotConnect, match="refused"):
            call(address, "hello")
    with pytest.raises(rpc.CannotConnect, match="No such file"):
        call(f"unix:{tmp_path}/none", "hello")
    with pytest.raises(rpc.CannotConnect, match="cannot connect"):
        call("a..b:1", "hello")


async def test_cancelling_closes(answering):
    """A call that is cancelled closes its connection; nothing is left behind."""

    async def main(server):
        task = asyncio.ensure_future(rpc.call(server.address, "hello", timeout=None))
        assert await asyncio.get_running_loop().run_in_executor(None, server.is_called.wait, 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    server = answering(b"", then="wait")
    await main(server)
    assert server.is_closed_by_peer.wait(5)
    gc.collect()  # an unclosed socket would be a ResourceWarning, which is an error here


async def test_many_at_once(answering):
    """Calls run side by side on one loop."""

    async def main(servers):
        return await asyncio.gather(*(rpc.call(server.address, "f") for server in servers))

    servers = [answering(b"\xad\x01\x00\x00%d" % number) for number in range(8)]
    assert await main(servers) == [b"%d" % number for number in range(8)]


def test_the_clients_do_not_log(caplog, answering):
    """A failed call is its caller's to tell."""
    caplog.set_level(logging.DEBUG, "aserve")
    server = answering(b"")
    with pytest.raises(rpc.NoReply):
        rpc.call_blocking(server.address, "f")
    assert caplog.records == []
