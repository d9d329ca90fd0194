"""Files returned by an app (PEP 3333 "Optional Platform-Specific File Handling"): sent as files where possible."""

import contextvars
import functools
import gzip
import io
import os
import tempfile
import types

import pytest
from harness.gateways import respond
from harness.replies import body_of, returning

from aserve.core.errors import ResponseTruncated
from aserve.wsgi import FileResponse, FileWrapper


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    with open(path, "rb") as opened:
        yield opened


def test_a_file_is_sent_as_a_file(file):
    """A regular file in a FileWrapper is not read here: the loop sends it, and has it closed."""
    reply = respond(returning(FileWrapper(file)))
    assert type(reply) is FileResponse
    assert b"\r\nContent-Length: 10\r\n" in reply.head and reply.head.endswith(b"\r\n\r\n")
    assert (reply.file, reply.offset, reply.size) == (file, 0, 10)
    assert not file.closed
    reply.close()
    assert file.closed


@pytest.mark.parametrize("whose", ["file", "wrapper"])
def test_a_close_of_the_apps(file, whose):
    """Django puts its own into the file's place: it is called, and finds the request's context."""
    current, found = contextvars.ContextVar("current", default="none"), []
    wrapper = FileWrapper(file)
    (file if whose == "file" else wrapper).close = lambda: found.append(current.get())

    def app(environ, start_response):
        current.set("the request's")
        return returning(wrapper)(environ, start_response)

    contextvars.copy_context().run(respond, app).close()
    assert found == ["the request's"]
    io.BufferedReader.close(file)


@pytest.mark.parametrize(
    ("skip", "declared", "offset", "count"),
    [(0, None, 0, 10), (4, None, 4, 6), (10, None, 10, 0), (20, None, 20, 0), (4, "2", 4, 2), (4, "6", 4, 6)],
)
def test_extents_follow_position_and_length(file, skip, declared, offset, count):
    """The file goes out from the app's position, up to the declared length."""
    file.seek(skip)
    headers = [("Content-Length", declared)] if declared else []
    reply = respond(returning(FileWrapper(file), headers))
    if type(reply) is FileResponse:
        assert (reply.offset, reply.size) == (offset, count)
    else:  # nothing left: there is nothing to send from a file
        assert count == 0 and body_of(b"".join(reply)) == b""


def test_a_file_shorter_than_declared(file):
    """Too short a file goes the general way, which cuts the connection."""
    pieces = respond(returning(FileWrapper(file), [("Content-Length", "11")]))
    assert body_of(next(pieces)) == b"0123456789"
    with pytest.raises(ResponseTruncated):
        next(pieces)
    assert file.closed


def test_a_file_before_start_response(file):
    """A file does not excuse from start_response."""
    octets = b"".join(respond(lambda environ, start_response: FileWrapper(file)))
    assert octets.startswith(b"HTTP/1.1 500 ") and file.closed


def test_a_file_after_write(file):
    """After write() the file follows in the same framing."""

    def app(environ, start_response):
        start_response("200 OK", [])(b"ab")
        return FileWrapper(file, 6)

    assert list(respond(app)) == [b"6\r\n012345\r\n", b"4\r\n6789\r\n", b"0\r\n\r\n"]
    assert file.closed


def test_a_file_without_sendfile(file):
    """Where there is no sendfile, a file is read."""
    octets = b"".join(respond(returning(FileWrapper(file)), has_sendfile=False))
    assert body_of(octets) == b"a\r\n0123456789\r\n0\r\n\r\n"


class NoFile:
    """Something with read() alone."""

    def __init__(self):
        self.chunks = [b"ab", b"c", b""]

    def read(self, size):
        return self.chunks.pop(0)


def pipe():
    reader, writer = os.pipe()
    os.write(writer, b"abc")
    os.close(writer)
    return os.fdopen(reader, "rb")


def spooled():
    file = tempfile.SpooledTemporaryFile()
    file.write(b"abc")
    file.seek(0)
    return file


@pytest.mark.parametrize("make", [NoFile, pipe, spooled, lambda: io.BytesIO(b"abc")])
def test_what_is_no_regular_file_is_read(make):
    """Pipes, objects in memory, anything with read(): iterated, and closed where possible."""
    file = make()
    octets = b"".join(respond(returning(FileWrapper(file))))
    body = body_of(octets)
    assert body in (b"3\r\nabc\r\n0\r\n\r\n", b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")
    assert getattr(file, "closed", True)


def test_a_file_that_decompresses_is_read(tmp_path):
    """A GzipFile has the descriptor of the compressed file; its content is read()'s."""
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"abc" * 100))
    octets = b"".join(respond(returning(FileWrapper(gzip.open(path)))))
    assert body_of(octets) == b"12c\r\n" + b"abc" * 100 + b"\r\n0\r\n\r\n"


def test_a_file_of_unknown_size_is_read():
    """Files of the kernel claim to be empty; their content is read()'s."""
    if not os.path.exists("/proc/self/stat"):
        pytest.skip("no /proc here")
    octets = b"".join(respond(returning(FileWrapper(open("/proc/self/stat", "rb")))))
    assert b"Content-Length: 0" not in octets and str(os.getpid()).encode() in body_of(octets)


@pytest.mark.parametrize("mode", ["named", "unbuffered", "read and write", "wrapped"])
def test_real_files_in_wrappers_are_sent_as_files(tmp_path, mode):
    """Named temporary files, Django's File and the like hold a real file: it is sent as one."""
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    if mode == "named":
        file = tempfile.NamedTemporaryFile()
        file.write(b"abc")
        file.seek(0)
    elif mode == "unbuffered":
        file = open(path, "rb", buffering=0)
    elif mode == "read and write":
        file = open(path, "r+b")
    else:
        real = open(path, "rb")
        file = type("File", (), {"read": property(lambda self: self.file.read), "close": real.close})()
        file.file = real
    reply = respond(returning(FileWrapper(file)))
    assert type(reply) is FileResponse and (reply.offset, reply.size) == (0, 3)
    reply.close()


@pytest.mark.parametrize("how", ["own read", "own read that says it is another", "read replaced", "another's read"])
def test_what_reads_otherwise_than_its_file_is_read(tmp_path, how):
    """An object with a real file, but other octets, is not sent as the file."""
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    real = open(path, "rb")

    def read(size=-1):
        return real.read(size).upper()

    if how == "own read":
        file = type("File", (), {"read": lambda self, size: read(size), "fileno": lambda self: real.fileno()})()
    elif how == "read replaced":
        file = open(path, "rb")
        file.read = read
    elif how == "another's read":
        file = type("File", (), {"read": io.BytesIO(b"ABC").read, "fileno": real.fileno, "tell": real.tell})()
    else:
        file = type("File", (), {"read": staticmethod(functools.wraps(real.read)(read)), "tell": real.tell})()
    if how != "read replaced":
        file.file = real
    octets = b"".join(respond(returning(FileWrapper(file))))
    assert body_of(octets) == b"3\r\nABC\r\n0\r\n\r\n"
    real.close()


def test_a_closed_file(tmp_path, caplog):
    """A file closed already by the app is the app's error."""
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    with open(path, "rb") as file:
        pass
    octets = b"".join(respond(returning(FileWrapper(file))))
    assert octets.startswith(b"HTTP/1.1 500 ") and "closed file" in caplog.text


def test_a_file_wrapper_is_an_iterable():
    """PEP 3333: the result must also work for a server that only iterates it."""
    file = io.BytesIO(b"abcde")
    wrapper = FileWrapper(file, 2)
    assert list(wrapper) == [b"ab", b"cd", b"e"]
    assert next(iter(FileWrapper(io.BytesIO(b"x" * 70000)))) == b"x" * 65536
    wrapper.close()
    assert file.closed
    FileWrapper(NoFile()).close()


def test_a_subclass_of_file_wrapper_is_iterated(file):
    """A subclass may change the octets: it is not ours to send past it."""

    class Upper(FileWrapper):
        def __iter__(self):
            yield b"mine"

    assert b"mine" in b"".join(respond(returning(Upper(file))))


@pytest.mark.parametrize("end", [b"", "", None, 0])
def test_what_ends_a_file(end):
    """PEP 3333: any false value of read() ends it."""
    pieces = [b"a", b"b", end]
    file = types.SimpleNamespace(read=lambda size: pieces.pop(0))
    assert list(FileWrapper(file)) == [b"a", b"b"]
