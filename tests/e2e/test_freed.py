"""An exchange and its body are freed when the response is out, without the collector."""

import logging
import sys
import tempfile
import weakref

import pytest
from harness import apps

pytestmark = [
    pytest.mark.skipif(sys.implementation.name == "pypy", reason="PyPy collects everything by tracing"),
    pytest.mark.also_inline,
]


class Watching:
    """An app in many forms with weak references to its exchanges."""

    def __init__(self):
        self.alive = []

    def __call__(self, environ, start_response):
        response = getattr(start_response, "__self__", None)  # a plain request in C has none: its argument is watched
        self.alive.append(weakref.ref(response.exchange if response is not None else environ["wsgi.input"]))
        body, form = environ["wsgi.input"].read(), environ["PATH_INFO"]
        if form == "/raises":
            raise ValueError("on purpose")
        write = start_response("200 OK", [("X-Count", str(len(body))), *apps.PLAIN])
        if form == "/hints":
            environ["wsgi.early_hints"]([("Link", "</>")])
        if form == "/file":
            file = tempfile.TemporaryFile()
            file.write(b"x" * 300_000)
            file.seek(0)
            return environ["wsgi.file_wrapper"](file)
        if form == "/write":
            write(b"x")
        if form in ("/pieces", "/cut"):
            return self.pieces(form)
        return [b"x" * (300_000 if form == "/large" else 10)]

    def pieces(self, form):
        yield b"x"
        if form == "/cut":
            raise ValueError("on purpose")
        yield b"y"


@pytest.fixture(autouse=True)
def quiet(no_collector, monkeypatch):
    """No log keeps a traceback with all its frames."""
    monkeypatch.setattr(logging.getLogger("aserve.app"), "disabled", True)


@pytest.mark.parametrize("kind", ["http", "tls", "live", "logged"])
@pytest.mark.parametrize("path", ["/", "/large", "/file", "/write", "/pieces", "/cut", "/raises"])
def test_freed_at_once(start_server, raw_client, request, wait_until, path, kind, tmp_path, way):
    """In every form of a response, with and without a body of the request."""
    settings = {"body_memory_bytes": 1000}
    if kind == "tls":
        settings.update(request.getfixturevalue("tls_settings"))
    elif kind == "logged":
        settings["access_log"] = str(tmp_path / "log")
    elif kind == "live":
        if not way.threads:
            pytest.skip("--body stream needs threads")
        settings["body"] = "stream"
    app = Watching()
    server = start_server(app, is_checked=False, **settings)
    for body in (b"", b"b" * 100, b"b" * 10_000):
        client = raw_client(server)
        client.request(path, method="POST" if body else "GET", body=body)
        try:
            client.recv_response()
        except client.Truncated:
            assert path == "/cut"
    # The connections stay, without their answered exchanges.
    wait_until(lambda: [reference() for reference in app.alive] == [None] * 3)
