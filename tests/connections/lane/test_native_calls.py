"""RPC calls in C, beside the Python twin: the same replies and the same lines."""

import gc
import logging
import socket
import struct
import sys
import threading

import pytest
from harness.plain import engine_of
from harness.waiting import PATIENCE_SECONDS, wait_until

from aserve import rpc
from aserve.core import forks
from aserve.rpc.packets import encode_call

pytest.importorskip("aserve._native", reason="aserve._native is not built here")
pytestmark = [pytest.mark.any_parser, pytest.mark.one_way]


def join(*arguments):
    """Join the arguments in reverse order."""
    return b"|".join(arguments[::-1])


def fail(*arguments):
    raise LookupError("on purpose")


FUNCTIONS = {
    "join": join, "fail": fail, "text": lambda *_: "text", "none": lambda *_: None, "empty": lambda *_: b"",
    "big": lambda *_: b"x" * 100_000, "bigger": lambda *_: b"x" * 1_000_000,
}  # fmt: skip
# Packet: whether C serves it to the end.
CALLS = {
    "join": (encode_call("join", ("one", "two", "three")), True),
    "alone": (encode_call("join", ()), True),
    "unknown": (encode_call("unknown", ("one",)), True),
    "fail": (encode_call("fail", ("one",)), True),
    "text": (encode_call("text", ()), True),
    "none": (encode_call("none", ()), True),
    "empty": (encode_call("empty", ()), True),
    "big": (encode_call("big", ()), True),
    "bigger": (encode_call("bigger", ()), False),
    "most": (encode_call("join", ("a",) * 254), True),
    "too_many": (b"\xad" + struct.pack("<H", 3 * 256) + b"\0" + b"\x01\0a" * 256, False),
    "overrun": (b"\xad\x03\0\0\x05\0a", False),
    "nothing": (b"\xad\0\0\0", False),
    "skipped": (b"\xad\x0a\0\0" + b"\0\0\x04\0join" + b"\0\0", True),
    "raw": (b"\xad\x06\0\x01\x04\0join", False),
    "http": (b"\xad\x14\0\x02" + b"\x09\0PATH_INFO" + b"\x07\0/join/a", False),
    "followed": (encode_call("join", ("one",)) + b"more", True),
    "ping": (b"\x64\0\0\0", False),
}
PROVOKED = ["raised", "returned", "there is no RPC function", "more than 255", "past its end", "refused", "runs past"]


@pytest.fixture(autouse=True)
def registered():
    """The functions, for a test."""
    for name, function in FUNCTIONS.items():
        rpc.register(name, function)
    yield
    for name in FUNCTIONS:
        rpc.unregister(name)


@pytest.fixture
def serve(start_server):
    """Start a server of calls: serve(native, **settings)."""

    def start(native="auto", **settings):
        return start_server(
            lambda environ, start_response: [],
            is_checked=False,
            native=native,
            bind=("uwsgi://127.0.0.1:0",),
            **settings,
        )

    return start


def call(server, packet):
    """Return all octets for a packet, on its own connection."""
    with socket.create_connection(server.address, timeout=PATIENCE_SECONDS) as client:
        client.sendall(packet)
        return b"".join(iter(lambda: client.recv(1 << 16), b""))


@pytest.mark.provokes(*PROVOKED)
def test_the_same_octets(serve, caplog):
    """Whatever is called, and whatever the function does; and the log says the same."""
    replies, lines = [], []
    for native in ("auto", "off"):
        server = serve(native)
        caplog.clear()
        replies.append({name: call(server, packet) for name, (packet, _) in CALLS.items()})
        lines.append(
            [
                (record.name, record.getMessage().rpartition(":")[2])
                for record in caplog.records
                if record.levelname != "INFO"
            ]
        )
    assert replies[0] == replies[1] and lines[0] == lines[1]
    assert replies[0]["join"] == b"\xad\x0d\0\0three|two|one" and len(replies[0]["bigger"]) > 1_000_000


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.provokes(*PROVOKED)
def test_framed_calls_are_served_in_c(serve, name):
    """A framed and readable call is served in C; a call with more than one write is promoted."""
    server = serve()
    packet, is_plain = CALLS[name]
    call(server, packet)
    engine = engine_of(server)
    is_promoted = name == "bigger"
    wait_until(
        lambda: engine.plain_count + engine.promoted_count == is_plain + is_promoted
    )  # counted behind a large reply
    assert engine.plain_count == is_plain


@pytest.mark.parametrize("settings", [{}, {"request_seconds": 3600.0}])
def test_one_that_others_look_at(serve, settings):
    """A watched running call is promoted, and answered by its twin."""
    entered, go = threading.Event(), threading.Event()

    def wait(*arguments):
        entered.set()
        assert go.wait(PATIENCE_SECONDS)
        return join(*arguments)

    rpc.register("join", wait, replace=True)
    server = serve(**settings)
    with socket.create_connection(server.address, timeout=PATIENCE_SECONDS) as client:
        client.sendall(CALLS["join"][0])
        assert entered.wait(PATIENCE_SECONDS)
        engine_of(server).promote_all()
        [exchange] = server.call(lambda: server.server._listening.lane.exchanges)
        assert exchange.rpc.items == [b"join", b"one", b"two", b"three"] and exchange.body is None
        go.set()
        assert client.recv(1 << 16) == b"\xad\x0d\0\0three|two|one" and not client.recv(1)
    assert engine_of(server).promoted_count == 1


def test_calls_that_block(serve):
    """Calls that come together are served side by side."""
    met = threading.Barrier(9)

    def meet(*arguments):
        met.wait(PATIENCE_SECONDS)
        return b"met"

    rpc.register("join", meet, replace=True)
    server = serve(threads=8)
    clients = [socket.create_connection(server.address, timeout=PATIENCE_SECONDS) for _ in range(8)]
    for client in clients:
        client.sendall(CALLS["join"][0])
    met.wait(PATIENCE_SECONDS)
    for client in clients:
        assert client.recv(100).endswith(b"met")
        client.close()


def test_its_log_line_is_the_same(serve, tmp_path):
    """The access log has the same line of a call, whichever way it takes; a name of its own makes it Python's."""
    texts = []
    for native, format in (("auto", "common"), ("off", "common"), ("auto", "%(r)s %(request_id)s")):
        path = tmp_path / f"{native}-{len(texts)}"
        server = serve(native, access_log=str(path), access_log_format=format)
        call(server, CALLS["join"][0])
        wait_until(lambda path=path: path.exists() and path.read_text().endswith("\n"))
        texts.append(path.read_text().partition("]")[2])
        if native == "auto":
            assert engine_of(server).plain_count == int(format == "common")
    assert texts[0] == texts[1]


def test_in_a_process_that_was_forked(serve, monkeypatch):
    """A child that comes back from the function ends without an answer."""
    ended = []
    monkeypatch.setattr("aserve.connections.lane.native.end_if_forked", lambda *arguments: ended.append(arguments))

    def fork(*arguments):
        forks.forked.append(None)
        return b"child"

    rpc.register("join", fork, replace=True)
    server = serve()
    try:
        assert call(server, CALLS["join"][0]).endswith(b"child")
    finally:
        forks.forked.pop()
    assert len(ended) == 1


@pytest.mark.provokes(*PROVOKED)
def test_nothing_is_left(serve):
    """Calls of every kind leave no reference to shared objects behind."""
    server = serve(threads=1)
    shared = [
        server.server._listening.lane.native,
        engine_of(server),
        server.server._listening.lane.native._submit,
        *FUNCTIONS.values(),
    ]

    def call_each(times):
        for _ in range(times):
            for packet, _ in CALLS.values():
                call(server, packet)
        wait_until(
            lambda: server.call(
                lambda: server.server._listening.lane.count == 0 and server.server._threads.executor.is_quiet
            )
        )

    def references():
        gc.collect()
        return [sys.getrefcount(each) for each in shared]

    logging.disable(logging.CRITICAL)  # no record keeps an exception, whose frames keep the function
    try:
        call_each(2)
        before = references()
        call_each(5)
        wait_until(lambda: references() == before)
    finally:
        logging.disable(logging.NOTSET)
