"""A second thread of the app that writes late: nothing of it goes into the next response of the connection."""

from __future__ import annotations

import threading

import apps
import pytest

from aserve.errors import AppError, ClientDisconnected

pytestmark = pytest.mark.any_parser


class Late:
    """Its first response leaves behind what a second thread holds; `late` does what that thread is to do then."""

    def __init__(self, form):
        self.form = form
        self.kept = None
        self.outcomes = []

    def __call__(self, environ, start_response):
        if environ["PATH_INFO"] != "/first":
            self.late(is_over=True)  # while the next exchange of the connection is with the app
            start_response("200 OK", apps.PLAIN)
            return [b"second"]
        headers = apps.PLAIN if self.form != "length" else [*apps.PLAIN, ("Content-Length", "5")]
        write = start_response("200 OK", headers)
        self.kept = write, environ["wsgi.early_hints"], start_response.__self__._send
        if self.form == "write":
            write(b"first")
            return []
        return [b"first"] if self.form == "list" else iter([b"fi", b"rst"])

    def late(self, is_over):
        """Write and hint; of a response that is over, go on where a write() was paused with its octets in hand."""

        def call():
            write, hints, send = self.kept
            calls = ((write, b"late"), (hints, [("Link", "</late>")]), (send, b"late"))
            for function, argument in calls[: 3 if is_over else 2]:
                try:
                    function(argument)
                except (AppError, ClientDisconnected) as exc:
                    self.outcomes.append(type(exc))
                else:
                    self.outcomes.append(None)

        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive()


@pytest.mark.parametrize("form", ["list", "pieces", "length", "write"])
def test_a_second_thread_that_writes_late(start_server, raw_client, form):
    """It is refused, whether the connection idles or serves another exchange; the responses are whole, and follow each other."""
    app = Late(form)
    client = raw_client(start_server(app, is_checked=False))
    for count in range(1, 3):
        assert client.fetch("/first").body == b"first"
        assert client.fetch("/second").body == b"second"
        assert client.fetch("/first").body == b"first"
        app.late(is_over=False)
        assert client.is_quiet()
        assert client.fetch("/second").body == b"second"
        assert len(app.outcomes) == 8 * count
    # With a length of its own the response drops what is too much, without a word; nothing else goes unnoticed.
    assert set(app.outcomes) - {None} == {AppError, ClientDisconnected}
    assert app.outcomes.count(None) == (6 if form == "length" else 0)
