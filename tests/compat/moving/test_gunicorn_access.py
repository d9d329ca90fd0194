"""A logger's `access`, called for each request."""

import pytest

from aserve.compat.moving.gunicorn_access import logging_access

ENVIRON = {
    "REQUEST_METHOD": "GET", "REQUEST_URI": "/a?b", "PATH_INFO": "/a", "QUERY_STRING": "b", "SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "192.0.2.1",
    "HTTP_USER_AGENT": "x", "CONTENT_TYPE": "text/plain",
}  # fmt: skip


class Recorder:
    """A logger with a record of the calls."""

    def __init__(self):
        self.calls = []

    def access(self, *arguments):
        """Keep the arguments."""
        self.calls.append(arguments)


def serve(app, recorder):
    """Let an app answer; return its body."""
    started = []

    def start_response(status, headers, exc_info=None):
        started.append((status, exc_info))
        return lambda data: None

    body = logging_access(app, lambda: recorder)(ENVIRON, start_response)
    try:
        return b"".join(body), started
    finally:
        if hasattr(body, "close"):
            body.close()


@pytest.mark.parametrize("kind", [list, tuple, iter])
def test_a_response_reaches_access(kind):
    """`access` gets the response, the request, the environ and the time; a list is returned unchanged."""
    recorder, parts = Recorder(), kind([b"ab", b"c"])
    returned = []

    def app(environ, start_response):
        start_response("201 Created", [("X-Id", "7")])(b"written")
        returned.append(parts)
        return parts

    assert serve(app, recorder) == (b"abc", [("201 Created", None)])
    [(response, request, environ, passed)] = recorder.calls
    assert (response.status, response.status_code, response.headers, response.sent) == (
        "201 Created",
        201,
        [("X-Id", "7")],
        10,
    )
    assert (request.method, request.path, request.uri, request.query, request.version) == (
        "GET",
        "/a",
        "/a?b",
        "b",
        (1, 1),
    )
    assert request.headers == [("USER-AGENT", "x"), ("CONTENT-TYPE", "text/plain")] and environ is ENVIRON
    assert passed.total_seconds() >= 0


def test_errors_of_the_app_have_a_line():
    """A raising app has a line, too; the app's `close` is called, and a second head is passed on."""
    recorder = Recorder()

    def raising(environ, start_response):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        serve(raising, recorder)
    assert recorder.calls[0][0].status_code == 500
    closed = []

    class Body:
        def __iter__(self):
            return iter([b"x"])

        def close(self):
            closed.append(1)

    def replacing(environ, start_response):
        start_response("200 OK", [])
        start_response("500 Oops", [], ("a", "b", "c"))
        return Body()

    assert serve(replacing, recorder)[1] == [("200 OK", None), ("500 Oops", ("a", "b", "c"))]
    assert closed == [1] and recorder.calls[1][0].status == "500 Oops"
