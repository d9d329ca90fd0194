"""wsgi.file_wrapper: files are sent by the kernel where possible, else read, and always closed."""

import bz2
import gzip
import io
import os
import socket
import tempfile
import threading

import pytest
from harness import apps
from harness.rules import rule

from aserve.connections.listeners import UNSENT_BYTES

pytestmark = [pytest.mark.also_inline, pytest.mark.any_parser]

CONTENT = bytes(range(256)) * 4096  # 1 MiB


@pytest.fixture
def path(tmp_path):
    """Return the path of a file with CONTENT."""
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    return path


@rule(
    'PEP 3333 "Optional Platform-Specific File Handling"',
    "the server may send what file_wrapper holds by itself",
    "a regular file goes out by sendfile, after the app's head",
)
def test_the_kernel_sends_regular_files(start_server, raw_client, path, reads):
    """A regular file is sent by the kernel, with its Content-Length; the connection stays usable."""
    server = start_server(apps.file_sender(lambda: open(path, "rb")))
    is_plain = server.url.startswith("http:")
    client = raw_client(server)
    for _ in range(3):
        reply = client.fetch()
        assert (reply.body, reply.framing) == (CONTENT, "length")
    server.stop()
    assert sum(reads) == (0 if is_plain else 3 * len(CONTENT))


@pytest.mark.skipif(not hasattr(socket, "TCP_NOTSENT_LOWAT"), reason="this system has no such option")
def test_the_kernel_takes_what_it_likes_of_a_file(start_server, raw_client, wait_until, tmp_path):
    """The buffer limit of other responses would only split the calls; it is back afterwards."""
    path = tmp_path / "large"
    path.write_bytes(CONTENT * 16)
    server = start_server(apps.file_sender(lambda: open(path, "rb")))
    if not server.url.startswith("http:"):
        pytest.skip("a file over TLS is read")
    client = raw_client(server, receive_buffer_bytes=4096)

    def limits():
        return server.options(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT)

    client.request()
    assert client.recv_head().status == 200
    assert limits() == [0]
    assert client.recv_exactly(len(CONTENT) * 16) == CONTENT * 16
    wait_until(lambda: limits() == [UNSENT_BYTES])


@pytest.mark.long_on_pypy
@rule('PEP 3333 "Handling the Content-Length Header"', "a file is sent up to Content-Length", "no further")
@pytest.mark.parametrize("length", [0, 1, 70_000])
def test_part_of_a_file(start_server, raw_client, path, length):
    """A Content-Length below the file's size sends just that part."""
    app = apps.file_sender(lambda: open(path, "rb"), ("Content-Length", str(length)))
    client = raw_client(start_server(app))
    for _ in range(2):
        assert client.fetch().body == CONTENT[:length]
    assert client.is_quiet()


def test_file_shorter_than_its_length(start_server, raw_client, path):
    """A file shorter than its Content-Length is seen as cut short."""
    app = apps.file_sender(lambda: open(path, "rb"), ("Content-Length", str(len(CONTENT) + 1)))
    client = raw_client(start_server(app))
    with pytest.raises(client.Truncated):
        client.fetch()


def test_file_that_shrinks(start_server, raw_client, path):
    """A file that becomes shorter while sent is seen as cut short."""
    with open(path, "r+b") as file:
        file.truncate(16 << 20)
    client = raw_client(start_server(apps.file_sender(lambda: open(path, "rb"))), receive_buffer_bytes=4096)
    client.request()
    assert client.recv_head().get("Content-Length") == str(16 << 20)
    os.truncate(path, 0)
    with pytest.raises(client.Truncated):
        client.recv_exactly(16 << 20)


def test_head_of_a_file(start_server, raw_client, path):
    """HEAD gives the file's length and nothing of the file."""
    client = raw_client(start_server(apps.file_sender(lambda: open(path, "rb"))))
    for _ in range(2):
        assert client.fetch(method="HEAD").get("Content-Length") == str(len(CONTENT))
        assert client.is_quiet()


def open_pipe():
    """Return the reading end of a pipe with 100 octets."""
    reader, writer = os.pipe()
    os.write(writer, CONTENT[:100])
    os.close(writer)
    return os.fdopen(reader, "rb")


class OnlyRead:
    """The least file-like object of PEP 3333."""

    def __init__(self):
        self._file = io.BytesIO(CONTENT[:100])

    def read(self, size):
        return self._file.read(size)


class Rot256(io.FileIO):
    """A regular file whose read() differs from its octets."""

    def read(self, size=-1):
        return bytes(255 - octet for octet in super().read(size))


def packed(module, path):
    """Return a file that unpacks when read."""
    with module.open(path, "wb") as file:
        file.write(CONTENT[:100])
    return module.open(path, "rb")


def unpacked(kind, path):
    """Return a file-like object of the kind, and its expected octets."""
    if kind == "pipe":
        return open_pipe()
    if kind == "memory":
        return io.BytesIO(CONTENT[:100])
    if kind == "only read":
        return OnlyRead()
    if kind == "gzip":
        return packed(gzip, path)
    if kind == "bz2":
        return packed(bz2, path)
    if kind == "spooled":
        file = tempfile.SpooledTemporaryFile()
    elif kind == "named":
        file = tempfile.NamedTemporaryFile()
    elif kind == "unbuffered":
        file = open(path, "w+b", buffering=0)
    else:
        path.write_bytes(bytes(255 - octet for octet in CONTENT[:100]))
        return Rot256(path)
    file.write(CONTENT[:100])
    file.seek(0)
    return file


@pytest.mark.long_on_pypy
@rule(
    'PEP 3333 "Optional Platform-Specific File Handling"',
    "what is no file of the system is read",
    "by its read(), and so is what reads otherwise than its file",
)
@pytest.mark.parametrize(
    "kind", ["pipe", "memory", "only read", "gzip", "bz2", "spooled", "named", "unbuffered", "subclass"]
)
def test_other_files_are_read(start_server, raw_client, path, kind):
    """A readable object is sent by its read(), whatever its fileno() may be."""
    client = raw_client(start_server(apps.file_sender(lambda: unpacked(kind, path))))
    for _ in range(2):
        assert client.fetch().body == CONTENT[:100]


@rule(
    'PEP 3333 "Optional Platform-Specific File Handling"',
    "close() of the wrapper is called",
    "once, when the file is sent",
)
@pytest.mark.parametrize("headers", [(), (("Content-Length", "10"),)])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_file_is_closed_once_and_afterwards(start_server, raw_client, path, headers, method):
    """close() of the file is called once, when the last octet has been sent."""
    files = []

    def open_file():
        files.append(apps.NotingFile(path))
        return files[-1]

    client = raw_client(start_server(apps.file_sender(open_file, *headers)))
    for count in (1, 2):
        client.fetch(method=method)
        assert files[count - 1].closed_event.wait(30)
    assert [file.close_count for file in files] == [1, 1]


def test_file_is_not_closed_before_it_is_sent(start_server, raw_client, path):
    """While a slow client reads, the file stays open."""
    with open(path, "r+b") as file:
        file.truncate(16 << 20)
    files = []

    def open_file():
        files.append(apps.NotingFile(path))
        return files[-1]

    client = raw_client(start_server(apps.file_sender(open_file)), receive_buffer_bytes=4096)
    client.request()
    client.recv_head()
    assert not files[0].closed
    assert len(client.recv_exactly(16 << 20)) == 16 << 20
    assert files[0].closed_event.wait(30)


def test_client_leaves_during_a_file(start_server, raw_client, path):
    with open(path, "r+b") as file:
        file.truncate(256 << 20)
    files = []

    def open_file():
        files.append(apps.NotingFile(path))
        return files[-1]

    server = start_server(apps.file_sender(open_file))
    for is_reset in (True, False):
        client = raw_client(server, receive_buffer_bytes=4096)
        client.request()
        client.recv_head()
        client.reset() if is_reset else client.close()
        assert files[-1].closed_event.wait(30)
    assert [file.close_count for file in files] == [1, 1]
    assert raw_client(server).fetch(method="HEAD").status == 200


def test_files_side_by_side(start_server, raw_client, path):
    """Many files to many clients at once, each whole."""
    server = start_server(apps.file_sender(lambda: open(path, "rb")))
    clients = [raw_client(server) for _ in range(8)]
    bodies = []

    def fetch(client):
        bodies.extend(client.fetch().body == CONTENT for _ in range(4))

    threads = [threading.Thread(target=fetch, args=(client,), daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bodies == [True] * 32


def test_responses_wait_for_a_file(start_server, raw_client, path):
    def app(environ, start_response):
        if environ["PATH_INFO"] == "/file":
            return apps.file_sender(lambda: open(path, "rb"))(environ, start_response)
        return apps.hello(environ, start_response)

    client = raw_client(start_server(app))
    for target in ("/file", "/", "/file", "/file", "/"):
        client.request(target)
    bodies = [client.recv_response().body for _ in range(5)]
    assert bodies == [CONTENT, b"hello\n", CONTENT, CONTENT, b"hello\n"]
