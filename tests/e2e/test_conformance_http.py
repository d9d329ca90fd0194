"""RFC 9110 and 9112 from end to end: rules known to be broken by servers, on each parser."""

import asyncio
import email.utils

import pytest
from harness import apps
from harness.rules import rule

pytestmark = [pytest.mark.also_inline, pytest.mark.also_http2, pytest.mark.c_and_python]

POST = "POST / HTTP/1.1\r\nHost: test\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: test\r\n\r\n"


# Refused requests (more in corpus/desync)


MALFORMED = [
    "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n",
    "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "Content-Length: +5\r\n\r\nhello",
    "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "Content-Length: 5, 6\r\n\r\nhello",
    "Content-Length : 5\r\n\r\nhello",
    "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "Content-Type: text/plain\r\nContent-Type: text/html\r\n\r\n",
    "X-Folded: a\r\n b\r\n\r\n",
    "X-Control: a\x01b\r\n\r\n",
    "X-Nul: a\x00b\r\n\r\n",
]


@pytest.mark.long_on_pypy
@rule("RFC 9112 7.1", "a chunk size is hexadecimal digits", "400 for signs, 0x, white space and all else, then closed")
@rule("RFC 9112 6.1", "Content-Length beside Transfer-Encoding may be refused", "400, then closed")
@rule("RFC 9112 6.1", "a request whose last coding is not chunked is answered 400", "400, then closed")
@rule("RFC 9112 6.3", "an invalid or repeated Content-Length is answered 400", "400, then closed")
@rule("RFC 9112 5.1", "white space before the colon is answered 400", "400, then closed")
@rule("RFC 9112 5.2", "a folded line may be refused", "400, then closed")
@rule(
    "RFC 9110 8.3",
    "of several Content-Types, recipients often take the last",
    "400 for two that differ, then closed",
    "stricter",
    "a rule in front of us may have read the first",
)
@rule(
    "RFC 9110 5.5",
    "CR, LF and NUL in a value are refused or replaced",
    "400 for every control but the tab, then closed",
    "stricter",
    "the RFC leaves the others to us; logs and terminals obey them",
)
def test_malformed_requests_are_refused(start_server, raw_client):
    """A request that two servers could read in two ways is refused, and the connection closed."""
    app = apps.Recorder(apps.echo)
    server = start_server(app)
    for rest in MALFORMED:
        client = raw_client(server)
        client.send((POST + rest).encode("latin-1"))
        reply = client.recv_response()
        assert (reply.status in (400, 501), reply.get("Connection")) == (True, "close"), rest
        assert client.recv_to_end() == b"", rest
    assert app.count == 0


MALFORMED_HEADS = [
    b"GET / HTTP/1.1\nHost: a\n\n",
    b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
    b"GET / HTTP/1\r\nHost: a\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
]


@pytest.mark.long_on_pypy
@rule(
    "RFC 9112 2.2",
    "an LF alone may end a line",
    "400, then closed",
    "stricter",
    "readers differ on it, and no client needs it",
)
@rule("RFC 9112 2.2", "a bare CR is invalid", "400, then closed")
@rule("RFC 9112 2.3", "the version is HTTP/ and two digits", "400, then closed; 505 for another major version")
def test_malformed_heads_get_a_400(start_server, raw_client):
    server = start_server(apps.hello)
    for octets in MALFORMED_HEADS:
        client = raw_client(server)
        client.send(octets)
        assert client.recv_response().status == 400, octets
        assert client.recv_to_end() == b"", octets


@rule("RFC 9112 2.3", "HTTP/0.9 is another protocol", "400 or 505, then closed")
def test_http_0_9(start_server, raw_client):
    """A request line without a version is refused."""
    client = raw_client(start_server(apps.hello))
    client.send(b"GET /\r\n\r\n")
    assert client.recv_response().status in (400, 505)
    assert client.recv_to_end() == b""


BAD_HOSTS = [
    "",
    "Host: a\r\nHost: b\r\n",
    "Host: a\r\nHost: a\r\n",
    "Host: a\r\nhOST: b\r\n",
    "Host: a, b\r\n",
    "Host: a,b\r\n",
    "Host: u@a\r\n",
    "Host: u:p@a\r\n",
    "Host: a/\r\n",
    "Host: a/b\r\n",
    "Host: http://a\r\n",
    "Host: a b\r\n",
    "Host: a:b\r\n",
    "Host: a:1:2\r\n",
    "Host: [::1\r\n",
    "Host: [a]\r\n",
    "Host: :80\r\n",
    "Host: a?b\r\n",
    "Host: a\\b\r\n",
    "Host: \xe9\r\n",
    "Host : a\r\n",
]


@pytest.mark.long_on_pypy
@rule("RFC 9112 3.2", "an HTTP/1.1 request without Host is answered 400", "400, then closed")
@rule("RFC 9112 3.2", "a request with more than one Host is answered 400", "400, then closed, even if they are equal")
@rule("RFC 9112 3.2", "an invalid Host is answered 400", "400 for paths, URIs, white space, bad ports and brackets")
@rule("RFC 9110 4.2.4", "user information is treated as an error", "400 in Host and in the target")
@rule(
    "RFC 3986 3.2.2",
    "a comma may stand in a host's name",
    "400 for a list of hosts",
    "stricter",
    "it joins the values of a repeated Host, of which a reader could take either",
)
def test_bad_hosts_get_a_400(start_server, raw_client):
    app = apps.Recorder(apps.hello)
    server = start_server(app)
    for lines in BAD_HOSTS:
        for target in ("/", "http://c/"):
            client = raw_client(server)
            client.send(f"GET {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + SMUGGLED)
            reply = client.recv_response()
            assert (reply.status, reply.get("Connection")) == (400, "close"), lines
            assert client.recv_to_end() == b""
    assert app.count == 0


@pytest.mark.long_on_pypy
@rule("RFC 9112 3.2.2", "the host of an absolute-form target is taken in place of Host", "HTTP_HOST is the target's")
@pytest.mark.parametrize(
    ("target", "host", "path", "query"),
    [
        ("http://b/x?y", "b", "/x", "y"),
        ("HTTP://b:81", "b:81", "/", ""),
        ("http://b?y", "b", "/", "y"),
        ("https://[::1]:8/%41", "[::1]:8", "/A", ""),
    ],
)
@pytest.mark.parametrize("own", ["a", ""])
def test_an_absolute_form_overrides_host(start_server, raw_client, target, host, path, query, own):
    """The target's host is the request's, whatever Host says."""
    client = raw_client(start_server(apps.environ_json))
    for _ in range(2):
        client.send(f"GET {target} HTTP/1.1\r\nHost: {own}\r\n\r\n".encode())
        environ = client.recv_response().json()
        assert (environ["HTTP_HOST"], environ["PATH_INFO"], environ["QUERY_STRING"]) == (host, path, query)
        assert environ["REQUEST_URI"] == target


BAD_TARGETS = ["http://u@b/", "http://b,c/", "http:///x", "ftp://b/", "b:80", "*", "x"]


@pytest.mark.long_on_pypy
@rule("RFC 9110 4.2.4", "a target with user information is an error", "400, then closed")
def test_bad_targets_get_a_400(start_server, raw_client):
    server = start_server(apps.hello)
    for target in BAD_TARGETS:
        client = raw_client(server)
        client.send(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode() + SMUGGLED)
        assert client.recv_response().status == 400, target
        assert client.recv_to_end() == b"", target


@pytest.mark.long_on_pypy
@rule("RFC 9112 6.1", "Transfer-Encoding in HTTP/1.0 is faulty, and the connection is closed", "400, then closed")
@rule("RFC 9112 6.1", "the connection is closed after a request with both framings", "400, then closed")
@pytest.mark.parametrize(("version", "has_length"), [("1.0", False), ("1.0", True), ("1.1", True)])
@pytest.mark.parametrize("connection", ["", "Connection: keep-alive\r\n"])
def test_two_framings_end_the_connection(start_server, raw_client, version, has_length, connection):
    """Behind Content-Length beside Transfer-Encoding, and Transfer-Encoding in HTTP/1.0, nothing is read."""
    app = apps.Recorder(apps.echo)
    client = raw_client(start_server(app))
    head = f"POST / HTTP/{version}\r\nHost: a\r\n{connection}"
    if has_length:
        head += "Content-Length: 5\r\n"
    client.send(f"{head}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n".encode() + SMUGGLED)
    reply = client.recv_response()
    assert (reply.status, reply.get("Connection")) == (400, "close")
    assert client.recv_to_end() == b""
    assert app.count == 0


# Fields


VALUES = [b"\xff\xfe", b"\xc3\x28", b"\xe9t\xe9", "é€😀".encode(), bytes(range(0x80, 0x100))]


@pytest.mark.long_on_pypy
@rule("RFC 9110 5.5", "a value's octets above 0x7f are opaque", "each is one character of latin-1, as PEP 3333 asks")
def test_octets_in_values(start_server, raw_client):
    """Octets outside UTF-8 reach the app unchanged, under any name."""
    client = raw_client(start_server(apps.environ_json))
    for octets in VALUES * 2:
        names = (b"X-A", b"Cookie", b"User-Agent", b"Referer", b"Content-Type")
        lines = b"".join(b"%b: %b\r\n" % (name, octets) for name in names)
        client.send(b"GET /?%C3 HTTP/1.1\r\nHost: a\r\n" + lines + b"\r\n")
        environ = client.recv_response().json()
        for name in ("HTTP_X_A", "HTTP_COOKIE", "HTTP_USER_AGENT", "HTTP_REFERER", "CONTENT_TYPE"):
            assert environ[name].encode("latin-1") == octets


@rule(
    "RFC 3875 4.1.18",
    "Content-Length and Content-Type have variables of their own",
    "no HTTP_CONTENT_LENGTH or HTTP_CONTENT_TYPE, however they are spelled",
)
def test_no_second_content_length(start_server, raw_client):
    """A second length or type of the body is not in the environ."""
    client = raw_client(start_server(apps.environ_json))
    lines = ("Content_Length: 9", "HTTP-Content-Length: 9", "HTTP_CONTENT_LENGTH: 9", "Content_Type: x", "Proxy: x")
    environ = client.fetch("/", *lines, method="POST", body=b"12345").json()
    assert environ["CONTENT_LENGTH"] == "5" and environ.get("CONTENT_TYPE", "") == ""
    assert not {"HTTP_CONTENT_LENGTH", "HTTP_CONTENT_TYPE", "HTTP_PROXY"} & set(environ)


# Responses


def status_of_path(environ, start_response):
    """Answer with the status in the path, or fail."""
    path = environ["PATH_INFO"][1:]
    if not path:
        raise ValueError("on purpose")
    start_response(f"{path} Chosen", apps.PLAIN)
    return [b"chosen"]


@rule(
    "RFC 9110 6.6.1",
    "an origin server puts Date into 2xx, 3xx and 4xx responses",
    "into each of ours, whether the app answers, or we do",
)
def test_date_in_every_answer(start_server, raw_client):
    """The app's responses, refusals, failures and time-outs each have a Date."""
    limits = {"max_body_bytes": 10, "max_head_bytes": 512, "max_request_line_bytes": 100, "head_seconds": 0.2}
    server = start_server(status_of_path, **limits)
    server.hold_clock()
    get = "GET {} HTTP/1.1\r\nHost: a\r\n"
    requests = {
        200: get.format("/200"),
        204: get.format("/204"),
        304: get.format("/304"),
        404: get.format("/404"),
        500: get.format("/"),
        400: "GET / HTTP/1.1\r\n",
        413: POST + "Content-Length: 11\r\n",
        414: get.format("/" + "x" * 100),
        417: get.format("/") + "Expect: more\r\n",
        431: get.format("/") + f"X: {'x' * 512}\r\n",
        501: "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n",
        505: "GET / HTTP/2.0\r\nHost: a\r\n",
    }
    late = raw_client(server)
    late.send(b"GET / HTTP/1.1\r\n")
    for status, head in requests.items():
        client = raw_client(server)
        client.send(f"{head}\r\n".encode())
        reply = client.recv_response()
        assert reply.status == status
        assert email.utils.parsedate_to_datetime(reply.get("Date")) is not None
    server.wait_until_receiving()
    server.pass_seconds_until(lambda: not late.is_quiet())
    reply = late.recv_response()
    assert reply.status == 408 and reply.get("Date").endswith(" GMT")


@rule("RFC 9112 9.6", "after a response of unknown length to HTTP/1.0 the connection is closed", "closed")
@rule(
    "RFC 9112 9.6",
    "with Connection: close the connection is closed after the response",
    "closed, whatever its framing",
)
@pytest.mark.parametrize("app", [apps.hello, apps.lazy_generator, apps.written, apps.no_chunks_lazily])
@pytest.mark.parametrize("head", ["GET / HTTP/1.0\r\n", "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"])
def test_close_is_obeyed(start_server, raw_client, app, head):
    """A client that waits for the end of the connection sees it."""
    client = raw_client(start_server(app))
    client.send(f"{head}\r\n".encode() + SMUGGLED)
    reply = client.recv_response()
    assert reply.status in (200, 201) and reply.get("Connection") == "close"
    assert client.recv_to_end() == b""


# Exceptions of an app

ERRORS = [SystemExit(3), KeyboardInterrupt(), MemoryError(), GeneratorExit(), asyncio.CancelledError(), StopIteration()]


class Failing:
    """An iterable that raises in one place."""

    def __init__(self, error, where):
        self.error, self.where, self.count = error, where, 0

    def __iter__(self):
        if self.where == "iter":
            raise self.error
        return self

    def __next__(self):
        self.count += 1
        if self.where == "next" or (self.where == "later" and self.count == 2):
            raise self.error
        if self.count > 2:
            raise StopIteration
        return b"piece"

    def close(self):
        if self.where == "close":
            raise self.error


@rule(
    'PEP 3333 "Error Handling"',
    "the server logs what the app does not catch",
    "SystemExit, KeyboardInterrupt and MemoryError also cost that request and nothing else",
)
@pytest.mark.parametrize("where", ["call", "iter", "next", "later", "close", "write"])
def test_whatever_the_app_raises(start_server, raw_client, way, where):
    """A 500, or a cut where the head is out; then the same worker, or the loop, goes on."""

    def app(environ, start_response):
        error = ERRORS[int(environ["QUERY_STRING"])]
        write = start_response("200 OK", apps.PLAIN)
        if where == "write":
            write(b"piece")
        if where in ("call", "write"):
            raise error
        return Failing(error, where)

    server = start_server(app, is_checked=False, threads=min(way.threads, 1))
    for number, error in [*enumerate(ERRORS), (0, ERRORS[0])]:
        is_end = type(error) is StopIteration and where in ("next", "later")  # of an iterator: no error
        client = raw_client(server)
        if where in ("later", "write") and not is_end:
            with pytest.raises(client.Truncated):
                client.fetch(f"/?{number}")
        else:
            assert client.fetch(f"/?{number}").status == (200 if is_end or where == "close" else 500)
            assert client.fetch(f"/?{number}", method="HEAD").status in (200, 500)


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_whatever_a_file_raises(start_server, raw_client, way, tmp_path, number):
    """A file that aserve sends and closes behind the app's back may raise anything."""
    path = tmp_path / "file"
    path.write_bytes(b"content")

    class Unclosable:
        """A file's holder, whose close() fails."""

        def __init__(self):
            self.file = open(path, "rb")
            self.read = self.file.read

        def close(self):
            self.file.close()
            raise ERRORS[number]

    def app(environ, start_response):
        start_response("200 OK", apps.PLAIN)
        return environ["wsgi.file_wrapper"](Unclosable())

    client = raw_client(start_server(app, threads=min(way.threads, 1)))
    for _ in range(3):
        assert client.fetch().body == b"content"
