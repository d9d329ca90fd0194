"""A file to a socket, by the kernel, or read in pieces; test_sender.py has the same for memory."""

import pytest
from harness.fakes import Writers

from aserve.connections.loop import sendfile as sendfile_module
from aserve.connections.loop.sendfile import HAS_SENDFILE, FileSender, read_pieces
from aserve.core.errors import ResponseTruncated

needs_sendfile = pytest.mark.skipif(not HAS_SENDFILE, reason="this system has no sendfile")


@pytest.fixture
def new(socket_ends, tmp_path):
    """Make a sender of a file with this content: new(content, offset, count) -> sender, file, loop, ends."""
    opened = []

    def make(content, offset=0, count=None):
        path = tmp_path / "file"
        path.write_bytes(content)
        file = open(path, "rb")
        opened.append(file)
        loop, ends = Writers(), []
        count = len(content) - offset if count is None else count
        sender = FileSender(loop, socket_ends[0].fileno(), b"head", file, offset, count, ends.append)
        return sender, file, loop, ends

    yield make
    for file in opened:
        file.close()


@needs_sendfile
@pytest.mark.parametrize(("offset", "count"), [(0, 10), (3, 7), (3, 4), (9, 1), (0, 1), (4, 0)])
def test_an_extent_is_sent_exactly(new, socket_ends, offset, count):
    """Offset and count are kept; the file's own position is neither used nor moved."""
    sender, file, loop, ends = new(b"0123456789", offset, count)
    file.seek(5)
    sender.start()
    assert ends == [None] and loop.callbacks == {}
    assert socket_ends[1].recv(100) == b"head" + b"0123456789"[offset : offset + count]
    assert file.tell() == 5 and not file.closed


@needs_sendfile
def test_a_file_that_ends_early(new, socket_ends):
    """A file that shrinks while sent cannot keep the head's promise."""
    sender, _, loop, ends = new(b"0123456789", 0, 15)
    sender.start()
    assert repr(ends) == "[ResponseTruncated('the file ended 5 octets early')]" and loop.callbacks == {}
    assert socket_ends[1].recv(100) == b"head0123456789"


@needs_sendfile
def test_a_file_that_the_app_has_closed(new):
    """A file closed too early by its app is an error of this response alone."""
    sender, file, loop, ends = new(b"0123456789")
    file.close()
    sender.start()
    assert len(ends) == 1 and "closed file" in str(ends[0]) and loop.callbacks == {}


# Without


@pytest.fixture
def path(tmp_path):
    (tmp_path / "file").write_bytes(bytes(range(250)) * 1000)
    return tmp_path / "file"


def test_read_in_pieces(path):
    """Without a descriptor the caller reads: the head, the wanted part, and then the file is closed."""
    file = open(path, "rb")
    head, *pieces = read_pieces(b"head", file, 3, 200_000, file.close)
    assert head == b"head" and b"".join(pieces) == path.read_bytes()[3:200_003]
    assert file.closed and max(map(len, pieces)) == sendfile_module.READ_BYTES


@pytest.mark.parametrize("how", ["short", "closed", "left"])
def test_read_in_pieces_cut_short(path, how):
    """A file that ends early, or is closed by the app, truncates the response; it is closed in any case."""
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
    """The failure is the app's, and costs nothing."""
    with open(path, "rb") as file:
        assert len(list(read_pieces(b"head", file, 0, 10, lambda: 1 / 0))) == 2
    assert "raised in close()" in caplog.text
