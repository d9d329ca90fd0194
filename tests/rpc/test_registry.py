"""RPC without a server: the registry, and the octets of each reply."""

import contextlib
import gc
import os
import threading

import pytest

from aserve import rpc
from aserve.core.exchange import RpcCall


@pytest.fixture(autouse=True)
def functions(monkeypatch):
    """An empty registry, put back afterwards."""
    registry = {}
    monkeypatch.setattr(rpc.registry, "_functions", registry)
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
    """Functions are listed in order; a function may be taken back twice."""
    rpc.register("b", hello)
    rpc.register("a", hello)
    assert rpc.registered() == ["b", "a"]
    rpc.unregister("b")
    rpc.unregister("b")
    assert rpc.registered() == ["a"]


def test_a_name_is_taken_once():
    """A second function of the same name is a mistake, unless told to replace the first."""
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
    """An object without a call for bytes is refused at registration."""
    with pytest.raises(TypeError, match="must be a function that returns bytes"):
        rpc.register("f", function)


def test_registering_from_many_threads(functions):
    """Each of many threads with the same names gets either the name or the error."""
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


def test_a_finalizer_that_registers():
    """A call from a function's finalizer, where the function is replaced or unregistered, does not wait for the same thread."""

    class Function:
        def __call__(self):
            return b""

        def __del__(self):
            rpc.unregister("h")
            rpc.register("g", hello, replace=rpc.registered() != [])

    def replace():
        rpc.register("f", Function())
        rpc.register("f", Function(), replace=True)
        rpc.unregister("f")
        gc.collect()

    thread = threading.Thread(target=replace, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive() and rpc.registered() == ["g"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(("exc", "status"), [(SystemExit(3), 3), (SystemExit(), 0), (ValueError(), 1)])
def test_a_child_of_a_function_that_raises(exc, status):
    """A process forked by a function ends like a process forked by a view: by sys.exit() with the status."""
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


def test_reply_framed_is_a_packet():
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
def test_reply_raw_is_the_result(modifier2):
    """Any modifier2 but 0 and 2: the result unchanged."""
    register_all()
    assert respond(modifier2, b"hello", b"a", b"b") == b"hello a,b"


def test_reply_http_is_of_the_accepted_type():
    """modifier2 2: an HTTP response of the accepted media type."""
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
    """Only a single media type becomes the Content-Type; nothing else gets into the head."""
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
    """A call without a result gives an error of HTTP, framed."""
    register_all()
    head, _, body = respond(2, *items).partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 " + status and b"Content-Length: %d" % len(body) in lines
    assert respond(2, *items, is_head=True) == head + b"\r\n\r\n"  # RFC 9110 9.3.2


@pytest.mark.parametrize("modifier2", [0, 1])
@pytest.mark.parametrize("items", [[], [b"other"], [b"empty"], [b"fail"], [b"leave"], [b"text"], [b"nothing"]])
def test_no_reply_without_a_result(modifier2, items):
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
    """Every failure is a single record, and a name from the network cannot forge or flood lines."""
    register_all()
    respond(0, name)
    (record,) = caplog.records
    message = record.getMessage()
    assert message == text if text else "\n" not in message and len(message) < 250
    assert bool(record.exc_info) == ("raised" in message)


def test_nothing_registered_refuses_every_call(caplog):
    """Without functions every call is refused with a single line."""
    assert respond(0, b"hello") is None
    assert respond(2, b"hello").startswith(b"HTTP/1.1 404 ")
    assert [r.getMessage() for r in caplog.records] == ["refused a call of 'hello': no RPC function is registered"] * 2
