"""A file to a socket: all of it, no more, in turns, and with a word at the end in every case."""

from __future__ import annotations

import os
import socket

import pytest

from aserve.connections import sendfile as sendfile_module
from aserve.connections.sendfile import HAS_SENDFILE, FileSender, read_pieces
from aserve.errors import ResponseTruncated

pytestmark = pytest.mark.skipif(not HAS_SENDFILE, reason="this system has no sendfile")


class Writers:
    """A loop's add_writer and remove_writer; `turn` is one of its iterations."""

    def __init__(self):
        self.callbacks = {}

    def add_writer(self, fd, callback):
        self.callbacks[fd] = callback

    def remove_writer(self, fd):
        del self.callbacks[fd]

    def turn(self):
        for callback in list(self.callbacks.values()):
            callback()


@pytest.fixture
def sockets():
    ends = socket.socketpair()
    for end in ends:
        end.setblocking(False)
    yield ends
    for end in ends:
        end.close()


@pytest.fixture
def new(sockets, tmp_path):
    """Make a sender of a file with this content: new(content, offset, count) -> sender, file, loop, ends."""
    opened = []

    def make(content, offset=0, count=None):
        path = tmp_path / "file"
        path.write_bytes(content)
        file = open(path, "rb")
        opened.append(file)
        loop, ends = Writers(), []
        count = len(content) - offset if count is None else count
        sender = FileSender(loop, sockets[0].fileno(), file, offset, count, ends.append)
        return sender, file, loop, ends

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


@pytest.mark.parametrize(("offset", "count"), [(0, 10), (3, 7), (3, 4), (9, 1), (0, 1)])
def test_an_extent(new, sockets, offset, count):
    """Offset and count are kept; the file's own position is neither used nor moved."""
    sender, file, loop, ends = new(b"0123456789", offset, count)
    file.seek(5)
    sender.start()
    assert ends == [None] and loop.callbacks == {}
    assert received(sockets[1]) == b"0123456789"[offset : offset + count]
    assert file.tell() == 5 and not file.closed


def test_nothing_to_send(new, sockets):
    """Zero octets are sent at once."""
    sender, _, loop, ends = new(b"0123456789", 4, 0)
    sender.start()
    assert ends == [None] and loop.callbacks == {} and received(sockets[1]) == b""
    assert not sender.take_progress()


def test_a_file_larger_than_the_socket_takes(new, sockets):
    """What the socket does not take waits until it has room; nothing is lost or repeated."""
    content = os.urandom(3_000_000)
    sender, _, loop, ends = new(content)
    sender.start()
    assert ends == [] and len(loop.callbacks) == 1
    got = b""
    while not ends:
        got += received(sockets[1])
        loop.turn()
    assert ends == [None] and got + received(sockets[1]) == content


def test_turns_are_bounded(new, monkeypatch):
    """A socket that takes everything does not keep the loop from others."""
    calls = []

    def take_all(fd, file, offset, count):
        calls.append((offset, count))
        return count

    monkeypatch.setattr(sendfile_module, "ITERATION_BYTES", 4)
    monkeypatch.setattr(os, "sendfile", take_all)
    sender, _, loop, ends = new(b"0123456789")
    sender.start()
    assert calls == [(0, 4)]
    loop.turn()
    loop.turn()
    assert calls == [(0, 4), (4, 4), (8, 2)] and ends == [None]


def test_progress(new, sockets):
    """Whether anything moved since the last look: what keeps a slow reader alive."""
    sender, _, loop, _ = new(bytes(3_000_000))
    sender.start()
    assert sender.take_progress() > 0 and sender.take_progress() == 0
    loop.turn()
    assert not sender.take_progress()
    received(sockets[1])
    loop.turn()
    assert sender.take_progress()
    sender.cancel()


def test_a_file_that_ends_early(new, sockets):
    """A file that shrinks while it is sent cannot keep the head's promise."""
    sender, _, loop, ends = new(b"0123456789", 0, 15)
    sender.start()
    assert ends == ["the file ended 5 octets early"] and loop.callbacks == {}
    assert received(sockets[1]) == b"0123456789"


def test_a_client_that_leaves(new, sockets):
    """A reset is an error, said once."""
    sockets[1].close()
    sender, _, loop, ends = new(b"0123456789")
    sender.start()
    assert len(ends) == 1 and ends[0].startswith("sendfile failed: ") and loop.callbacks == {}


def test_a_file_that_the_app_has_closed(new):
    """An app may close its file too early; that is an error of this response alone."""
    sender, file, loop, ends = new(b"0123456789")
    file.close()
    sender.start()
    assert len(ends) == 1 and "closed file" in ends[0] and loop.callbacks == {}


def test_cancel(new):
    """The connection is gone: the end is told, once, and the descriptor is free."""
    sender, _, loop, ends = new(bytes(3_000_000))
    sender.start()
    (fd,) = loop.callbacks
    (callback,) = loop.callbacks.values()
    sender.cancel()
    assert ends == ["the client closed the connection"] and loop.callbacks == {}
    with pytest.raises(OSError, match=r"[Bb]ad file"):
        os.fstat(fd)
    sender.cancel()
    callback()  # a loop may have had it in its hands already
    assert len(ends) == 1


def test_the_transports_descriptor_is_not_touched(new, sockets):
    """The sender works on a duplicate: when it ends, the transport's own is still open."""
    sender, _, _, _ = new(b"0123456789")
    sender.start()
    assert sockets[0].send(b"x") == 1 and received(sockets[1]) == b"0123456789x"


# Without


@pytest.fixture
def path(tmp_path):
    (tmp_path / "file").write_bytes(bytes(range(250)) * 1000)
    return tmp_path / "file"


def test_read_in_pieces(path):
    """Where no descriptor is left, whoever asks reads: the head, what is wanted of the file, and then it is closed."""
    file = open(path, "rb")
    head, *pieces = read_pieces(b"head", file, 3, 200_000, file.close)
    assert head == b"head" and b"".join(pieces) == path.read_bytes()[3:200_003]
    assert file.closed and max(map(len, pieces)) == sendfile_module.READ_BYTES


@pytest.mark.parametrize("how", ["short", "closed", "left"])
def test_read_in_pieces_cut_short(path, how):
    """A file that ends early, or that the app closes, truncates the response; closed it is in any case."""
    file, closings = open(path, "rb"), []
    pieces = read_pieces(b"head", file, 0, 250_001, lambda: closings.append(file.close()))
    assert next(pieces) == b"head"
    if how == "left":
        pieces.close()
    else:
        if how == "closed":
            file.close()
        with pytest.raises(ResponseTruncated, match="1 octets early" if how == "short" else "reading the file failed"):
            list(pieces)
    assert closings == [None] and file.closed


def test_a_file_whose_close_fails(path, caplog):
    """Its failure is the app's, and costs nothing."""
    with open(path, "rb") as file:
        assert len(list(read_pieces(b"head", file, 0, 10, lambda: 1 / 0))) == 2
    assert "raised in close()" in caplog.text
