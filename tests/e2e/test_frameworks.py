"""Real frameworks on a real server process, driven by httpx and curl."""

import pathlib
import shutil
import subprocess

import pytest

httpx = pytest.importorskip("httpx")

FOLDER = pathlib.Path(__file__).parent
APPS = FOLDER / "framework_apps.py"
LINES = "".join(f"line {number}\n" for number in range(1000))
UPLOAD = bytes(range(256)) * 8192  # 2 MiB

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


@pytest.fixture
def serve(start_process):
    """Start a framework's app: serve(name) -> (httpx client, process)."""
    clients = []

    def serve(framework, *flags, app=""):
        pytest.importorskip(framework)
        process = start_process(f"{APPS}:create_{app or framework}()", *flags)
        # trust_env: a proxy of the machine must not come between.
        clients.append(httpx.Client(base_url=process.url, trust_env=False, timeout=20))
        return clients[-1], process

    yield serve
    for client in clients:
        client.close()


def curl(*arguments):
    """Run curl; return its output."""
    command = ["curl", "--silent", "--show-error", "--fail", "--noproxy", "*", "--max-time", "20", *arguments]
    return subprocess.run(command, check=True, capture_output=True, timeout=30).stdout


@pytest.mark.long_on_pypy
def test_flask_serves_every_kind_of_view(serve):
    """Flask: routes, JSON, an upload, a stream, a file with ranges, its own error page."""
    client, process = serve("flask")
    assert client.get("/hello/W%C3%B6rld").text == "Hello W\xf6rld!"
    assert client.head("/hello/x").headers["content-length"] == "8"
    assert client.get("/none").status_code == 404
    reply = client.post("/json?a=1", json={"b": [1, 2, "\xfc"]})
    assert reply.json() == {"got": {"b": [1, 2, "\xfc"]}, "args": {"a": "1"}}
    reply = client.post("/upload", files={"file": ("name.bin", UPLOAD)}, data={"title": "\xfc"})
    assert reply.json() == {"name": "name.bin", "size": len(UPLOAD), "title": "\xfc"}
    with client.stream("GET", "/stream") as stream:
        assert "".join(stream.iter_text()) == LINES
        assert stream.headers["transfer-encoding"] == "chunked"
    whole = client.get("/file")
    assert whole.content == APPS.read_bytes()
    part = client.get("/file", headers={"Range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, APPS.read_bytes()[10:20])
    again = client.get("/file", headers={"If-None-Match": whole.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/error").status_code == 500
    assert "on purpose" in process.log


@pytest.mark.long_on_pypy
@needs_curl
def test_flask_by_curl(serve, tmp_path):
    """The same by curl: an upload with 100-continue, a chunked upload, a page."""
    _, process = serve("flask")
    (tmp_path / "name.bin").write_bytes(UPLOAD)
    assert curl(f"{process.url}/hello/curl") == b"Hello curl!"
    form = ["-F", f"file=@{tmp_path / 'name.bin'}", "-F", "title=t"]
    for more in ([], ["-H", "Expect: 100-continue"], ["-H", "Transfer-Encoding: chunked"], ["--http1.0"]):
        assert f'"size":{len(UPLOAD)}'.encode() in curl(*form, *more, f"{process.url}/upload")
    assert curl(f"{process.url}/stream").decode() == LINES
    assert curl("--http1.0", f"{process.url}/stream").decode() == LINES


@pytest.mark.long_on_pypy
def test_flask_live_body(serve):
    """Flask parses an upload while octets still come (--body stream)."""
    client, _ = serve("flask", "--body", "stream")
    for _ in range(3):
        reply = client.post("/upload", files={"file": ("name.bin", UPLOAD)}, data={"title": "x"})
        assert reply.json()["size"] == len(UPLOAD)


@pytest.mark.long_on_pypy
def test_flask_serves_on_the_event_loop(serve):
    client, _ = serve("flask", "--threads", "0")
    assert client.get("/hello/x").text == "Hello x!"
    assert client.post("/upload", files={"file": ("n", UPLOAD)}, data={"title": "x"}).json()["size"] == len(UPLOAD)


@pytest.mark.long_on_pypy
def test_werkzeugs_test_app_shows_the_environ(serve):
    client, _ = serve("werkzeug")
    page = client.get("/some/path?query=1", headers={"X-Mark": "<seen>"}).text
    assert "WSGI Information" in page
    assert "HTTP_X_MARK" in page
    assert "&lt;seen&gt;" in page
    assert "query=1" in page


@pytest.mark.long_on_pypy
def test_cherrypy_serves_every_kind_of_page(serve):
    """CherryPy mounted as a WSGI app: a page, JSON, an upload, a stream."""
    client, _ = serve("cherrypy")
    assert client.get("/").text == "Hello from CherryPy"
    assert client.post("/json", json=[1, {"a": None}]).json() == {"got": [1, {"a": None}]}
    assert client.post("/upload", files={"file": ("n.bin", UPLOAD)}).text == f"n.bin {len(UPLOAD)}"
    assert client.get("/stream").text == LINES
    assert client.get("/none").status_code == 404


@pytest.mark.long_on_pypy
def test_cherrypy_behind_internal_redirects(serve):
    """Middleware that follows a 307 within the request, and CherryPy's own for InternalRedirect, around a whole CherryPy: the app is called twice for
    one request, with a body read twice, and the client sees no redirect. The connection's next request has a fresh environ.
    """
    client, process = serve("cherrypy", app="cherrypy_redirecting")
    for _ in range(2):  # the same head again: the kept part of an environ is unchanged
        reply = client.get("/old")
        assert (reply.status_code, reply.text) == (200, "GET /new [('from', 'old')]")
        assert "location" not in reply.headers
        assert client.get("/new").text == "GET /new []"
    reply = client.post("/old", data={"a": "1", "b": "\xfc"})
    assert reply.text == "POST /new [('a', '1'), ('b', '\xfc'), ('from', 'old')]"
    assert client.get("/older").text == "GET /new [('from', 'older')]"
    assert client.get("/loop").status_code == 500
    assert client.get("/new").text == "GET /new []"
    process.wait_for_log("redirects to itself")
