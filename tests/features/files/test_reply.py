"""A file as a response."""

import os

import pytest
from harness.calling import call

from aserve.features.files.conditions import Validators
from aserve.features.files.reply import SMALL_BYTES, send_file
from aserve.wsgi import FileWrapper

CONTENT = bytes(range(256)) * 400  # 100 KiB
ETAG = '"tag"'
FIELDS = [
    ("Content-Type", "text/css"),
    ("Content-Encoding", "br"),
    ("Content-Location", "/x"),
    ("Vary", "Accept-Encoding"),
]


@pytest.fixture
def fetch(tmp_path):
    """Return a function that asks for a file of so many octets; its descriptor must be closed in the end."""

    def fetch(size=1000, fields=FIELDS, validators=None, method="GET", **environ):
        path = tmp_path / "file"
        path.write_bytes(CONTENT[:size])
        fd = os.open(path, os.O_RDONLY)
        tags = Validators(ETAG, 1000) if validators is None else validators
        answer = call(lambda e, s: send_file(e, s, fd, size, tags, list(fields)), method=method, **environ)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
        return answer

    return fetch


@pytest.mark.parametrize("size", [0, 1, SMALL_BYTES, SMALL_BYTES + 1])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_whole_file_is_octets_or_sent(fetch, size, method):
    """A small file is octets, a large one is for the server to send; a HEAD opens neither."""
    answer = fetch(size, method=method)
    assert (answer.status, answer.get("Content-Length")) == ("200 OK", str(size))
    assert answer.body == (CONTENT[:size] if method == "GET" else b"")
    assert (answer.get("ETag"), answer.get("Accept-Ranges")) == (ETAG, "bytes")
    assert answer.get("Last-Modified") == "Thu, 01 Jan 1970 00:16:40 GMT"
    assert (type(answer.iterable) is FileWrapper) == (size > SMALL_BYTES and method == "GET")


def test_without_validators_no_field_is_sent(fetch):
    answer = fetch(validators=Validators("", None))
    assert answer.get("ETag") is answer.get("Last-Modified") is None and answer.code == 200


def test_not_modified_has_fields_for_caches(fetch):
    """RFC 9110 15.4.5: a 304 has the fields for caches, and nothing of the content."""
    answer = fetch(HTTP_IF_NONE_MATCH=ETAG, HTTP_RANGE="bytes=0-1")
    assert (answer.status, answer.body) == ("304 Not Modified", b"")
    assert answer.fields == [("Vary", "Accept-Encoding"), ("ETag", ETAG)]


def test_precondition_failed_tells_nothing_of_the_file(fetch):
    """The body tells the reason; nothing of the file is told."""
    answer = fetch(HTTP_IF_MATCH='"other"')
    assert (answer.code, answer.body) == (412, b"412: the file is not what the request expects\n")
    assert answer.get("ETag") is answer.get("Content-Encoding") is None


@pytest.mark.parametrize(
    ("size", "field", "begin", "end"), [(1000, "0-13", 0, 14), (1000, "-3", 997, 1000), (100_000, "5-90000", 5, 90_001)]
)
def test_one_part_of_a_file_is_sent(fetch, size, field, begin, end):
    answer = fetch(size, HTTP_RANGE=f"bytes={field}")
    assert (answer.status, answer.get("Content-Range")) == ("206 Partial Content", f"bytes {begin}-{end - 1}/{size}")
    assert answer.get("Content-Length") == str(end - begin)
    assert answer.body[: end - begin] == CONTENT[begin:end]  # the server cuts at the length
    assert answer.get("Content-Type") == "text/css" and answer.get("Content-Encoding") == "br"


@pytest.mark.parametrize("size", [1000, 100_000])
def test_several_parts_have_a_head_each(fetch, size):
    answer = fetch(size, HTTP_RANGE="bytes=0-1,5-,")
    assert answer.status == "206 Partial Content"
    kind, _, boundary = (answer.get("Content-Type") or "").partition("; boundary=")
    assert kind == "multipart/byteranges" and answer.get("Content-Range") is None
    assert answer.get("Content-Length") == str(len(answer.body))
    parts = answer.body.split(f"\r\n--{boundary}".encode())
    assert parts[1].endswith(f"Content-Range: bytes 0-1/{size}\r\n\r\n".encode() + CONTENT[:2])
    assert parts[2].endswith(f"bytes 5-{size - 1}/{size}\r\n\r\n".encode() + CONTENT[5:size])
    assert parts[3] == b"--\r\n"


def test_parts_of_no_type(fetch):
    """A response without a Content-Type has parts without one."""
    assert b"Content-Type" not in fetch(fields=[], HTTP_RANGE="bytes=0-1,5-6").body


def test_parts_of_a_file_that_shrinks(fetch, tmp_path, monkeypatch):
    """The body ends early, and nothing looks like its end."""
    real = os.pread

    def pread(fd, count, offset):
        return real(fd, count, offset) if offset < 60_000 else b""

    monkeypatch.setattr(os, "pread", pread)
    answer = fetch(100_000, HTTP_RANGE="bytes=0-0,1-99000")
    assert int(answer.get("Content-Length") or 0) > len(answer.body)
    assert not answer.body.endswith(b"--\r\n")


def test_a_range_that_is_not_there(fetch):
    """RFC 9110 15.5.17: the answer tells the file's length."""
    answer = fetch(HTTP_RANGE="bytes=1000-")
    assert (answer.status, answer.get("Content-Range")) == ("416 Range Not Satisfiable", "bytes */1000")
    assert answer.body == b"416: the file has 1000 octets\n"


@pytest.mark.parametrize(
    ("method", "environ"),
    [("HEAD", {}), ("GET", {"HTTP_IF_RANGE": '"other"'}), ("GET", {"HTTP_IF_RANGE": 'W/"tag"'})],
)
def test_ranges_that_do_not_count(fetch, method, environ):
    """Of a HEAD, and of another state of the file."""
    assert fetch(method=method, HTTP_RANGE="bytes=0-1", **environ).get("Content-Length") == "1000"


def test_a_start_that_fails(fetch, tmp_path):
    """The file is closed all the same."""
    path = tmp_path / "file"
    path.write_bytes(b"1")
    fd = os.open(path, os.O_RDONLY)
    with pytest.raises(ZeroDivisionError):
        send_file({"REQUEST_METHOD": "GET"}, lambda *_: 1 / 0, fd, 1, Validators("", None), [])
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
