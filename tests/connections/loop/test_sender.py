"""A body to a socket past its transport: whole, behind its head, in turns, and with a word at the end in every case."""

import os

import pytest
from harness.fakes import Writers

from aserve.connections.loop.sender import PIECE_BYTES, MemorySender, Sender, keep_rest, pieces_of
from aserve.connections.loop.sendfile import HAS_SENDFILE, FileSender
from aserve.core.errors import ClientDisconnected, ResponseTruncated

LARGE = 3_000_000  # more than a socket takes


@pytest.fixture(
    params=["memory", pytest.param("file", marks=pytest.mark.skipif(not HAS_SENDFILE, reason="no sendfile"))]
)
def new(request, socket_ends, tmp_path):
    """Make a sender of this body: new(head, body) -> sender, loop, ends."""
    opened = []

    def make(head, body):
        loop, ends, fd = Writers(), [], socket_ends[0].fileno()
        if request.param == "memory":
            return MemorySender(loop, fd, head, body, ends.append), loop, ends
        (tmp_path / "file").write_bytes(body)
        opened.append(open(tmp_path / "file", "rb"))
        return FileSender(loop, fd, head, opened[0], 0, len(body), ends.append), loop, ends

    yield make
    for file in opened:
        file.close()


def received(peer):
    octets = bytearray()
    while True:
        try:
            piece = peer.recv(1 << 20)
        except BlockingIOError:
            return bytes(octets)
        if not piece:
            return bytes(octets)
        octets += piece


@pytest.mark.parametrize("size", [0, 1, 100_000])
def test_what_the_socket_takes(new, socket_ends, size):
    """The body goes at once: the loop has nothing to watch, and the transport's descriptor stays open."""
    body = os.urandom(size)
    sender, loop, ends = new(b"head", body)
    sender.start()
    assert ends == [None] and loop.callbacks == {}
    assert socket_ends[0].send(b"x") == 1 and received(socket_ends[1]) == b"head" + body + b"x"


def test_more_than_the_socket_takes(new, socket_ends):
    """The sender waits for room; nothing is lost or repeated."""
    body = os.urandom(LARGE)
    sender, loop, ends = new(b"head", body)
    sender.start()
    assert ends == [] and len(loop.callbacks) == 1
    got = b""
    while not ends:
        got += received(socket_ends[1])
        loop.turn()
    assert ends == [None] and got + received(socket_ends[1]) == b"head" + body


def test_a_head_that_the_socket_does_not_take(new, socket_ends):
    """The head waits, too, and so does the body behind it."""
    with pytest.raises(BlockingIOError):
        while True:
            socket_ends[0].send(bytes(1 << 16))
    sender, loop, ends = new(b"head", b"body")
    sender.start()
    assert ends == [] and sender.take_progress() == 0
    got = b""
    while not ends:
        got += received(socket_ends[1])
        loop.turn()
    assert (got + received(socket_ends[1])).lstrip(b"\0") == b"headbody"


def test_turns_are_bounded():
    """A socket that takes everything does not keep the loop from others."""
    calls, loop, ends = [], Writers(), []
    read_end, write_end = os.pipe()

    class Eager(Sender):
        most_bytes = 4

        def _send_part(self, offset, count):
            calls.append((offset, count))
            return count

    Eager(loop, write_end, b"", 0, 10, ends.append).start()
    assert calls == [(0, 4)]
    loop.turn()
    loop.turn()
    assert calls == [(0, 4), (4, 4), (8, 2)] and ends == [None]
    os.close(read_end)
    os.close(write_end)


def test_progress_keeps_a_slow_reader_alive(new, socket_ends):
    """Octets moved since the last look keep a slow reader alive."""
    sender, loop, _ = new(b"head", bytes(LARGE))
    sender.start()
    assert sender.take_progress() > 0 and sender.take_progress() == 0
    loop.turn()
    assert not sender.take_progress()
    received(socket_ends[1])
    loop.turn()
    assert sender.take_progress()
    sender.cancel()


def test_a_client_that_leaves(new, socket_ends):
    """A leave is the client's doing, told once."""
    socket_ends[1].close()
    sender, loop, ends = new(b"head", b"0123456789")
    sender.start()
    assert [type(end) for end in ends] == [ClientDisconnected] and loop.callbacks == {}


def test_a_disk_that_fails(socket_ends, monkeypatch):
    """A failing disk is our fault."""
    loop, ends = Writers(), []
    sender = MemorySender(loop, socket_ends[0].fileno(), b"head", bytes(100_000), ends.append)
    monkeypatch.setattr(sender, "_send_part", lambda offset, count: os.write(socket_ends[0].fileno(), os.fsync(-1)))
    sender.start()
    assert [type(end) for end in ends] == [ResponseTruncated] and str(ends[0]).startswith("sending failed: ")


def test_a_cancel_tells_the_end_once(new):
    """The connection is gone: the end is told, once, and the descriptor is free."""
    sender, loop, ends = new(b"head", bytes(LARGE))
    sender.start()
    (fd,) = loop.callbacks
    (callback,) = loop.callbacks.values()
    sender.cancel()
    assert repr(ends) == "[ClientDisconnected('the client closed the connection')]" and loop.callbacks == {}
    with pytest.raises(OSError, match=r"[Bb]ad file"):
        os.fstat(fd)
    sender.cancel()
    callback()  # a loop may have had it in its hands already
    assert len(ends) == 1


def test_no_descriptor_leaves_the_rest_to_the_caller(new, socket_ends, monkeypatch):
    """Without a descriptor for the loop to watch, the caller goes on with the rest; the transport's is left alone."""
    monkeypatch.setattr(os, "dup", lambda fd: os.open("/nonexistent", os.O_RDONLY))
    body = os.urandom(LARGE)
    sender, loop, ends = new(b"head", body)
    assert not sender.start()
    assert ends == [] and loop.callbacks == {}
    got = received(socket_ends[1])
    assert got == b"head" + body[: len(got) - 4]
    if isinstance(sender, MemorySender):
        assert sender.rest == (b"", body[len(got) - 4 :])
    sender.cancel()
    assert ends == []


# Without


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 9])
def test_pieces_are_small_and_whole(count):
    """Pieces for a transport are small enough, whole, and the last of a large body is without the rest of it."""
    body = os.urandom(count * PIECE_BYTES + 17)
    head, *pieces = pieces_of(b"head", body)
    assert head == b"head" and b"".join(pieces) == body and max(map(len, pieces)) <= PIECE_BYTES
    kinds = [type(piece) for piece in pieces]
    assert kinds == ([memoryview] * (count - 1) + [bytes] * 2 if count >= 4 else [memoryview] * (count + 1))


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_the_rest_of_octets(size):
    """Only the left octets are kept; without a copy of the most, and without the whole for a little."""
    octets = os.urandom(size)
    for sent in (0, size // 3, size - size // 3, size):
        for rest in (keep_rest(octets, sent), keep_rest(memoryview(octets)[sent:])):
            assert rest == octets[sent:]
            assert len(rest.obj if isinstance(rest, memoryview) else rest) <= 2 * len(rest)
            if 2 * len(rest) >= size:
                assert rest.obj is octets
