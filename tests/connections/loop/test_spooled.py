"""A slow client's unread octets are in a temporary file: the worker goes on, and the client gets all, in order."""

import os
import threading

import pytest
from harness.replies import GET, POST, POST_1_0, Chunks, body_of, is_cut, is_reset, returning
from harness.slow_clients import go_on, numbered, read_all, read_to_the_end, small_socket_buffer, start_stuck

from aserve.connections.loop import sending as sending_module
from aserve.connections.loop.spooled import send_spooled
from aserve.core import spool as spool_module
from aserve.core.errors import ClientDisconnected


def test_a_slow_client_holds_no_worker(new, files):
    """The app is done, its iterable closed, before the client has read; then all comes, in order."""
    chunks = Chunks(*numbered(100))
    harness, connection, transport, worker = start_stuck(new, returning(chunks, [("Content-Length", "100000")]))
    assert not worker.is_alive() and chunks.closed == 1
    assert len(files) == 1 and not files[0].closed and len(transport.held) < 10_000
    assert harness.log.codes == []
    assert body_of(read_all(harness, transport)) == b"".join(numbered(100))
    assert files[0].closed and harness.log.codes == [200]
    connection.data_received(POST)  # the connection lives on
    assert len(harness.executor.jobs) == 1


@pytest.mark.parametrize("raw", [b"POST / HTTP/1.0\r\nContent-Length: 1\r\n\r\nx", GET + GET])
def test_what_comes_behind_the_spool(new, files, raw):
    """The end of the connection, or the next request, waits until the client has all."""
    bodies = [iter(numbered(20)), [b"next"]]
    harness, _, transport, _ = start_stuck(new, lambda environ, start: returning(bodies.pop(0))(environ, start), raw)
    assert transport.calls == [] and harness.executor.jobs == []
    octets = read_all(harness, transport)
    assert octets.count(b"0019") == 250
    if raw != GET + GET:
        assert octets.endswith(numbered(20)[-1]) and transport.calls[0] == "write_eof"
    else:
        harness.executor.run()
        assert body_of(transport.received()) == b"next"


def test_write_goes_to_the_spool_too(new, files):
    """So do the blocks of write()."""

    def app(environ, start_response):
        write = start_response("200 OK", [("Content-Length", "50004")])
        for octets in numbered(50):
            write(octets)
        return [b"last"]

    harness, _, transport, worker = start_stuck(new, app)
    assert not worker.is_alive() and len(files) == 1
    assert body_of(read_all(harness, transport)) == b"".join(numbered(50)) + b"last"


def test_a_client_that_reads_is_not_sent_to_the_disk(new, files):
    """A worker ahead of the loop alone waits for the loop."""
    harness, connection, transport = new(returning(iter(numbered(100))), write_buffer_bytes=2048)
    connection.data_received(POST)
    worker = threading.Thread(target=harness.executor.run_job, daemon=True)
    worker.start()
    octets = bytearray()

    def read():
        octets.extend(transport.received())

    go_on(harness, worker, read)
    harness.executor.run()
    read()
    assert octets.count(b"0099") == 250 and files == []


def test_from_memory_to_the_disk_and_back(new, files):
    """Read empty, the spool is left; when the client stops again, it is used again."""
    steps = [threading.Event(), threading.Event()]
    pieces, is_spooled = numbered(90), threading.Event()

    def body():
        yield from pieces[:30]
        is_spooled.set()  # before that the worker may be anywhere between memory and spool, as the client reads
        assert steps[0].wait(30)
        yield pieces[30]
        assert steps[1].wait(30)
        yield from pieces[31:]

    harness, connection, transport = new(returning(body(), [("Content-Length", "90000")]), write_buffer_bytes=2048)
    transport.high, transport.is_stuck = 500, True
    connection.data_received(POST)
    exchange = connection.exchange
    worker = threading.Thread(target=harness.executor.run_job, daemon=True)
    worker.start()
    go_on(harness, worker, is_spooled.is_set)
    assert exchange.spool.is_begun and exchange.spool.waiting_bytes >= 25_000
    octets = read_all(harness, transport)
    while exchange.spool.is_begun:
        octets += read_all(harness, transport)
    steps[0].set()
    steps[1].set()
    transport.is_stuck = True
    go_on(harness, worker)
    assert exchange.spool.waiting_bytes and len(files) == 1
    assert "leave" in harness.executor.slices  # of the piece that went by memory
    assert body_of(octets + read_all(harness, transport)) == b"".join(pieces)


def test_who_fills_the_spool_gives_way(new, files):
    """Before each piece for the spool, other requests go first; a worker that waits for its client has no turn."""
    chunks = Chunks(*numbered(20))
    app = returning(chunks, [("Content-Length", "20000")])
    harness, _, transport, worker = start_stuck(new, app, is_inside=True, response_spool_bytes=5000)
    assert harness.executor.slices == ["yield"] * 6 + ["leave"]  # five pieces are in the spool, the sixth has no room
    assert len(body_of(read_to_the_end(harness, transport, worker))) == 20_000


@pytest.mark.parametrize("limit_bytes", [0, 2_999_999, 3_000_000])
def test_large_bodies_beyond_the_memory_for_them(new, files, limit_bytes):
    """Where other clients' bodies fill the memory, a large body goes to the disk, all but its first part, in one go."""
    body = os.urandom(3_000_000)
    app = returning([body])
    harness, connection, transport, worker = start_stuck(new, app, GET, response_memory_bytes=limit_bytes)
    assert not worker.is_alive()
    is_held = limit_bytes == 3_000_000
    assert len(files) == (not is_held) and harness.service.budgets.memory.count == is_held * len(body)
    assert len(transport.held) < sending_module.PART_BYTES + 1000
    assert harness.executor.slices == []  # a body that waits for its turn would be in memory
    assert body_of(read_all(harness, transport)) == body
    assert harness.service.budgets.memory.count == 0 and harness.log.codes == [200]


@pytest.mark.parametrize("is_kept", [True, False])
def test_one_body_for_many_clients(new, files, is_kept):
    """A body kept by the app takes its memory once, and no disk; bodies made anew go to the disk beyond the limit."""
    page, many = os.urandom(300_000), 5

    def app(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [page if is_kept else bytes(bytearray(page))]

    harness, connection, transport, worker = start_stuck(new, app, GET, response_memory_bytes=700_000)
    wires = [(connection, transport)]
    for _ in range(many - 1):
        wires.append(harness.connect())
        wires[-1][1].high, wires[-1][1].is_stuck = 500, True
        wires[-1][0].data_received(GET)
        worker = threading.Thread(target=harness.executor.run_job, daemon=True)
        worker.start()
        go_on(harness, worker)
    memory = harness.service.budgets.memory
    assert memory.count == (300_000 if is_kept else 600_000)
    assert sum(wire.exchange is not None and wire.exchange.spool is not None for wire, _ in wires) == (
        0 if is_kept else many - 2
    )
    for _, transport in wires:
        assert body_of(read_all(harness, transport)) == page
    assert memory.count == 0 and harness.log.codes == [200] * many


@pytest.mark.parametrize("how", ["generator", "write"])
def test_a_large_piece_beyond_the_memory_for_them(new, files, how):
    """A client that is behind has the first part of the piece in memory, and the rest on the disk."""
    piece = os.urandom(3_000_000)

    def writing(environ, start_response):
        start_response("200 OK", [("Content-Length", "6000000")])(piece)
        return [piece]

    app = writing if how == "write" else returning(iter([piece, piece]), [("Content-Length", "6000000")])
    harness, _, transport, worker = start_stuck(new, app, GET, response_memory_bytes=2_999_999)
    assert not worker.is_alive() and len(files) == 1 and harness.service.budgets.memory.count == 0
    assert len(transport.held) < sending_module.PART_BYTES + 1000
    assert harness.executor.slices == ["yield"]  # before the second piece
    assert body_of(read_all(harness, transport)) == piece + piece


def test_large_pieces_in_memory(new, files):
    """Pieces with room are counted until the client has them; pieces on the disk are not."""
    pieces = [os.urandom(size) for size in (2_000_000, 3_000_000, 2_500_000)]
    app = returning(iter(pieces), [("Content-Length", "7500000")])
    harness, connection, transport = new(app, response_memory_bytes=3_000_000)
    connection.data_received(POST)
    held, counts = harness.service.budgets.memory, []
    take = held.reserve
    held.reserve = lambda count, is_forced: take(count, is_forced) and (counts.append(held.count) or True)
    worker = threading.Thread(target=harness.executor.run_job, daemon=True)
    worker.start()
    assert body_of(read_to_the_end(harness, transport, worker)) == b"".join(pieces)
    assert counts and max(counts) <= 3_000_000 and held.count == 0


def test_who_needs_no_spool_keeps_its_slot(new, files):
    """A reading client has its response made at once."""
    harness, connection, transport = new(returning(iter(numbered(20)), [("Content-Length", "20000")]))
    connection.data_received(GET)
    harness.executor.run()
    assert len(transport.received()) > 20_000 and harness.executor.slices == []


@pytest.mark.parametrize(("spool_bytes", "count", "most"), [(10_500, 100, 20), (999, 20, 6)], ids=["full", "too small"])
def test_the_limit_of_the_spool(new, files, spool_bytes, count, most):
    """A full spool is back-pressure: the app waits for its client, and goes on. A piece too large for the spool goes by memory."""
    chunks = Chunks(*numbered(count))
    app = returning(chunks, [("Content-Length", f"{count}000")])
    harness, _, transport, worker = start_stuck(new, app, is_inside=True, response_spool_bytes=spool_bytes)
    assert worker.is_alive() and chunks.made < most
    octets = read_to_the_end(harness, transport, worker)
    assert body_of(octets) == b"".join(numbered(count)) and len(files) == (spool_bytes > 1000)


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
    harness, _, transport, worker = start_stuck(new, app, is_inside=True)
    assert worker.is_alive() and chunks.made < 15
    octets = read_to_the_end(harness, transport, worker)
    assert body_of(octets) == b"".join(numbered(40))
    assert caplog.text.count("--response-spool,") == 1 and "No space left" in caplog.text


def test_a_spool_that_cannot_be_read(new, files, caplog):
    """Octets lost by the disk cut the response short, visibly."""
    harness, _, transport, worker = start_stuck(new, returning(iter(numbered(40))))
    os.ftruncate(files[0].fileno(), 0)
    transport.unstick()
    assert is_reset(transport) and "lost in its temporary file" in caplog.text
    assert harness.log.codes == [200] and files[0].closed
    transport.lose()


@pytest.mark.parametrize("is_stuck", [False, True])
@pytest.mark.parametrize("raw", [POST, POST_1_0])
def test_a_failure_behind_the_spool(new, files, raw, is_stuck):
    """A failing response is sent up to the failure, and then cut short; by a reset where only the end says so."""
    chunks = Chunks(*numbered(40), error=ValueError("on purpose"))
    harness, _, transport, worker = start_stuck(new, returning(chunks), raw)
    assert not worker.is_alive() and chunks.closed == 1 and not transport.is_closing()
    if is_stuck:  # the transport still holds some when the spool is empty
        small_socket_buffer(transport)
        transport.high = 65536
    octets = read_all(harness, transport)
    assert octets.count(b"0039") == 250 and not octets.endswith(b"0\r\n\r\n")
    assert (is_reset if raw == POST_1_0 else is_cut)(transport) and harness.log.codes == [200]
    transport.lose()


def test_a_failure_behind_a_spool_that_is_empty(new, files):
    """The same where all spooled octets have been sent long since."""
    gate, is_sent = threading.Event(), threading.Event()

    def body():
        yield from numbered(40)
        is_sent.set()
        assert gate.wait(30)
        raise ValueError("on purpose")

    harness, connection, transport = new(returning(body()), write_buffer_bytes=2048)
    transport.high, transport.is_stuck = 500, True
    connection.data_received(POST)
    exchange = connection.exchange
    worker = threading.Thread(target=harness.executor.run_job, daemon=True)
    worker.start()
    go_on(harness, worker, is_sent.is_set)
    assert exchange.spool is not None
    assert read_all(harness, transport).count(b"0039") == 250
    gate.set()
    go_on(harness, worker)
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
            assert is_done or gate.wait(30)
            yield b"more"
        finally:
            chunks.close()

    harness, connection, transport = new(returning(body()), write_buffer_bytes=2048)
    harness.service.ends = harness.log
    transport.high, transport.is_stuck = 500, True
    connection.data_received(POST)
    worker = threading.Thread(target=harness.executor.run_job, daemon=True)
    worker.start()
    go_on(harness, worker, lambda: not is_done and is_sent.is_set())
    transport.lose()
    wait_until(lambda: files[0].closed)  # at once, unless the worker is writing to it
    assert (harness.log.codes == [200]) == is_done
    gate.set()
    worker.join(30)
    harness.executor.run()
    harness.loop.turn()
    assert not worker.is_alive() and chunks.closed == 1 and harness.log.codes == [200]


def test_a_client_that_leaves_while_the_spool_is_sent(new, files):
    """Between two pieces, too."""
    harness, _, transport, _ = start_stuck(new, returning(iter(numbered(600))))
    transport.is_stuck = False
    transport.flush()
    harness.loop.turn()
    assert harness.loop.soon  # the next piece
    transport.lose()
    harness.loop.turn()
    assert files[0].closed and harness.log.codes == [200] and harness.loop.soon == []


def test_a_client_that_does_not_read_its_spool(new, files):
    """--write-timeout is for a spool's client, too."""
    _, connection, transport, _ = start_stuck(new, returning(iter(numbered(40))), write_seconds=5)
    for _ in range(7):
        connection.on_second()
    assert "abort" in transport.calls
    transport.lose()
    assert files[0].closed


def test_a_drain_waits_for_the_spool(new, files):
    """The connection is closed when the client has all."""
    harness, connection, transport, _ = start_stuck(new, returning(iter(numbered(40))))
    connection.drain()
    assert transport.calls == []
    assert read_all(harness, transport).endswith(b"0\r\n\r\n")
    assert "write_eof" in transport.calls


def test_a_large_spool_is_closed_by_a_worker(new, files, monkeypatch):
    """The loop has better things to do than to wait for the disk."""
    monkeypatch.setattr(spool_module, "QUICK_CLOSE_BYTES", 10_000)
    harness, _, transport, _ = start_stuck(new, returning(iter(numbered(40))))
    transport.lose()
    assert not files[0].closed
    harness.executor.run()
    assert files[0].closed


def test_early_hints_are_not_spooled(new, files):
    """Early hints wait for the client, since the rest may take any way."""
    hints = Chunks()

    def app(environ, start_response):
        for _ in range(10):
            hints.is_made.release()
            environ["wsgi.early_hints"]([("Link", "x" * 1000)])
        start_response("200 OK", [])
        return [b"hello"]

    harness, _, transport, worker = start_stuck(new, app, is_inside=True)
    assert worker.is_alive()
    octets = read_to_the_end(harness, transport, worker)
    assert octets.count(b"HTTP/1.1 103 ") == 10 and octets.endswith(b"hello") and files == []


def test_a_piece_for_the_spool_behind_the_end(new, files):
    """A second thread's late piece for the spool is dropped with its exchange."""
    harness, connection, transport, _ = start_stuck(new, returning(iter(numbered(10)), [("Content-Length", "10000")]))
    exchange = connection.exchange
    with pytest.raises(ClientDisconnected):
        connection.send(exchange, b"late")
    assert body_of(read_all(harness, transport)) == b"".join(numbered(10))
    send_spooled(connection._outbox, exchange)
    with pytest.raises(ClientDisconnected):
        connection.send(exchange, b"late")
    assert transport.received() == b"" and harness.log.codes == [200]
