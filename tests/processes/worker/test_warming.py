"""Requests that an app answers before it serves: as from a client, and with any outcome."""

import re

import pytest

from aserve.connections.listeners import bind_listeners
from aserve.features import Config
from aserve.processes.worker import warming
from aserve.processes.worker.warming import WarmUp, WarmUpFailed


@pytest.fixture
def warm_up(caplog):
    """warm_up(app, *places, **settings): let an app answer these."""
    caplog.set_level("INFO", "aserve")
    opened = []

    def run(app, *places, **settings):
        config = Config(workers=1, bind="127.0.0.1:0", **settings)
        opened.extend(bind_listeners(config))
        one = WarmUp(app, config, opened[-1])
        for place in places:
            one.answer(place)

    yield run
    for listener in opened:
        listener.close()


def test_the_request_is_an_ordinary_get(warm_up, caplog):
    """The request is a GET like any other, for localhost or the given host."""
    seen = []

    def app(environ, start_response):
        seen.append(environ)
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"x"]

    warm_up(app, "/cart%20x?id=1", "shop.example:8000/", threads=1)
    first, second = seen
    assert (first["REQUEST_METHOD"], first["PATH_INFO"], first["QUERY_STRING"]) == ("GET", "/cart x", "id=1")
    assert (first["HTTP_HOST"], second["HTTP_HOST"]) == ("localhost", "shop.example:8000")
    assert (first["REMOTE_ADDR"], first["SERVER_NAME"], first["wsgi.url_scheme"]) == ("127.0.0.1", "127.0.0.1", "http")
    assert not first["wsgi.multiprocess"] and not first["wsgi.multithread"] and first["wsgi.input"].read() == b""
    assert re.search(r"--warm-up /cart%20x\?\.\.\.: status 200, after \d+\.\d\d s\n", caplog.text)


def test_the_response_is_read_and_closed(warm_up, tmp_path, caplog):
    """The response is read to its end and closed, in whatever form."""
    done = []
    (tmp_path / "file").write_bytes(b"octets")

    class Body:
        def __iter__(self):
            yield b"one"
            done.append("two")
            yield b"two"

        def close(self):
            done.append("closed")

    def pieces(environ, start_response):
        start_response("200 OK", [])
        return Body()

    def written(environ, start_response):
        environ["wsgi.early_hints"]([("Link", "</a.css>; rel=preload")])
        start_response("200 OK", [])(b"written")
        return []

    def file(environ, start_response):
        start_response("200 OK", [])
        opened = open(tmp_path / "file", "rb")
        done.append(opened)
        return environ["wsgi.file_wrapper"](opened)

    for app in (pieces, written, file):
        warm_up(app, "/")
    assert done[:2] == ["two", "closed"] and done[2].closed
    assert caplog.text.count("--warm-up /: status 200") == 3


@pytest.mark.parametrize(
    ("status", "place", "why"),
    [
        ("400 Bad Request", "/x", "HOST/PATH"),
        ("400 Bad Request", "shop.example/x", "does the app accept this host?"),
        ("503 No", "/x", "the log has its reason"),
    ],
)
def test_a_refusal_is_told_with_advice(warm_up, caplog, status, place, why):
    def app(environ, start_response):
        start_response(status, [])
        return [b"no"]

    warm_up(app, place)
    assert re.search(rf"--warm-up {place}: status {status[:3]}, after \d+\.\d\d s: ", caplog.text)
    assert why in caplog.text


@pytest.mark.parametrize("when", ["at once", "later"])
@pytest.mark.provokes("raised ValueError")
def test_an_app_that_raises(warm_up, caplog, when):
    """The traceback is in the log, as for any request; the next one follows."""

    def app(environ, start_response):
        if when == "at once":
            raise ValueError
        start_response("200 OK", [])
        return later()

    def later():
        yield b"one"
        raise ValueError

    warm_up(app, "/a", "/b")
    assert caplog.text.count("raised ValueError at GET /") == 2
    assert "--warm-up /a: status 500, after" in caplog.text and "--warm-up /b: status 500, after" in caplog.text


@pytest.fixture
def listeners():
    opened = bind_listeners(Config(bind="127.0.0.1:0"))
    yield opened
    for listener in opened:
        listener.close()


def test_new_code_that_fails(listeners, caplog):
    """5xx of unserved code is a failure, which names the request without its query; no further request is asked."""
    seen = []

    def app(environ, start_response):
        seen.append(environ["PATH_INFO"])
        start_response("404 No" if environ["PATH_INFO"] == "/a" else "503 No", [])
        return []

    config = Config(workers=1, warm_up=["/a", "/b?token=x", "/c"])
    with pytest.raises(
        WarmUpFailed, match=r"^the app has answered --warm-up /b\?\.\.\. with status 503; its log says why$"
    ) as caught:
        warming.warm_up(app, config, listeners, is_new=True)
    assert seen == ["/a", "/b"] and caught.value.exit_status == 1
    warming.warm_up(app, config, listeners, is_new=False)  # others serve it: a database may be away
    assert seen == ["/a", "/b", "/a", "/b", "/c"]
    assert caplog.text.count("status 503, after") == 3


def test_nothing_to_warm_up(listeners):
    """Without such requests, or without a listener, as in a trial without its own folder, the app is not called."""
    warming.warm_up(None, Config(workers=1), listeners, is_new=True)
    warming.warm_up(None, Config(workers=1, warm_up=["/"]), [], is_new=True)
