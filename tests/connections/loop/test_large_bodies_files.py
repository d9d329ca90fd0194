"""Files sent by the event loop: whole, slowly, cut short; each is closed, and none waits for a worker."""

import errno
import os

import pytest
from harness.replies import GET, GET_1_0, POST, body_of, is_cut, is_reset, returning

from aserve.connections.loop.sendfile import HAS_SENDFILE
from aserve.workers.inline import InlineExecutor
from aserve.wsgi import FileWrapper


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
def test_a_file_goes_out_whole(new, file, raw):
    """A file goes out behind its head, whole; a worker closes it, and the connection goes on."""
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
    """Octets past the transport come behind all octets in the transport."""
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
    """A file whose client leaves is closed, sent or waiting."""
    harness, connection, transport = new(returning(FileWrapper(file)))
    harness.service.ends = harness.log
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
    """Progress of a file counts against --write-timeout; a standstill ends it."""
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
    """Without descriptors, this connection is cut and its file closed."""

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
    """Beyond the limit of files (--spool-files) a file is read piece by piece, and not counted; others count until sent."""

    def app(environ, start_response):
        start_response("200 OK", [])
        return FileWrapper(open(file.name, "rb"))

    harness, connection, transport = new(app, executor=InlineExecutor(), threads=0, spool_files=3)
    other, other_transport = harness.connect()
    connection.data_received(GET)
    other.data_received(GET)
    assert harness.budgets.files.count == 2 and len(harness.loop.writers) == 1
    octets = [b"", b""]
    for _ in range(1000):
        octets = [have + one.received() for have, one in zip(octets, (transport, other_transport))]
        harness.loop.turn()
    assert [body_of(one) == content_of(file) for one in octets] == [True, True]
    assert harness.budgets.files.count == 0 and harness.budgets.refused_count == 1


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
