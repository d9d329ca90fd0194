"""From the app's reply to the client: in order, and at the client's pace."""

from __future__ import annotations

import errno
import os
import socket
import tempfile
import threading
import time

import pytest
from harness.replies import GET, GET_1_0, POST, POST_1_0, Chunks, body_of, is_cut, is_reset, returning

from aserve import spool as spool_module
from aserve.connections import sending as sending_module
from aserve.connections import writing as writing_module
from aserve.errors import ClientDisconnected, WrittenOff
from aserve.exchange import Exchange
from aserve.workers.inline import InlineExecutor
from aserve.wsgi import FileWrapper

# The last one out writes for itself


def test_the_last_one_out_writes_for_itself(new):
    """With nothing else on its way, a worker's response is out before the loop knows of it."""
    bench, connection, transport = new(returning([b"hello"]))
    connection.data_received(GET)
    bench.executor.run_job()
    assert body_of(transport.received()) == b"hello"
    bench.executor.run()
    assert transport.received() == b""
    connection.data_received(GET)
    bench.executor.run_job()
    assert body_of(transport.received()) == b"hello"


def test_a_stream_writes_for_itself_too(new):
    """So are the pieces of a stream."""
    bench, connection, transport = new(returning(iter([b"a", b"b"])))
    connection.data_received(GET)
    bench.executor.run_job()
    assert body_of(transport.received()) == b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n"
    bench.executor.run()
    assert not transport.is_closing()


def test_the_loop_writes_when_it_is_awake_anyway(new):
    """With other jobs waiting, the loop writes for all of them at once."""
    bench, connection, transport = new(returning([b"hello"]))
    _, other = bench.connect()
    connection.data_received(GET)
    other.protocol.data_received(GET)
    bench.executor.run_job()
    assert transport.received() == b""
    bench.executor.run()
    assert body_of(transport.received()) == body_of(other.received()) == b"hello"


@pytest.mark.parametrize("raw", [POST, GET_1_0, GET + GET])
def test_the_loop_writes_when_it_must_see_the_end(new, raw):
    """A body to free, a connection to close, a request that waits: the end is the loop's."""
    bench, connection, transport = new(returning([b"hello"]))
    connection.data_received(raw)
    bench.executor.run_job()
    assert transport.received() == b""
    bench.executor.run()
    assert body_of(transport.received()).startswith(b"hello")


@pytest.mark.parametrize("is_list", [True, False])
def test_nothing_overtakes_what_the_transport_holds(new, is_list):
    """As long as the transport holds octets of an earlier response, all others go behind them."""
    bench, connection, transport = new(lambda environ, start: app(environ, start))
    bodies = [[b"first"], [b"second"] if is_list else iter([b"second"])]

    def app(environ, start_response):
        start_response("200 OK", [])
        return bodies.pop(0)

    transport.is_stuck = True
    connection.data_received(POST)
    bench.executor.run()
    connection.data_received(GET)
    bench.executor.run()
    assert transport.received() == b""
    transport.unstick()
    octets = transport.received()
    assert 0 < octets.index(b"first") < octets.index(b"second")


def test_early_hints_are_not_overtaken(new):
    """A response right behind early hints does not pass them on their way through the loop."""

    def app(environ, start_response):
        environ["wsgi.early_hints"]([("Link", "x")])
        start_response("200 OK", [])
        return [b"hello"]

    bench, connection, transport = new(app)
    connection.data_received(POST)  # by way of the loop
    bench.executor.run_job()
    bench.executor.flush()
    octets = transport.received()
    assert octets.startswith(b"HTTP/1.1 103 ") and octets.count(b"HTTP/1.1 200 OK") == 1


def test_a_post_in_the_loops_hands_is_not_overtaken(new):
    """A piece that the loop has taken from the queue and not yet written is still in front."""

    def app(environ, start_response):
        environ["wsgi.early_hints"]([("Link", "x" * 70000)])  # too large for a worker to write
        in_hand.append(bench.executor.posts.pop(0))  # the loop has begun to bring it home
        start_response("200 OK", [])
        return [b"hello"]

    in_hand = []
    bench, connection, transport = new(app)
    connection.data_received(GET)
    bench.executor.run_job()
    function, first, second = in_hand.pop()
    function(first, second)
    bench.executor.run()
    octets = transport.received()
    assert octets.startswith(b"HTTP/1.1 103 ") and body_of(body_of(octets)) == b"hello"


def small_socket_buffer(transport):
    transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)


@pytest.mark.parametrize(
    ("app", "length"),
    [
        (lambda: returning([b"x" * 60_000]), 60_000),
        (lambda: returning(iter([b"x" * 60_000, b"y"]), [("Content-Length", "60001")]), 60_001),
    ],
)
def test_what_the_socket_does_not_take(new, app, length):
    """The rest of a response that the socket does not take at once goes through the transport."""
    bench, connection, transport = new(app())
    small_socket_buffer(transport)
    connection.data_received(GET)
    bench.executor.run()
    assert transport.held
    assert len(body_of(transport.received())) == length
    connection.data_received(GET)
    assert len(bench.executor.jobs) == 1


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ECONNRESET])
def test_a_socket_that_takes_nothing(new, number, monkeypatch):
    """What the socket refuses is left to the transport, which knows what to do."""

    def refuse(fd, octets):
        raise OSError(number, os.strerror(number))

    bench, connection, transport = new(returning([b"hello"]))
    connection.data_received(GET)
    with monkeypatch.context() as patch:
        patch.setattr(sending_module.os, "write", refuse)
        bench.executor.run_job()
    assert bench.executor.waking == [] and transport.received() == b""
    bench.executor.run()
    assert body_of(transport.received()) == b"hello"


def test_the_access_log_of_a_direct_write(new):
    """A response that the loop has not seen is logged all the same."""
    bench, connection, _ = new(returning([b"hello"]))
    bench.service.access_log = bench.log
    connection.data_received(GET)
    bench.executor.run()
    assert bench.log.codes == [200]


# Back-pressure


def test_a_large_body_waits_in_pieces(new):
    """Of a large body, the transport holds a piece at a time; the next request is answered after it."""
    body = os.urandom(3_000_000)
    bench, connection, transport = new(returning([body]))
    transport.is_stuck = True
    connection.data_received(GET)
    bench.executor.run()
    assert len(transport.held) < 2 * writing_module.PIECE_BYTES
    connection.data_received(GET)
    assert bench.executor.jobs == []
    transport.unstick()
    octets = transport.received()
    assert body_of(octets) == body
    bench.executor.run()
    assert body_of(transport.received()) == body


def test_a_client_that_leaves_a_large_body(new):
    """The rest of a large body is let go of when the client has gone."""
    bench, connection, transport = new(returning([bytes(3_000_000)]))
    bench.service.access_log = bench.log
    transport.is_stuck = True
    connection.data_received(GET)
    bench.executor.run()
    assert bench.service.budgets.memory.count == 3_000_000
    transport.lose()
    bench.executor.run()
    assert bench.log.codes == [200] and bench.service.connections == set()
    assert bench.service.budgets.memory.count == 0


@pytest.mark.parametrize("reply", [[bytes(100_000)], [b"small"], "pieces", "file"])
def test_a_client_that_has_left_already(new, reply, tmp_path):
    """Whatever the app replies to a client that has gone, it is dropped, closed and logged."""
    file = open(tmp_path / "x", "w+b")
    file.write(b"abc")
    file.seek(0)
    closing = Chunks(b"a", b"b")
    value = closing if reply == "pieces" else FileWrapper(file) if reply == "file" else reply
    bench, connection, transport = new(returning(value))
    bench.service.access_log = bench.log
    connection.data_received(POST)
    transport.lose()
    bench.executor.run()
    assert len(bench.log.codes) == 1
    assert closing.closed == (reply == "pieces") and file.closed == (reply == "file")
    file.close()


def start_blocked(bench, connection, chunks, raw=POST):
    """Start a worker on a request whose client does not read; return it when it must be waiting."""
    connection.data_received(raw)
    worker = threading.Thread(target=bench.executor.run_job, daemon=True)
    worker.start()
    for _ in range(2):
        assert chunks.is_made.acquire(timeout=10)
    while len(bench.executor.posts) < 2:
        pass
    return worker


def test_an_app_waits_for_its_client(new):
    """Over --write-buffer, and without a spool, the app's thread waits until the client has read."""
    chunks = Chunks(*[b"x" * 1000] * 10)
    bench, connection, transport = new(returning(chunks), write_buffer_bytes=2048, response_spool_bytes=0)
    transport.high, transport.is_stuck = 500, True
    worker = start_blocked(bench, connection, chunks)
    bench.executor.flush()  # the transport is full now
    assert worker.is_alive() and chunks.made == 2
    transport.unstick()
    while worker.is_alive():
        bench.executor.flush()
    bench.executor.run()
    octets = transport.received()
    assert body_of(octets).count(b"x") == 10_000 and octets.endswith(b"0\r\n\r\n")
    assert chunks.closed == 1 and not transport.is_closing()


def test_an_app_that_waits_goes_on_when_the_loop_has_caught_up(new):
    """What a worker waits for may be the loop alone: a client that reads holds up nothing."""
    chunks = Chunks(*[b"x" * 1000] * 10)
    bench, connection, transport = new(returning(chunks), write_buffer_bytes=2048)
    worker = start_blocked(bench, connection, chunks)
    while worker.is_alive():
        bench.executor.flush()
    bench.executor.run()
    assert body_of(transport.received()).count(b"x") == 10_000


@pytest.mark.parametrize("is_flushed", [False, True])
def test_a_waiting_app_is_told_that_its_client_has_left(new, is_flushed):
    """A worker that waits for a client that goes away is woken, and its iterable closed."""
    chunks = Chunks(*[b"x" * 1000] * 10)
    bench, connection, transport = new(returning(chunks), write_buffer_bytes=2048, response_spool_bytes=0)
    transport.high, transport.is_stuck = 500, True
    worker = start_blocked(bench, connection, chunks)
    if is_flushed:
        bench.executor.flush()
    transport.lose()
    worker.join(10)
    assert not worker.is_alive() and chunks.closed == 1 and chunks.made == 2
    bench.executor.run()


def test_write_waits_for_the_client_too(new):
    """write() is back-pressure as the iterable is; who leaves is an exception of the app's."""
    faults = []
    written = Chunks()

    def app(environ, start_response):
        write = start_response("200 OK", [])
        try:
            for _ in range(10):
                written.is_made.release()
                write(b"x" * 1000)
        except ClientDisconnected as exc:
            faults.append(exc)
            raise
        return []

    bench, connection, transport = new(app, write_buffer_bytes=2048, response_spool_bytes=0)
    transport.high, transport.is_stuck = 500, True
    worker = start_blocked(bench, connection, written)
    transport.lose()
    worker.join(10)
    assert not worker.is_alive() and len(faults) == 1


def test_a_slow_client_gets_one_response_at_a_time(new):
    """A client that sends on without reading has no more responses made for it."""
    bench, connection, transport = new(returning([b"x" * 100_000]))
    transport.is_stuck = True
    connection.data_received(GET * 3)
    bench.executor.run()
    assert bench.executor.jobs == [] and len(transport.held) < 200_000
    transport.unstick()
    octets = transport.received()
    while bench.executor.jobs:
        bench.executor.run()
        octets += transport.received()
    assert octets.count(b"HTTP/1.1 200 OK") == 3


def test_the_end_of_a_large_body(new):
    """What is left with the transport does not keep the whole of it."""
    bench, connection, transport = new(returning([bytes(3_000_000)]))
    kinds = []
    write = transport.write
    transport.write = lambda octets: kinds.append(type(octets)) or write(octets)
    connection.data_received(GET)
    bench.executor.run()
    assert len(body_of(transport.received())) == 3_000_000
    assert kinds[0] is bytes  # the head
    assert kinds[1:] == [memoryview] * 10 + [bytes] * 2


@pytest.mark.parametrize("raw", [GET, b"GET / HTTP/1.0\r\n\r\n"])
def test_a_large_piece_at_the_end(new, raw):
    """It is counted until the transport has room again, also where the connection closes behind it."""
    bench, connection, transport = new(returning(iter([bytes(3_000_000)]), [("Content-Length", "3000000")]))
    transport.is_stuck = True
    connection.data_received(raw)
    worker = threading.Thread(target=bench.executor.run_job, daemon=True)
    worker.start()
    go_on(bench, worker)
    assert bench.service.budgets.memory.count > 3_000_000
    assert len(body_of(read_all(bench, transport))) == 3_000_000 and bench.service.budgets.memory.count == 0


@pytest.mark.parametrize("spool_bytes", [0, 2_999_999])
def test_large_bodies_without_a_spool_for_them(new, spool_bytes):
    """Where the disk may not take it, a body waits in memory, as no worker should wait instead."""
    app = returning([bytes(3_000_000)])
    bench, _, transport, worker = start_stuck(new, app, GET, response_spool_bytes=spool_bytes, response_memory_bytes=0)
    assert not worker.is_alive() and bench.service.budgets.memory.count == 3_000_000
    assert len(body_of(read_all(bench, transport))) == 3_000_000 and bench.service.budgets.memory.count == 0


def test_what_comes_behind_the_end_is_not_counted(new):
    """A second thread of the app's may write when the exchange has ended."""
    bench, connection, _ = new(returning([b""]))
    assert connection._reserve_memory(Exchange("", 0), 3_000_000) and bench.service.budgets.memory.count == 0


def test_large_bodies_with_threads_0(new):
    """There is no thread that could take one to the disk: it waits in memory, however many do."""
    body = os.urandom(3_000_000)
    bench, connection, transport = new(returning([body]), executor=InlineExecutor(), threads=0, response_memory_bytes=0)
    transport.is_stuck = True
    connection.data_received(GET)
    assert bench.service.budgets.memory.count == len(body)
    transport.unstick()
    assert body_of(transport.received()) == body and bench.service.budgets.memory.count == 0


# The spool


@pytest.fixture
def files(monkeypatch):
    """The temporary files that are made; all are closed in the end."""
    made = []
    real = tempfile.TemporaryFile

    def make(**options):
        made.append(real(**options))
        return made[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", make)
    yield made
    assert all(file.closed for file in made), "a file was left open"


def numbered(count, first=0):
    """Pieces of 1000 octets that differ."""
    return [b"%04d" % number * 250 for number in range(first, first + count)]


def start_stuck(new, app, raw=POST, is_inside=False, **settings):
    """Let a worker answer a client that does not read; return when the worker is done, or waits for good."""
    settings.setdefault("write_buffer_bytes", 2048)
    bench, connection, transport = new(app, **settings)
    bench.service.access_log = bench.log
    transport.high, transport.is_stuck = 500, True
    connection.data_received(raw)
    worker = threading.Thread(target=bench.executor.run_job, daemon=True)
    worker.start()
    go_on(bench, worker, lambda: is_inside and connection._room is not None and connection._is_write_paused)
    return bench, connection, transport, worker


def go_on(bench, worker, is_enough=lambda: False):
    """Turn the loop until the worker is done, or it is enough."""
    deadline = time.monotonic() + 10
    while True:
        is_over = not worker.is_alive() or (is_enough() and not bench.executor.posts)
        bench.executor.flush()
        bench.loop.turn()
        if is_over:
            return
        assert time.monotonic() < deadline, "the worker hangs"


def read_all(bench, transport):
    """The client reads on until nothing more comes."""
    transport.unstick()
    octets = b""
    while True:
        bench.executor.flush()
        bench.loop.turn()
        more = transport.received()
        if not more and not bench.executor.posts and not bench.loop.soon:
            return octets
        octets += more


def read_to_the_end(bench, transport, worker):
    """The client reads until the app is done, and then the rest."""
    octets = b""
    while worker.is_alive():
        octets += read_all(bench, transport)
    return octets + read_all(bench, transport)


def test_a_slow_client_holds_no_worker(new, files):
    """The app is done, its iterable closed, before the client has read; then all comes, in order."""
    chunks = Chunks(*numbered(100))
    bench, connection, transport, worker = start_stuck(new, returning(chunks, [("Content-Length", "100000")]))
    assert not worker.is_alive() and chunks.closed == 1
    assert len(files) == 1 and not files[0].closed and len(transport.held) < 10_000
    assert bench.log.codes == []
    assert body_of(read_all(bench, transport)) == b"".join(numbered(100))
    assert files[0].closed and bench.log.codes == [200]
    connection.data_received(POST)  # the connection lives on
    assert len(bench.executor.jobs) == 1


@pytest.mark.parametrize("raw", [b"POST / HTTP/1.0\r\nContent-Length: 1\r\n\r\nx", GET + GET])
def test_what_comes_behind_the_spool(new, files, raw):
    """The end of the connection, or the next request, waits until the client has all."""
    bodies = [iter(numbered(20)), [b"next"]]
    bench, _, transport, _ = start_stuck(new, lambda environ, start: returning(bodies.pop(0))(environ, start), raw)
    assert transport.calls == [] and bench.executor.jobs == []
    octets = read_all(bench, transport)
    assert octets.count(b"0019") == 250
    if raw != GET + GET:
        assert octets.endswith(numbered(20)[-1]) and transport.calls[0] == "write_eof"
    else:
        bench.executor.run()
        assert body_of(transport.received()) == b"next"


def test_write_goes_to_the_spool_too(new, files):
    """So do the blocks of write()."""

    def app(environ, start_response):
        write = start_response("200 OK", [("Content-Length", "50004")])
        for octets in numbered(50):
            write(octets)
        return [b"last"]

    bench, _, transport, worker = start_stuck(new, app)
    assert not worker.is_alive() and len(files) == 1
    assert body_of(read_all(bench, transport)) == b"".join(numbered(50)) + b"last"


def test_a_client_that_reads_is_not_sent_to_the_disk(new, files):
    """A worker that is ahead of the loop alone waits for the loop."""
    bench, connection, transport = new(returning(iter(numbered(100))), write_buffer_bytes=2048)
    connection.data_received(POST)
    worker = threading.Thread(target=bench.executor.run_job, daemon=True)
    worker.start()
    octets = bytearray()

    def read():
        octets.extend(transport.received())

    go_on(bench, worker, read)
    bench.executor.run()
    read()
    assert octets.count(b"0099") == 250 and files == []


def test_from_memory_to_the_disk_and_back(new, files):
    """Read empty, the spool is left; when the client stops again, it is used again."""
    steps = [threading.Event(), threading.Event()]
    pieces = numbered(90)

    def body():
        yield from pieces[:30]
        assert steps[0].wait(10)
        yield pieces[30]
        assert steps[1].wait(10)
        yield from pieces[31:]

    bench, connection, transport = new(returning(body(), [("Content-Length", "90000")]), write_buffer_bytes=2048)
    transport.high, transport.is_stuck = 500, True
    connection.data_received(POST)
    exchange = connection.exchange
    worker = threading.Thread(target=bench.executor.run_job, daemon=True)
    worker.start()
    go_on(bench, worker, lambda: exchange.spool is not None and exchange.spool.waiting_bytes >= 25_000)
    assert exchange.spool.is_begun
    octets = read_all(bench, transport)
    while exchange.spool.is_begun:
        octets += read_all(bench, transport)
    steps[0].set()
    steps[1].set()
    transport.is_stuck = True
    go_on(bench, worker)
    assert exchange.spool.waiting_bytes and len(files) == 1
    assert "leave" in bench.executor.slices  # of the piece that went by memory
    assert body_of(octets + read_all(bench, transport)) == b"".join(pieces)


def test_who_fills_the_spool_gives_way(new, files):
    """Before each piece for the spool, others go first; who waits for its client has no turn."""
    chunks = Chunks(*numbered(20))
    app = returning(chunks, [("Content-Length", "20000")])
    bench, _, transport, worker = start_stuck(new, app, is_inside=True, response_spool_bytes=5000)
    assert bench.executor.slices == ["yield"] * 6 + ["leave"]  # five pieces are in the spool, the sixth has no room
    assert len(body_of(read_to_the_end(bench, transport, worker))) == 20_000


@pytest.mark.parametrize("limit_bytes", [0, 2_999_999, 3_000_000])
def test_large_bodies_beyond_the_memory_for_them(new, files, limit_bytes):
    """Where those of other clients fill the memory, a large body goes to the disk, all but its first part, in one go."""
    body = os.urandom(3_000_000)
    app = returning([body])
    bench, connection, transport, worker = start_stuck(new, app, GET, response_memory_bytes=limit_bytes)
    assert not worker.is_alive()
    is_held = limit_bytes == 3_000_000
    assert len(files) == (not is_held) and bench.service.budgets.memory.count == is_held * len(body)
    assert len(transport.held) < sending_module.PART_BYTES + 1000
    assert bench.executor.slices == []  # a body that waits for its turn would be in memory
    assert body_of(read_all(bench, transport)) == body
    assert bench.service.budgets.memory.count == 0 and bench.log.codes == [200]


@pytest.mark.parametrize("how", ["generator", "write"])
def test_a_large_piece_beyond_the_memory_for_them(new, files, how):
    """A client that is behind has the first part of it in memory, and the rest on the disk."""
    piece = os.urandom(3_000_000)

    def writing(environ, start_response):
        start_response("200 OK", [("Content-Length", "6000000")])(piece)
        return [piece]

    app = writing if how == "write" else returning(iter([piece, piece]), [("Content-Length", "6000000")])
    bench, _, transport, worker = start_stuck(new, app, GET, response_memory_bytes=2_999_999)
    assert not worker.is_alive() and len(files) == 1 and bench.service.budgets.memory.count == 0
    assert len(transport.held) < sending_module.PART_BYTES + 1000
    assert bench.executor.slices == ["yield"]  # before the second piece
    assert body_of(read_all(bench, transport)) == piece + piece


def test_large_pieces_in_memory(new, files):
    """While there is room for the largest of them, they go as they are; what it is larger than the others is counted."""
    pieces = [os.urandom(size) for size in (2_000_000, 3_000_000, 2_500_000)]
    app = returning(iter(pieces), [("Content-Length", "7500000")])
    bench, connection, transport = new(app, response_memory_bytes=3_000_000)
    connection.data_received(POST)
    held, taken = bench.service.budgets.memory, []
    take = held.take
    held.take = lambda count, is_forced: taken.append(count) or take(count, is_forced)
    worker = threading.Thread(target=bench.executor.run_job, daemon=True)
    worker.start()
    assert body_of(read_to_the_end(bench, transport, worker)) == b"".join(pieces)
    assert sum(taken) == 3_000_000 and len(taken) == 2 and held.count == 0


def test_who_needs_no_spool_keeps_its_slot(new, files):
    """A client that reads has its response made at once."""
    bench, connection, transport = new(returning(iter(numbered(20)), [("Content-Length", "20000")]))
    connection.data_received(GET)
    bench.executor.run()
    assert len(transport.received()) > 20_000 and bench.executor.slices == []


def test_the_limit_of_the_spool(new, files):
    """A full spool is back-pressure: the app waits for its client after all, and goes on."""
    chunks = Chunks(*numbered(100))
    app = returning(chunks, [("Content-Length", "100000")])
    bench, _, transport, worker = start_stuck(new, app, is_inside=True, response_spool_bytes=10_500)
    assert worker.is_alive() and chunks.made < 20
    octets = read_to_the_end(bench, transport, worker)
    assert body_of(octets) == b"".join(numbered(100))


def test_pieces_larger_than_the_spool(new, files):
    """What the spool can never hold goes by memory, one piece at a time."""
    chunks = Chunks(*numbered(20))
    app = returning(chunks, [("Content-Length", "20000")])
    bench, _, transport, worker = start_stuck(new, app, is_inside=True, response_spool_bytes=999)
    assert worker.is_alive() and chunks.made < 6
    octets = read_to_the_end(bench, transport, worker)
    assert body_of(octets) == b"".join(numbered(20)) and files == []


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_full_disk(new, monkeypatch, caplog, is_begun):
    """Where the disk takes no more, the app waits for its client; one line says why; nothing is lost."""
    real = os.pwrite

    def pwrite(fd, octets, at):
        if at >= 5000 * is_begun:
            with open("/dev/full", "wb") as full:
                return real(full.fileno(), octets, at)
        return real(fd, octets, at)

    chunks = Chunks(*numbered(40))
    app = returning(chunks, [("Content-Length", "40000")])
    monkeypatch.setattr(os, "pwrite", pwrite)
    bench, _, transport, worker = start_stuck(new, app, is_inside=True)
    assert worker.is_alive() and chunks.made < 15
    octets = read_to_the_end(bench, transport, worker)
    assert body_of(octets) == b"".join(numbered(40))
    assert caplog.text.count("--response-spool,") == 1 and "No space left" in caplog.text


def test_a_spool_that_cannot_be_read(new, files, caplog):
    """What the disk has lost cuts the response short, visibly."""
    bench, _, transport, worker = start_stuck(new, returning(iter(numbered(40))))
    os.ftruncate(files[0].fileno(), 0)
    transport.unstick()
    assert is_reset(transport) and "lost in its temporary file" in caplog.text
    assert bench.log.codes == [200] and files[0].closed
    transport.lose()


@pytest.mark.parametrize("is_stuck", [False, True])
@pytest.mark.parametrize("raw", [POST, POST_1_0])
def test_a_failure_behind_the_spool(new, files, raw, is_stuck):
    """A response that fails is sent up to there, and then cut short; by a reset where only the end says so."""
    chunks = Chunks(*numbered(40), error=ValueError("on purpose"))
    bench, _, transport, worker = start_stuck(new, returning(chunks), raw)
    assert not worker.is_alive() and chunks.closed == 1 and not transport.is_closing()
    if is_stuck:  # the transport still holds some when the spool is empty
        small_socket_buffer(transport)
        transport.high = 65536
    octets = read_all(bench, transport)
    assert octets.count(b"0039") == 250 and not octets.endswith(b"0\r\n\r\n")
    assert (is_reset if raw == POST_1_0 else is_cut)(transport) and bench.log.codes == [200]
    transport.lose()


def test_a_failure_behind_a_spool_that_is_empty(new, files):
    """The same where all that was spooled has been sent long since."""
    gate, is_sent = threading.Event(), threading.Event()

    def body():
        yield from numbered(40)
        is_sent.set()
        assert gate.wait(10)
        raise ValueError("on purpose")

    bench, connection, transport = new(returning(body()), write_buffer_bytes=2048)
    transport.high, transport.is_stuck = 500, True
    connection.data_received(POST)
    exchange = connection.exchange
    worker = threading.Thread(target=bench.executor.run_job, daemon=True)
    worker.start()
    go_on(bench, worker, is_sent.is_set)
    assert exchange.spool is not None
    assert read_all(bench, transport).count(b"0039") == 250
    gate.set()
    go_on(bench, worker)
    assert is_cut(transport) and files[0].closed
    transport.lose()


@pytest.mark.parametrize("is_done", [False, True])
def test_a_client_that_leaves_its_spool(new, files, is_done, wait_until):
    """The file is closed at once; an app that still makes pieces is told."""
    gate, is_sent = threading.Event(), threading.Event()
    chunks = Chunks(*numbered(40))

    def body():
        try:
            yield from chunks
            is_sent.set()
            assert is_done or gate.wait(10)
            yield b"more"
        finally:
            chunks.close()

    bench, connection, transport = new(returning(body()), write_buffer_bytes=2048)
    bench.service.access_log = bench.log
    transport.high, transport.is_stuck = 500, True
    connection.data_received(POST)
    worker = threading.Thread(target=bench.executor.run_job, daemon=True)
    worker.start()
    go_on(bench, worker, lambda: not is_done and is_sent.is_set())
    transport.lose()
    wait_until(lambda: files[0].closed)  # at once, unless the worker is writing to it
    assert (bench.log.codes == [200]) == is_done
    gate.set()
    worker.join(10)
    bench.executor.run()
    bench.loop.turn()
    assert not worker.is_alive() and chunks.closed == 1 and bench.log.codes == [200]


def test_a_client_that_leaves_while_the_spool_is_sent(new, files):
    """Between two of its pieces, too."""
    bench, _, transport, _ = start_stuck(new, returning(iter(numbered(600))))
    transport.is_stuck = False
    transport.flush()
    bench.loop.turn()
    assert bench.loop.soon  # the next piece
    transport.lose()
    bench.loop.turn()
    assert files[0].closed and bench.log.codes == [200] and bench.loop.soon == []


def test_a_client_that_does_not_read_its_spool(new, files):
    """--write-timeout is for it, too."""
    _, connection, transport, _ = start_stuck(new, returning(iter(numbered(40))), write_seconds=5)
    for _ in range(7):
        connection.on_second()
    assert "abort" in transport.calls
    transport.lose()
    assert files[0].closed


def test_a_drain_waits_for_the_spool(new, files):
    """The connection is closed when the client has all."""
    bench, connection, transport, _ = start_stuck(new, returning(iter(numbered(40))))
    connection.drain()
    assert transport.calls == []
    assert read_all(bench, transport).endswith(b"0\r\n\r\n")
    assert "write_eof" in transport.calls


def test_a_large_spool_is_closed_by_a_worker(new, files, monkeypatch):
    """The loop has better things to do than to wait for the disk."""
    monkeypatch.setattr(spool_module, "QUICK_CLOSE_BYTES", 10_000)
    bench, _, transport, _ = start_stuck(new, returning(iter(numbered(40))))
    transport.lose()
    assert not files[0].closed
    bench.executor.run()
    assert files[0].closed


def test_early_hints_are_not_spooled(new, files):
    """What comes before the head waits for the client, since the rest may take any way."""
    hints = Chunks()

    def app(environ, start_response):
        for _ in range(10):
            hints.is_made.release()
            environ["wsgi.early_hints"]([("Link", "x" * 1000)])
        start_response("200 OK", [])
        return [b"hello"]

    bench, _, transport, worker = start_stuck(new, app, is_inside=True)
    assert worker.is_alive()
    octets = read_to_the_end(bench, transport, worker)
    assert octets.count(b"HTTP/1.1 103 ") == 10 and octets.endswith(b"hello") and files == []


def test_a_piece_for_the_spool_behind_the_end(new, files):
    """What a second thread of the app spools while the end is on its way is dropped with its exchange."""
    bench, connection, transport, _ = start_stuck(new, returning(iter(numbered(10)), [("Content-Length", "10000")]))
    exchange = connection.exchange
    with pytest.raises(ClientDisconnected):
        connection.send(exchange, b"late")
    assert body_of(read_all(bench, transport)) == b"".join(numbered(10))
    connection._on_spool(exchange)
    with pytest.raises(ClientDisconnected):
        connection.send(exchange, b"late")
    assert transport.received() == b"" and bench.log.codes == [200]


# Deadlines


@pytest.mark.parametrize("is_lazy", [False, True])
def test_a_worker_that_is_written_off(new, is_lazy):
    """It hands over nothing, and the executor hears of it."""

    def app(environ, start_response):
        raise WrittenOff

    def lazy(environ, start_response):
        raise WrittenOff
        yield b""

    bench, connection, _ = new(lazy if is_lazy else app)
    connection.data_received(GET)
    with pytest.raises(WrittenOff):
        bench.executor.run_job()
    assert bench.executor.posts == []


def test_cut(new):
    """Only a response that has begun is cut, and only that of the exchange that is meant."""
    seen = []

    def app(environ, start_response):
        seen.append(exchange := connection.exchange)
        connection.abort_slow_reader(exchange, "too long")
        start_response("200 OK", [])(b"begun")
        connection.abort_slow_reader(None, "not this one")
        assert not is_reset(transport)
        connection.abort_slow_reader(exchange, "too long")
        return []

    bench, connection, transport = new(app)
    connection.data_received(GET)
    bench.executor.run()
    assert is_reset(transport)
    connection.abort_slow_reader(seen[0], "it is over")
