"""A request in a file in memory, written and read by two processes."""

import fcntl
import os

import pytest

from aserve.processes.transfers.request_file import (
    RequestFile,
    is_begun,
    look_at_request,
    mark_begun,
    put_request_back,
    take_request,
)


def test_octets_are_taken_by_one_process():
    """The last written octets are there; the first process that takes them has them, until it puts them back."""
    file = RequestFile()
    file.write(b"x" * 100_000)
    file.write(b"the request")
    fd = file.detach()
    other = os.dup(fd)
    file.close()  # this one's no more
    for _ in range(2):
        assert take_request(fd) == look_at_request(other) == b"the request"
        assert take_request(other) == take_request(fd) == b""
        put_request_back(other)
    for each in (fd, other):
        os.close(each)


def test_one_that_is_not_used():
    """An unused file is not open; a used one is closed, if no request goes with it."""
    file = RequestFile()
    file.close()
    before = len(os.listdir("/dev/fd"))
    file.write(b"")
    fd = file._fd
    file.close()
    assert len(os.listdir("/dev/fd")) == before
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


@pytest.fixture
def shared():
    file = RequestFile()
    file.write(b"the request")
    fd = file.detach()
    yield fd
    os.close(fd)


def test_two_at_once(shared):
    """While another process takes it, it is not there, and this one does not wait: the other may be stopped."""
    (ready, tell), (wait, end) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(end)
        fcntl.lockf(shared, fcntl.LOCK_EX)
        os.write(tell, b"x")
        os.read(wait, 1)
        os._exit(0)
    os.close(wait)
    try:
        assert os.read(ready, 1) and take_request(shared) == b""
    finally:
        os.close(end)
        os.waitpid(pid, 0)
    assert take_request(shared) == b"the request"
    os.close(ready)
    os.close(tell)


def test_one_that_was_begun(shared):
    """All processes see a begun request, and none can take it any more."""
    assert take_request(shared) and not is_begun(shared)
    mark_begun(shared)
    put_request_back(shared)
    assert is_begun(shared) and take_request(shared) == b""
