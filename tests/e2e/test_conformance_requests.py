"""PEP 3333 and CGI from end to end: the environ and the body of a request, as apps see them."""

import os

import pytest
from harness import apps
from harness.rules import rule

pytestmark = [pytest.mark.also_inline, pytest.mark.also_http2, pytest.mark.c_and_python]
POST = "POST / HTTP/1.1\r\nHost: test\r\n"


@rule(
    'PEP 3333 "environ Variables"',
    "the environ has these names, as native strings",
    "it has, and nothing of the process's environment",
)
@rule("RFC 9110 5.2", "a repeated field is joined by commas", "joined")
@rule("RFC 6265 5.4", "cookies are joined by semicolons", "joined")
@rule(
    "RFC 3875 4.1.18",
    "`-` becomes `_`",
    "it does; a field with `_` in its name is dropped, so that it cannot pass for another",
    "stricter",
    "a client could send X_Forwarded_For where a proxy sets X-Forwarded-For",
)
def test_the_environ_is_complete(start_server, raw_client, monkeypatch):
    """The environ is complete, of native strings, and holds nothing of the process's environment."""
    monkeypatch.setenv("SECRET_OF_THE_PROCESS", "leaked")
    server = start_server(apps.environ_json)
    client = raw_client(server)
    target = "/a%20b/%C3%BC//c?q=%20&r"
    reply = client.fetch(target, "X-Twice: 1", "X-Twice: 2", "Cookie: a=1", "Cookie: b=2", "X_Under: 1")
    environ = reply.json()
    host, port = server.address
    assert "leaked" not in reply.body.decode()
    assert not set(environ) & set(os.environ)
    expected = {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/a b/\xc3\xbc//c",
        "QUERY_STRING": "q=%20&r",
        "REQUEST_URI": target,
        "SERVER_PROTOCOL": client.protocol,
        "SERVER_NAME": host,
        "SERVER_PORT": str(port),
        "REMOTE_ADDR": "127.0.0.1",
        "REMOTE_PORT": str(client.sock.getsockname()[1]),
        "HTTP_HOST": "test",
        "HTTP_X_TWICE": "1, 2",
        "HTTP_COOKIE": "a=1; b=2",
        "wsgi.version": [1, 0],
        "wsgi.url_scheme": server.url.partition(":")[0],
        "wsgi.multithread": server.server.config.threads > 1,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        "wsgi.input_terminated": True,
    }
    assert {name: environ.get(name) for name in expected} == expected
    assert "HTTP_X_UNDER" not in environ
    assert {"wsgi.input", "wsgi.errors", "wsgi.file_wrapper", "wsgi.early_hints"} <= set(environ)


@rule('PEP 3333 "environ Variables"', "the app may change its environ", "no other request sees it")
def test_environ_is_the_requests_own(start_server, raw_client):
    """The next request does not see an app's changes to the environ."""

    def app(environ, start_response):
        seen = "mark" in environ
        environ["mark"] = environ["wsgi.url_scheme"] = "mine"
        start_response("200 OK", apps.PLAIN)
        return [str(seen).encode()]

    client = raw_client(start_server(app))
    assert [client.fetch().body for _ in range(3)] == [b"False"] * 3


@rule("RFC 9112 3.2.4", "OPTIONS may ask for the server as a whole", "REQUEST_URI `*`, an empty PATH_INFO")
def test_options_asterisk_reaches_the_app(start_server, raw_client):
    environ = raw_client(start_server(apps.environ_json)).fetch("*", method="OPTIONS").json()
    assert (environ["REQUEST_METHOD"], environ["REQUEST_URI"]) == ("OPTIONS", "*")
    assert environ["PATH_INFO"] in ("", "/")


LINES = b"first\nsecond\r\n\nno end"
READS = [
    ("read;read", [LINES, b""]),
    ("read(-1);read(-1)", [LINES, b""]),
    ("read(None);read", [LINES, b""]),
    ("read(0);read(5);read(10000);read(5)", [b"", LINES[:5], LINES[5:], b""]),
    ("readline;readline;readline;readline;readline",
     [b"first\n", b"second\r\n", b"\n", b"no end", b""]),
    ("readline(2);readline(-1);readline(2);read", [b"fi", b"rst\n", b"se", LINES[8:]]),
    ("readlines;readlines;read", [LINES.splitlines(True), [], b""]),
    ("readlines(1);read", [[b"first\n"], LINES[6:]]),
    ("iter;iter;read", [LINES.splitlines(True), [], b""]),
    ("next;next;read", [b"first\n", b"second\r\n", b"\nno end"]),
]  # fmt: skip


@rule(
    'PEP 3333 "Input and Error Streams"',
    "read, readline, readlines and iteration are as those of files",
    "exact octets, with every form of their arguments; they end where the body ends",
)
@pytest.mark.parametrize("is_chunked", [False, True])
def test_reading_the_body(start_server, raw_client, is_chunked):
    """Each way of reading wsgi.input gives the exact octets and ends exactly where the body ends."""
    client = raw_client(start_server(apps.read_as_told))
    if is_chunked:
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(LINES[i : i + 3]), LINES[i : i + 3]) for i in range(0, len(LINES), 3))
        framed = b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    else:
        framed = b"Content-Length: %d\r\n\r\n%b" % (len(LINES), LINES)
    for reads, results in READS:
        texts = [
            [part.decode() for part in result] if isinstance(result, list) else result.decode() for result in results
        ]
        for _ in range(2):
            client.send(f"POST /?{reads} HTTP/1.1\r\nHost: test\r\n".encode() + framed)
            assert client.recv_response().json() == texts, reads


@rule('PEP 3333 "Input and Error Streams"', "reading is safe without a body", "an empty file")
def test_reading_no_body(start_server, raw_client):
    """A request without a body has an empty wsgi.input for every way of reading."""
    client = raw_client(start_server(apps.read_as_told))
    reads = ";".join(apps.READS)
    assert not any(client.fetch(f"/?{reads}").json())
    assert not any(client.fetch(f"/?{reads}", "Content-Length: 0", method="POST").json())


@rule(
    "RFC 9112 7.1", "a chunked body is decoded", "the app gets it with its length; extensions and trailers are dropped"
)
def test_chunked_body_is_decoded(start_server, raw_client):
    """A chunked body reaches the app without its framing, with its real length."""
    client = raw_client(start_server(apps.environ_json))
    client.send(POST.encode() + b"Transfer-Encoding: chunked\r\n\r\n5;ext=1\r\nhello\r\n0\r\nTrailer: x\r\n\r\n")
    environ = client.recv_response().json()
    assert environ["CONTENT_LENGTH"] == "5"
    assert "HTTP_TRANSFER_ENCODING" not in environ
    assert "HTTP_TRAILER" not in environ


@rule(
    "RFC 9112 6.3",
    "a body ends where its framing says, read or not",
    "an unread body is never taken for the next request",
)
def test_an_unread_body_is_no_request(start_server, raw_client):
    """A body left unread by the app is not taken for the next request."""
    client = raw_client(start_server(apps.no_reading))
    for _ in range(3):
        assert client.fetch(method="POST", body=b"GET /smuggled HTTP/1.1\r\n\r\n").body == b"unread"
    assert client.is_quiet()


@rule(
    "RFC 9112 8",
    "an incomplete request is not processed",
    "the app is not called (--body stream: reading raises a ConnectionError)",
)
@pytest.mark.parametrize(
    "framing", [b"Content-Length: 10\r\n\r\n12345", b"Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n"]
)
@pytest.mark.parametrize("is_reset", [False, True])
def test_client_dies_mid_body(start_server, raw_client, framing, is_reset):
    app = apps.Recorder(apps.echo)
    server = start_server(app)
    client = raw_client(server)
    client.send(POST.encode() + framing)
    if is_reset:
        client.reset()
    else:
        client.end_sending()
        assert client.recv_to_end() == b""
    # The server has read the whole body when the next client has its answer.
    raw_client(server).fetch(method="POST", body=b"x")
    assert app.count == 1
