"""Programs that speak HTTP/2: a browser, curl, nghttp, h2load; seen in the access log or in their output."""

import hashlib
import os
import re
import shutil
import subprocess
import threading

import pytest
from flask import Flask, request
from flask_sock import Sock
from harness import apps
from harness.browser import browsing, needs_chromium
from harness.interpreter import ONCE
from harness.tls_clients import SECONDS, curl, needs_curl_of_http2
from harness.waiting import wait_until

pytestmark = [pytest.mark.any_parser, pytest.mark.one_way]
IMAGES = 60
SIDE_BY_SIDE = 12  # more than a browser's six connections over HTTP/1.1
PAGE = """<!doctype html><title>page</title>
<form method=post action=/form><input name=a value="b c"></form>
<form method=post action=/upload enctype=multipart/form-data><input type=file name=f></form>
""" + "".join(f"<img src=/image/{number}>" for number in range(IMAGES))
IMAGE = (
    b"<svg xmlns='http://www.w3.org/2000/svg' width='20' height='20'><rect width='20' height='20' fill='green'/></svg>"
)
ARE_SHOWN = (
    f"document.images.length === {IMAGES} && [...document.images].every(one => one.complete && one.naturalWidth === 20)"
)
PROTOCOLS = "[...new Set(performance.getEntriesByType('resource').map(one => one.nextHopProtocol))].join()"
CHOOSE_A_FILE = """{
    const chosen = new DataTransfer();
    chosen.items.add(new File(['x'.repeat(3000000)], 'a.txt'));
    document.forms[1].elements.f.files = chosen.files;
    document.forms[1].submit();
}"""

TALK = """{
    window.talking = new WebSocket(location.href.replace('http', 'ws') + 'echo');
    window.talking.onmessage = one => { window.heard = one.data; };
    window.talking.onopen = () => window.talking.send('hello');
}"""


def needs(program):
    """Skip a test without this program."""
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


def site():
    """Return an app: a page of images, each sent when several are asked for at once, and two forms."""
    barrier = threading.Barrier(SIDE_BY_SIDE)

    def app(environ, start_response):
        path, body = environ["PATH_INFO"], PAGE.encode()
        kind = "text/html"
        if path.startswith("/image/"):
            barrier.wait(SECONDS)
            kind, body = "image/svg+xml", IMAGE
        elif environ["REQUEST_METHOD"] == "POST":
            body = environ["wsgi.input"].read()
            body = body if path == "/form" else b"%d x" % (1000 * body.count(b"x" * 1000))
        start_response("200 OK", [("Content-Type", kind)])
        return [body]

    return app


@needs_chromium
@ONCE
def test_a_browser_loads_and_sends_over_http_2(serve_http2, tmp_path):
    """A browser shows a page with images loaded side by side, and sends a form and a file, all over HTTP/2."""
    log = tmp_path / "log"
    server = serve_http2(site(), threads=SIDE_BY_SIDE + 4, access_log=str(log))
    with browsing(tmp_path / "profile", "--ignore-certificate-errors") as page:
        page.show(server.url)
        page.wait_for(ARE_SHOWN)
        assert page.evaluate(PROTOCOLS) == "h2"
        page.evaluate("document.forms[0].submit()")
        page.wait_for("document.body?.innerText === 'a=b+c'")
        page.show(server.url)
        page.wait_for(ARE_SHOWN)
        page.evaluate(CHOOSE_A_FILE)
        page.wait_for("document.body?.innerText === '3000000 x'")
        assert not [error for error in page.errors if "favicon" not in error]
    wait_until(lambda: "/upload" in log.read_text())
    asked = re.findall(r'"(\w+ \S+) (\S+)" (\d+)', log.read_text())
    assert {(version, status) for _, version, status in asked} == {("HTTP/2.0", "200")}
    wanted = {f"GET /image/{number}" for number in range(IMAGES)}
    assert {what for what, _, _ in asked} >= {"GET /", "POST /form", "POST /upload"} | wanted


@needs_chromium
@ONCE
def test_a_browsers_websocket(serve_http2, tmp_path):
    """A browser's WebSocket is a stream of the page's connection (RFC 8441)."""
    app, log = Flask(__name__), tmp_path / "log"

    @app.route("/")
    def page():
        return f"<!doctype html>{request.environ['REMOTE_PORT']}"

    @Sock(app).route("/echo")
    def echo(socket):
        while True:
            socket.send(socket.receive() + request.environ["REMOTE_PORT"])

    server = serve_http2(app, is_checked=False, access_log=str(log))
    with browsing(tmp_path / "profile", "--ignore-certificate-errors") as shown:
        shown.show(server.url)
        port = shown.wait_for("document.body?.innerText")
        shown.evaluate(TALK)
        assert shown.wait_for("window.heard") == f"hello{port}"
        shown.evaluate("window.talking.close()")
        wait_until(lambda: not server.statistics().connections_websocket)
    wait_until(lambda: '"GET /echo HTTP/2.0" 101' in log.read_text(), explain=log.read_text)


def digest(environ, start_response):
    """Answer with the hash of the body."""
    found = hashlib.sha256()
    for piece in iter(lambda: environ["wsgi.input"].read(50_000), b""):
        found.update(piece)
    start_response("200 OK", apps.PLAIN)
    return [found.hexdigest().encode()]


@needs_curl_of_http2
@pytest.mark.parametrize(
    "flags",
    [
        ["--data-binary", "@{}"],
        ["-T", "{}"],
        ["-H", "Expect: 100-continue", "-T", "{}"],
        ["-H", "Transfer-Encoding: chunked", "-T", "{}"],
    ],
    ids=["post", "put", "expect", "chunked"],
)
def test_a_file_of_curl_arrives_whole(serve_http2, authority, tmp_path, flags):
    (tmp_path / "file").write_bytes(octets := os.urandom(2 << 20))
    flags = [flag.format(tmp_path / "file") for flag in flags]
    assert curl(serve_http2(digest), authority, *flags).decode() == hashlib.sha256(octets).hexdigest()


@needs("nghttp")
def test_nghttp_gets_sixty_answers_at_once(serve_http2, tmp_path):
    """nghttp asks for one address sixty times at once, with a body, and gets sixty answers."""
    (tmp_path / "file").write_bytes(bytes(100_000))
    server = serve_http2(apps.echo)
    command = ["nghttp", "--no-verify-peer", "-m", "60", "-d", str(tmp_path / "file"), "-t", str(SECONDS), server.url]
    done = subprocess.run(command, capture_output=True, timeout=2 * SECONDS, check=True)
    assert done.stdout == bytes(6_000_000), done.stderr


@needs("h2load")
@pytest.mark.parametrize("size", [0, 1000, 100_000])
def test_every_request_of_h2load_is_answered(serve_http2, tmp_path, size):
    (tmp_path / "file").write_bytes(bytes(size))
    body = ["-d", str(tmp_path / "file")] if size else []
    command = ["h2load", "-n", "2000", "-c", "10", "-m", "100", *body, serve_http2(digest).url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=4 * SECONDS, check=True)
    assert "2000 done, 2000 succeeded, 0 failed, 0 errored, 0 timeout" in done.stdout, done.stdout
