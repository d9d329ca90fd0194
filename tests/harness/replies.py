"""Shared parts of the tests of a wire: requests, apps, and the fate of a response."""

import socket
import struct
import threading

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
GET_1_0 = b"GET / HTTP/1.0\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"
POST_1_0 = b"POST / HTTP/1.0\r\nContent-Length: 1\r\n\r\nx"


def returning(value, headers=(), status="200 OK"):
    """Return an app with this result."""

    def app(environ, start_response):
        start_response(status, list(headers))
        return value

    return app


def echo(environ, start_response):
    """Answer with the path and the body."""
    start_response("200 OK", [])
    return [environ["PATH_INFO"].encode("latin-1"), environ["wsgi.input"].read()]


def body_of(octets):
    """Return the octets behind the head of a response."""
    return octets.partition(b"\r\n\r\n")[2]


def is_reset(transport):
    """Tell whether the transport was aborted, its socket set to reset."""
    linger = transport.socket.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)
    return "abort" in transport.calls and struct.unpack("ii", linger) == (1, 0)


def is_cut(transport):
    """Tell whether the transport sends its held octets and then ends, without a reset."""
    return "write_eof" in transport.calls and "abort" not in transport.calls


class Chunks:
    """An iterable that remembers its progress, and its closes."""

    def __init__(self, *chunks, error=None, close_error=None):
        self.chunks, self.error, self.close_error = list(chunks), error, close_error
        self.made, self.closed = 0, 0
        self.is_made = threading.Semaphore(0)

    def __iter__(self):
        return self

    def __next__(self):
        if not self.chunks:
            if self.error is not None:
                raise self.error
            raise StopIteration
        self.made += 1
        self.is_made.release()
        return self.chunks.pop(0)

    def close(self):
        self.closed += 1
        if self.close_error is not None:
            raise self.close_error
