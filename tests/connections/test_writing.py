"""What the event loop writes: responses that are cut short visibly, files, and nothing after the end."""

from __future__ import annotations

import contextlib
import contextvars
import errno
import os
import queue
import threading

import pytest
from harness.replies import GET, GET_1_0, POST, Chunks, body_of, is_cut, is_reset, returning

from aserve.connections import sending as sending_module
from aserve.connections.sendfile import HAS_SENDFILE
from aserve.core.errors import AppError, ClientDisconnected
from aserve.workers.inline import InlineExecutor
from aserve.wsgi import FileWrapper

# Cut short


@pytest.mark.parametrize(
    ("raw", "headers", "expected"),
    [
        (GET, [("Content-Length", "5")], is_cut),
        (POST, [("Content-Length", "5")], is_cut),
        (GET_1_0, [("Content-Length", "5")], is_cut),
        (GET, [], is_cut),
        (POST, [], is_cut),
        (GET_1_0, [], is_reset),
    ],
)
def test_a_response_that_cannot_be_finished(new, raw, headers, expected):
    """RFC 9112 8: one cut short must be seen to be: by its length or its chunks; a reset where there is nothing else."""
    closing = Chunks(b"ab", "text")
    harness, connection, transport = new(returning(closing, headers))
    harness.service.access_log = harness.log
    connection.data_received(raw)
    harness.executor.run()
    assert expected(transport) and closing.closed == 1 and harness.log.codes == [200] and harness.log.cuts == [True]
    octets = transport.received()
    assert b"ab" in body_of(octets) and not octets.endswith(b"0\r\n\r\n")
    assert connection.exchange is None
    transport.lose()


@pytest.mark.parametrize("protocol", ["uwsgi", "scgi"])
@pytest.mark.parametrize("headers", [[], [("Content-Length", "5")]])
def test_a_front_server_is_told_by_a_reset(new, protocol, headers):
    """Not every front server counts the body of a response that has a length: only a reset tells them all."""
    harness, connection, transport = new(returning(Chunks(b"ab", "text"), headers), protocol=protocol)
    vars = b"REQUEST_METHOD\0GET\0" if protocol == "scgi" else b""
    scgi = b"CONTENT_LENGTH\x000\0SCGI\x001\0" + vars
    uwsgi = b"\x0e\0REQUEST_METHOD\x03\0GET"
    connection.data_received(
        b"%d:%b," % (len(scgi), scgi)
        if protocol == "scgi"
        else b"\0" + len(uwsgi).to_bytes(2, "little") + b"\0" + uwsgi
    )
    harness.executor.run()
    assert is_reset(transport)


def test_whole_responses_before_it_are_kept(new):
    """What a pipelining client has not read yet is sent before the end, and nothing behind it is answered."""
    chunks = [[b"whole"], Chunks(b"ab", "text"), [b"never"]]

    def app(environ, start_response):
        start_response("200 OK", [])
        return chunks.pop(0)

    harness, connection, transport = new(app)
    transport.is_stuck = True
    connection.data_received(GET * 3)
    harness.executor.run()
    transport.unstick()
    harness.executor.run()
    octets = transport.received()
    assert octets.count(b"HTTP/1.1 200") == 2 and b"whole" in octets and b"never" not in octets
    assert is_cut(transport) and octets.endswith(b"2\r\nab\r\n")


@pytest.mark.provokes("please report this as a bug")
def test_a_failure_behind_the_end_costs_nothing(new, caplog):
    """What fails of ours when a response is out leaves the connection alone, and the next response on it."""

    class BrokenLog:
        def write(self, exchange, may_wait=False):
            raise IndexError("on purpose")

    harness, connection, transport = new(returning([b"x"]))
    harness.service.access_log = BrokenLog()
    connection.data_received(GET)
    harness.executor.run_job()  # it writes its response itself
    assert "report this as a bug" in caplog.text
    harness.service.access_log = None
    connection.data_received(GET)
    harness.executor.flush()
    harness.executor.run()
    assert transport.received().count(b"HTTP/1.1 200") == 2 and transport.calls == []


def test_a_reset_of_a_socket_that_is_gone(new, monkeypatch):
    """Where the client was quicker, there is nothing left to reset."""
    harness, connection, transport = new(returning(Chunks(b"ab", "text")))
    connection.data_received(GET_1_0)
    transport.extra["socket"] = type("Gone", (), {"setsockopt": gone})()
    harness.executor.run()
    assert transport.calls == ["abort"]


def gone(self, *_):
    raise OSError(errno.EBADF, "Bad file descriptor")


@pytest.mark.parametrize("count", [1, 2])
def test_a_close_that_fails_when_the_client_has_left(new, count, caplog):
    """An iterable that fails in close(), too, ends its exchange."""
    closing = Chunks(*[b"x"] * 3, close_error=KeyError("late"))
    harness, connection, transport = new(returning(closing))
    harness.service.access_log = harness.log
    connection.data_received(POST)
    transport.lose()
    harness.executor.run()
    assert closing.closed == 1 and harness.log.codes == [200]
    assert "KeyError in close()" in caplog.text and "report this" not in caplog.text


@pytest.mark.provokes("please report this as a bug")
def test_our_own_bug_costs_one_request(new, monkeypatch, caplog):
    """An exception of ours in a worker is logged as such, and ends this connection alone."""
    harness, connection, transport = new(returning([b"x"]))
    connection.data_received(GET)
    monkeypatch.setattr(type(harness.service.gateway), "respond", lambda self, exchange: 1 / 0)
    harness.executor.run()
    assert is_cut(transport) and "please report this as a bug in aserve" in caplog.text


# write() after the end


def test_a_late_write(new):
    """An app that keeps write() and calls it after its response meets an error."""
    writes = []

    def app(environ, start_response):
        writes.append(start_response("200 OK", []))
        return [b"hello"]

    harness, connection, transport = new(app)
    for raw in (GET, POST):
        connection.data_received(raw)
        harness.executor.run()
        transport.received()
        with pytest.raises(AppError):
            writes.pop()(b"late")
        assert transport.received() == b"" and harness.executor.posts == []


@pytest.mark.parametrize("raw", [GET, GET_1_0])
@pytest.mark.parametrize("headers", [[], [("Content-Length", "2")]])
@pytest.mark.parametrize("chunks", [[b"ab"], iter([b"a", b"b"])])
def test_a_write_between_the_last_piece_and_the_end(new, raw, headers, chunks):
    """Nothing of it comes behind the end of the response, where the next one begins."""
    writes = []

    def app(environ, start_response):
        writes.append(start_response("200 OK", headers))
        return chunks

    harness, connection, transport = new(app)
    connection.data_received(raw + raw)
    harness.executor.run_job()
    with contextlib.suppress(AppError):
        writes[0](b"late")
    harness.executor.flush()
    octets = transport.received()
    assert octets.count(b"HTTP/1.1 200") == 1 and b"late" not in octets


def test_a_piece_posted_behind_the_end(new):
    """A piece that a second thread hands over while the end is on its way home is dropped."""
    harness, connection, transport = new(returning(iter([b"a"])))
    connection.data_received(GET)
    exchange = connection.exchange
    harness.executor.posts.append((lambda *_: None, None, None))  # the loop is awake: nobody writes directly
    harness.executor.run_job()
    connection.send(exchange, b"late")
    harness.executor.flush()
    assert body_of(transport.received()) == b"1\r\na\r\n0\r\n\r\n"
    connection.data_received(GET)
    assert connection._write_past(exchange, b"late", is_last=False) == b"late"
    with pytest.raises(ClientDisconnected):
        connection.send(exchange, b"late")


class Watched:
    """A lock that tells of those who have to wait for it."""

    def __init__(self, events):
        self.lock, self.events = threading.Lock(), events

    def __enter__(self):
        if not self.lock.acquire(blocking=False):
            self.events.put("waits")
            self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()


@pytest.mark.parametrize("body", [b"0\r\n\r\n", (b"0\r\n", b"\r\n")], ids=["rest", "large"])
def test_a_piece_that_is_written_as_the_end_comes(new, monkeypatch, body):
    """The loop ends a response behind what a second thread of the app is just writing for itself."""
    harness, connection, transport = new(returning([b""]))
    connection.data_received(GET)
    exchange, write, events = connection.exchange, os.write, queue.Queue()
    connection._lock = Watched(events)
    on_end = connection._on_large if isinstance(body, tuple) else connection._on_complete

    def end():
        on_end(exchange, body)
        events.put("is done")

    loop = threading.Thread(target=end)

    def write_late(fd, octets):
        loop.start()
        assert events.get(timeout=30) == "waits"
        return write(fd, octets)

    monkeypatch.setattr(sending_module.os, "write", write_late)
    try:
        assert connection._write_past(exchange, b"1\r\na\r\n", is_last=False) is None
    finally:
        monkeypatch.undo()
        loop.join(30)
    assert transport.received() == b"1\r\na\r\n0\r\n\r\n"
    assert connection._write_past(exchange, b"late", is_last=False) == b"late"


# Files


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(os.urandom(2_000_000))
    with open(path, "rb") as opened:
        yield opened


def content_of(file):
    with open(file.name, "rb") as again:
        return again.read()


needs_sendfile = pytest.mark.skipif(not HAS_SENDFILE, reason="this system has no sendfile")


def read_file(harness, transport, length, before=b""):
    octets = transport.received()
    assert octets.startswith(before)
    octets = octets[len(before) :]
    while len(body_of(octets)) < length:
        harness.loop.turn()
        octets += transport.received()
    harness.loop.turn()
    return body_of(octets)


@needs_sendfile
@pytest.mark.parametrize("raw", [GET, POST, GET_1_0])
def test_a_file(new, file, raw):
    """A file goes out behind its head, whole; it is closed in a worker, and the connection goes on."""
    harness, connection, transport = new(returning(FileWrapper(file)))
    connection.data_received(raw)
    harness.executor.run()
    assert read_file(harness, transport, 2_000_000) == content_of(file)
    assert not file.closed
    harness.executor.run()
    assert file.closed and harness.loop.writers == {}
    assert ("write_eof" in transport.calls) is (raw == GET_1_0)
    assert transport.high == transport.default_high


@needs_sendfile
def test_a_file_waits_for_what_the_transport_holds(new, file):
    """What is sent past the transport comes behind all that it holds."""
    harness, connection, transport = new(returning(FileWrapper(file)))
    transport.is_stuck = True
    transport.write(b"before")
    connection.data_received(GET)
    harness.executor.run()
    harness.loop.turn()
    assert transport.received() == b"" and harness.loop.writers == {}
    transport.unstick()
    assert read_file(harness, transport, 2_000_000, before=b"before") == content_of(file)
    harness.executor.run()
    assert file.closed


@needs_sendfile
def test_requests_behind_a_file(new, file):
    """What comes while a file is sent waits for its end."""
    replies = [FileWrapper(file), [b"hello"]]

    def app(environ, start_response):
        start_response("200 OK", [])
        return replies.pop(0)

    harness, connection, transport = new(app)
    connection.data_received(GET)
    harness.executor.run()
    connection.data_received(GET)
    assert read_file(harness, transport, 2_000_000).startswith(content_of(file))
    harness.executor.run()
    assert body_of(transport.received()) == b"hello"


@needs_sendfile
@pytest.mark.parametrize("is_stuck", [False, True])
def test_a_client_that_leaves_a_file(new, file, is_stuck):
    """A file whose client leaves is closed, whether it was being sent or waited for its turn."""
    harness, connection, transport = new(returning(FileWrapper(file)))
    harness.service.access_log = harness.log
    transport.is_stuck = is_stuck
    connection.data_received(GET)
    harness.executor.run()
    transport.lose()
    harness.executor.run()
    assert file.closed and harness.loop.writers == {} and harness.log.codes == [200]


@needs_sendfile
def test_a_file_that_shrinks(new, file):
    """A file that ends before its promised length cuts the connection."""
    harness, connection, transport = new(returning(FileWrapper(file)))
    connection.data_received(GET)
    harness.executor.run()
    os.truncate(file.name, 1000)
    for _ in range(3):
        transport.received()
        harness.loop.turn()
    assert is_cut(transport)
    harness.executor.run()
    assert file.closed


@needs_sendfile
def test_a_slow_client_of_a_file(new, file):
    """Progress of a file counts against --write-timeout; standing still ends it."""
    harness, connection, transport = new(returning(FileWrapper(file)), write_seconds=5)
    connection.data_received(GET)
    harness.executor.run()
    for _ in range(5):
        connection.on_second()
    transport.received()
    harness.loop.turn()
    for _ in range(5):
        connection.on_second()
    assert not transport.is_closing()
    for _ in range(2):
        connection.on_second()
    assert is_reset(transport)
    transport.lose()
    harness.executor.run()
    assert file.closed


@needs_sendfile
def test_no_descriptor_left_for_a_file(new, file, monkeypatch):
    """When the process is out of descriptors, this connection is cut and its file closed."""

    def refuse(fd):
        raise OSError(errno.EMFILE, "Too many open files")

    harness, connection, transport = new(returning(FileWrapper(file)))
    connection.data_received(GET)
    with monkeypatch.context() as patch:
        patch.setattr(os, "dup", refuse)
        harness.executor.run()
    assert is_cut(transport)
    assert file.closed


@needs_sendfile
def test_too_many_files(new, file):
    """Beyond the limit of files (--spool-files) one is read piece by piece, and not counted; others count until they are sent."""

    def app(environ, start_response):
        start_response("200 OK", [])
        return FileWrapper(open(file.name, "rb"))

    harness, connection, transport = new(app, executor=InlineExecutor(), threads=0, spool_files=3)
    other, other_transport = harness.connect()
    connection.data_received(GET)
    other.data_received(GET)
    assert harness.budgets.spool_file_count == 2 and len(harness.loop.writers) == 1
    octets = [b"", b""]
    for _ in range(1000):
        octets = [have + one.received() for have, one in zip(octets, (transport, other_transport))]
        harness.loop.turn()
    assert [body_of(one) == content_of(file) for one in octets] == [True, True]
    assert harness.budgets.spool_file_count == 0 and harness.budgets.refused_count == 1


@needs_sendfile
def test_a_file_whose_close_fails(new, file, caplog):
    """An iterable that fails in close() spoils nothing: its response is out."""

    class Wrapped:  # as Django's File
        read = file.read

        def close(self):
            raise ValueError("meant")

    harness, connection, _ = new(returning(FileWrapper(Wrapped())))
    connection.data_received(GET)
    harness.executor.run_job()
    file.close()
    harness.executor.run()
    assert "raised in close()" in caplog.text


# --threads 0


def test_inline_pieces(new):
    """Without threads, a stream is stepped by the loop."""
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
    """A client that does not read stops the iterable; it goes on when there is room."""
    chunks = Chunks(*[b"x" * 1000] * 10)
    _, connection, transport = new(returning(chunks), executor=InlineExecutor(), threads=0)
    transport.high, transport.is_stuck = 2500, True
    connection.data_received(GET)
    assert chunks.made == 3
    transport.unstick()
    assert body_of(transport.received()).count(b"x") == 10_000 and chunks.closed == 1


@pytest.mark.parametrize("is_stuck", [False, True])
def test_inline_pieces_of_a_client_that_leaves(new, is_stuck):
    """The iterable is closed when the client has gone, whatever it waited for."""
    chunks = Chunks(*[b"x" * 1000] * 200)
    harness, connection, transport = new(returning(chunks), executor=InlineExecutor(), threads=0)
    harness.service.access_log = harness.log
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


def test_inline_write(new):
    """write() without threads cannot wait; what it writes goes to the transport."""

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
