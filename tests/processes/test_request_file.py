"""A request in a file in memory, as two processes read and write it."""

from __future__ import annotations

import os

import pytest

from aserve.processes.request_file import RequestFile, look_at_request, put_request_back, take_request


def test_octets():
    """The last ones that were written are there, and the first process that takes them has them, until it puts them back."""
    file = RequestFile()
    file.write(b"x" * 100_000)
    file.write(b"the request")
    fd = file.detach()
    other = os.dup(fd)
    file.close()  # it is not this one's any more
    for _ in range(2):
        assert take_request(fd) == look_at_request(other) == b"the request"
        assert take_request(other) == take_request(fd) == b""
        put_request_back(other)
    for each in (fd, other):
        os.close(each)


def test_one_that_is_not_used():
    """Nothing is open that nothing was written to; and what was written to is closed, if no request goes with it."""
    file = RequestFile()
    file.close()
    before = len(os.listdir("/dev/fd"))
    file.write(b"")
    fd = file._fd
    file.close()
    assert len(os.listdir("/dev/fd")) == before
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
