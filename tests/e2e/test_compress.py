"""--compress over real sockets: the received octets, and when they come."""

import gzip
import threading
import zlib

import pytest
from harness import apps, sidecars
from harness.rules import rule
from harness.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.also_inline, pytest.mark.any_parser, pytest.mark.long_on_pypy]

PAGE = b"<p>a page of text</p>\n" * 5000
HTML = ("Content-Type", "text/html")
GZIP = "Accept-Encoding: gzip"


def page(environ, start_response):
    """Answer with a page, in the way of the path."""
    kind = environ["PATH_INFO"]
    if environ.get("HTTP_IF_NONE_MATCH") == 'W/"a"':
        start_response("304 Not Modified", [("ETag", '"a"')])
        return []
    length = [] if kind == "/stream" else [("Content-Length", str(len(PAGE)))]
    write = start_response("200 OK", [HTML, ("ETag", '"a"'), *length])
    if kind == "/write":
        write(PAGE)
        return []
    return [PAGE] if kind == "/list" else iter([PAGE[:7], PAGE[7:]] if kind == "/stream" else [PAGE])


@rule(
    "RFC 9110 8.4",
    "Content-Encoding names what was applied to the content",
    "with --compress, where Accept-Encoding takes it",
)
@rule(
    "RFC 9110 8.8.3",
    "representations that differ have different tags, or weak ones",
    "with --compress the app's tag becomes weak",
)
@pytest.mark.parametrize("path", ["/list", "/iterable", "/stream", "/write"])
def test_every_page_arrives_whole(start_server, raw_client, path, way):
    """A page arrives whole however the app answers, and the connection stays in sync."""
    server = start_server(page, compress=True, request_seconds=60 if way.threads else 0)
    client = raw_client(server)
    for _ in range(2):
        reply = client.fetch(path, GZIP)
        assert gzip.decompress(reply.body) == PAGE
        assert reply.framing == ("chunked" if path == "/stream" else "length")
        assert (reply.get("Content-Encoding"), reply.get("ETag"), reply.get("Vary")) == (
            "gzip",
            'W/"a"',
            "Accept-Encoding",
        )
        reply = client.fetch(path)
        assert (reply.body, reply.get("ETag"), reply.get("Vary")) == (PAGE, '"a"', "Accept-Encoding")
        assert client.fetch(path, GZIP, method="HEAD").get("Content-Encoding") == "gzip"
        reply = client.fetch(path, GZIP, 'If-None-Match: W/"a"')
        assert (reply.status, reply.body, reply.get("ETag")) == (304, b"", 'W/"a"')
    assert client.is_quiet()


def test_events_arrive_at_once(start_server, raw_client, way):
    """A client can read yielded data before the app goes on."""
    if not way.threads:
        pytest.skip("the app waits for its client")
    goes_on = threading.Semaphore(0)

    def app(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/event-stream")])
        for number in range(3):
            yield b"data: %d\n\n" % number
            assert goes_on.acquire(timeout=PATIENCE_SECONDS)

    client = raw_client(start_server(app, compress=True))
    client.request("/", GZIP)
    assert client.recv_head().get("Content-Encoding") == "gzip"
    decoder = zlib.decompressobj(31)
    seen = []
    for chunk in client.recv_chunks():
        event = decoder.decompress(chunk)
        if event:
            seen.append(event)
            goes_on.release()
    assert seen == [b"data: %d\n\n" % number for number in range(3)] and decoder.eof


@pytest.mark.parametrize("protocol", sidecars.PROTOCOLS)
def test_behind_a_front_server(start_server, raw_client, protocol):
    """A front server gets compressed data if its client takes gzip."""
    server = start_server(page, compress=True, bind=f"{protocol}://127.0.0.1:0")
    for path in ("/list", "/stream"):
        reply = sidecars.fetch(raw_client(server), protocol, path, HTTP_ACCEPT_ENCODING="gzip")
        assert gzip.decompress(reply.body) == PAGE and reply.fields["Content-Encoding"] == "gzip"
        assert sidecars.fetch(raw_client(server), protocol, path).body == PAGE


def test_an_app_that_fails(start_server, raw_client, way):
    """A failure before the first octet is a 500; behind it the response is cut visibly."""

    def app(environ, start_response):
        start_response("200 OK", [HTML])
        if environ["PATH_INFO"] == "/late":
            yield PAGE
        raise ZeroDivisionError

    client = raw_client(start_server(app, compress=True))
    assert client.fetch("/", GZIP).status == 500
    with pytest.raises(client.Truncated):
        client.fetch("/late", GZIP)


def test_files_stay_as_they_are(start_server, raw_client, tmp_path):
    """Files of --static are compressed beforehand, or not at all."""
    (tmp_path / "a.css").write_bytes(PAGE)
    client = raw_client(start_server(apps.hello, compress=True, static=f"/s={tmp_path}"))
    reply = client.fetch("/s/a.css", GZIP)
    assert (reply.body, reply.get("Content-Encoding")) == (PAGE, None)
