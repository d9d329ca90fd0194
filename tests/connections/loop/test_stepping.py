"""Responses stepped by the event loop, with --threads 0: in turns, in the app's context, and as the client reads."""

import contextvars

import pytest
from harness.replies import GET, Chunks, body_of, is_cut, returning

from aserve.workers.inline import InlineExecutor


def test_inline_pieces_are_stepped_by_the_loop(new):
    chunks = Chunks(b"a", b"b")
    _, connection, transport = new(returning(chunks), executor=InlineExecutor(), threads=0)
    connection.data_received(GET + GET)
    octets = transport.received()
    assert body_of(octets).startswith(b"1\r\na\r\n1\r\nb\r\n0\r\n\r\nHTTP/1.1 200")
    assert chunks.closed == 2


def test_inline_pieces_in_one_context(new):
    """Each step of a stream is in its request's context, whoever calls the loop meanwhile; the next request finds nothing of it."""
    variable, found = contextvars.ContextVar("variable", default="none"), []

    def app(environ, start_response):
        found.append(variable.get())
        token = variable.set("the request's")
        start_response("200 OK", [])
        return pieces(token)

    def pieces(token):
        try:
            for _ in range(200):
                found.append(variable.get())
                yield b"x"
        finally:
            variable.reset(token)

    harness, connection, transport = new(app, executor=InlineExecutor(), threads=0)
    for _ in range(2):
        found.clear()
        connection.data_received(GET)
        octets = b""
        for _ in range(10):
            octets += transport.received()
            harness.loop.turn()
        assert octets.endswith(b"0\r\n\r\n") and len(found) == 201
        assert found[0] == "none" and set(found[1:]) == {"the request's"}


def test_inline_pieces_take_turns(new):
    """A long stream lets the loop have its turn, and other connections theirs."""
    chunks = Chunks(*[b"x"] * 200)
    harness, connection, transport = new(returning(chunks), executor=InlineExecutor(), threads=0)
    connection.data_received(GET)
    assert 0 < chunks.made < 100
    turns = 0
    while harness.loop.soon:
        harness.loop.turn()
        turns += 1
    assert turns >= 2 and transport.received().count(b"\r\nx\r\n") == 200 and chunks.closed == 1


def test_inline_pieces_wait_for_the_client(new):
    """A client that does not read stops the iterable, which goes on when there is room."""
    chunks = Chunks(*[b"x" * 1000] * 10)
    _, connection, transport = new(returning(chunks), executor=InlineExecutor(), threads=0)
    transport.high, transport.is_stuck = 2500, True
    connection.data_received(GET)
    assert chunks.made == 3
    transport.unstick()
    assert body_of(transport.received()).count(b"x") == 10_000 and chunks.closed == 1


@pytest.mark.parametrize("is_stuck", [False, True])
def test_inline_pieces_of_a_client_that_leaves(new, is_stuck):
    """The iterable is closed when the client has gone, whatever its wait."""
    chunks = Chunks(*[b"x" * 1000] * 200)
    harness, connection, transport = new(returning(chunks), executor=InlineExecutor(), threads=0)
    harness.service.ends = harness.log
    transport.high, transport.is_stuck = 2500, is_stuck
    connection.data_received(GET)
    assert chunks.closed == 0
    transport.lose()
    harness.loop.turn()
    assert chunks.closed == 1 and harness.log.codes == [200]


def test_an_inline_response_that_cannot_be_finished(new):
    """Without threads, too, a response cut short ends the connection."""
    chunks = Chunks(b"ab")
    _, connection, transport = new(returning(chunks, [("Content-Length", "5")]), executor=InlineExecutor(), threads=0)
    connection.data_received(GET)
    assert is_cut(transport) and chunks.closed == 1


def test_an_inline_stream_that_fails_later(new):
    """A chunk that fails in a later turn ends the connection as well."""
    chunks = Chunks(*[b"x"] * 100, error=ValueError("no"))
    harness, connection, transport = new(returning(chunks), executor=InlineExecutor(), threads=0)
    connection.data_received(GET)
    while harness.loop.soon:
        harness.loop.turn()
    assert is_cut(transport) and chunks.closed == 1


def test_an_inline_write_cannot_wait(new):
    """write() without threads cannot wait; its octets go to the transport."""

    def app(environ, start_response):
        write = start_response("200 OK", [])
        for _ in range(10):
            write(b"x" * 1000)
        return [b"y"]

    _, connection, transport = new(app, executor=InlineExecutor(), threads=0, write_buffer_bytes=1024)
    transport.is_stuck = True
    connection.data_received(GET)
    transport.unstick()
    assert body_of(transport.received()).count(b"x") == 10_000
