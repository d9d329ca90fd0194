"""The demo app: a page for people, the environ for programs, and an echo."""

import html
import html.parser
import io
import json
import sys
import threading
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest

from aserve.demo import app
from aserve.settings import VERSION

pytestmark = pytest.mark.long_on_pypy


def request(method="GET", path="/", body=b"", **extra):
    """Call the app through wsgiref's validator; return status, headers, body."""
    environ = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": "",
        "CONTENT_LENGTH": str(len(body)) if body else "",
        "wsgi.input": io.BytesIO(body),
        "SERVER_PROTOCOL": "HTTP/1.1",
        **extra,
    }
    setup_testing_defaults(environ)
    started = []
    iterable = validator(app)(environ, lambda status, headers, exc_info=None: started.append((status, dict(headers))))
    received = b"".join(iterable)
    iterable.close()
    ((status, headers),) = started
    return status, headers, received


class Outline(html.parser.HTMLParser):
    """The unclosed elements of a page, and the addresses to be fetched."""

    VOID = ("meta", "link", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.links = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID and tag not in ("circle", "path", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("circle", "path", "rect"):
            assert self.open.pop() == tag


def test_page_shows_its_server_and_needs_nothing():
    status, headers, body = request(REMOTE_ADDR="192.0.2.1", REMOTE_PORT="99", QUERY_STRING="a=b")
    assert status == "200 OK"
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert int(headers["Content-Length"]) == len(body)
    page = body.decode()
    for part in (
        f"Version {VERSION} on ",
        "HTTP/1.1",
        "192.0.2.1 port 99",
        "GET /?a=b",
        threading.current_thread().name,
        "wsgi.url_scheme",
        "aserve hello:app",
        '"text/plain")]',
    ):
        assert part in page
    assert "$" not in page


def test_page_is_whole_and_self_contained():
    """Every element is closed, and nothing is fetched from elsewhere."""
    outline = Outline(request()[2].decode())
    assert outline.open == []
    assert [link for link in outline.links if not link.startswith("data:")] == ["/environ.json"]


def test_five_lines_work():
    """The app to paste is an app."""
    page = request()[2].decode()
    source = html.unescape(page.partition("<pre>")[2].partition("</pre>")[0])
    names: dict[str, object] = {}
    exec(source, names)
    assert source.count("\n") == 4
    started = []
    assert names["app"]({}, lambda *args: started.append(args)) == [b"My own hello world!\n"]
    assert started == [("200 OK", [("Content-Type", "text/plain")])]


@pytest.mark.parametrize("name", ["HTTP_HOST", "HTTP_X_<I>", "REQUEST_URI", "REMOTE_ADDR", "QUERY_STRING"])
def test_everything_is_escaped(name):
    """A client's octets are shown as text everywhere."""
    page = request(**{name: "<script>alert(1)</script>&\"'"})[2].decode()
    assert "<script>" not in page
    assert "HTTP_X_<I>" not in page
    assert "&lt;script&gt;" in page
    Outline(page)


@pytest.mark.parametrize(
    ("environ", "shown"),
    [
        ({"wsgi.multithread": True}, "one of several"),
        ({"wsgi.multithread": False}, "the event loop&#x27;s own"),
        ({"REMOTE_ADDR": "192.0.2.1"}, "<b>192.0.2.1</b>"),
        ({"REMOTE_ADDR": ""}, "<b>a unix socket</b>"),
        ({"HTTP_HOST": "example.org"}, "curl -d hi http://example.org/echo"),
        ({"HTTP_HOST": ""}, "curl -d hi http://127.0.0.1:8000/echo"),
        ({"RAW_URI": "/%41"}, "GET /%41"),
        ({"HTTP_X": "\xff"}, "\xff"),
        ({"HTTP_X": "\udcff"}, "\\udcff"),
    ],
)
def test_facts_have_a_form_when_missing(environ, shown):
    assert shown in request(**environ)[2].decode()


@pytest.mark.parametrize(("loaded", "shown"), [(True, "<b>uvloop</b>"), (False, "<b>asyncio</b>")])
def test_loop_shown_is_the_one_loaded(monkeypatch, loaded, shown):
    monkeypatch.delitem(sys.modules, "uvloop", raising=False)
    if loaded:
        monkeypatch.setitem(sys.modules, "uvloop", object())
    assert shown in request()[2].decode()


def test_environ_json_is_sorted():
    """A value unknown to JSON is shown by repr."""
    status, headers, body = request(path="/environ.json", QUERY_STRING="q")
    found = json.loads(body)
    assert (status, headers["Content-Type"]) == ("200 OK", "application/json")
    assert list(found) == sorted(found)
    assert found["QUERY_STRING"] == "q"
    assert found["wsgi.version"] == "(1, 0)"
    assert found["wsgi.multithread"] in (True, False)


@pytest.mark.parametrize("size", [0, 1, 65536, 200_000])
def test_echo_returns_the_body_unchanged(size):
    """The body comes back, but never as a page."""
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    status, headers, received = request("POST", "/echo", body, CONTENT_TYPE="text/html")
    assert (status, received) == ("200 OK", body)
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers.get("Content-Length", "0") == str(size)


def test_echo_of_a_body_without_a_length():
    """A chunked body is read to the promised end."""
    environ = {"CONTENT_LENGTH": "", "wsgi.input_terminated": True}
    _, headers, received = request("POST", "/echo", b"chunks", **environ)
    assert received == b"chunks"
    assert "Content-Length" not in headers
    assert request("POST", "/echo", b"ignored", CONTENT_LENGTH="")[2] == b""


def test_echo_of_a_short_body():
    """When the client is gone, so is the rest."""
    assert request("POST", "/echo", b"short", CONTENT_LENGTH="10")[2] == b"short"


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/echo", "405 Method Not Allowed", "POST"),
        ("POST", "/", "405 Method Not Allowed", "GET, HEAD"),
        ("PUT", "/environ.json", "405 Method Not Allowed", "GET, HEAD"),
        ("HEAD", "/", "200 OK", None),
        ("GET", "", "200 OK", None),
        ("GET", "/favicon.ico", "404 Not Found", None),
    ],
)
def test_paths_and_methods(method, path, status, allow):
    """Everything else names the known paths."""
    found, headers, _ = request(method, path)
    assert found == status
    assert headers.get("Allow") == allow
    assert headers["X-Content-Type-Options"] == "nosniff"
