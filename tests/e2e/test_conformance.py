"""PEP 3333 from end to end: known faults of servers with responses, row by row; and the page of the rows."""

import pathlib
import re
import wsgiref.validate

import pytest
from harness import apps
from harness.benchmarks import load_module
from harness.interpreter import ONCE
from harness.over_http2 import NOT_OVER_HTTP2
from harness.rules import rule

pytestmark = [pytest.mark.also_inline, pytest.mark.also_http2, pytest.mark.c_and_python]
ROOT = pathlib.Path(__file__).parents[2]


# Responses


@rule(
    'PEP 3333 "The start_response() Callable"',
    "start_response may be called as late as in the first iteration",
    "the status and the headers of that call are sent",
)
def test_lazy_start_response(start_server, raw_client):
    """A generator that calls start_response on its first iteration sends its own status and fields."""
    reply = raw_client(start_server(apps.lazy_generator)).fetch()
    assert (reply.status, reply.reason, reply.get("X-Lazy")) == (201, "Created", "yes")
    assert reply.body == b"made late"
    assert reply.framing == "chunked"


@rule(
    'PEP 3333 "The write() Callable"',
    "what write() is given is sent before what the iterable gives",
    "it is sent at once, and in that order",
)
def test_write_comes_before_the_iterable(start_server, raw_client):
    reply = raw_client(start_server(apps.written)).fetch()
    assert (reply.status, reply.body) == (200, b"written and returned")


@rule(
    'PEP 3333 "Handling the Content-Length Header"',
    "the server may compute the length of a response of one block",
    "it does for lists of any number of blocks",
)
def test_list_gets_content_length(start_server, raw_client):
    """A list's body is known as a whole: Content-Length is computed."""
    client = raw_client(start_server(apps.several_chunks))
    reply = client.fetch()
    assert (reply.body, reply.framing, reply.get("Content-Length")) == (b"one two three", "length", "13")


@rule('PEP 3333 "Specification Details"', "the app returns any iterable of bytes", "any is served")
def test_any_iterable_is_a_body(start_server, raw_client):
    assert raw_client(start_server(apps.tuple_of_chunks)).fetch().body == b"one two"


@rule(
    'PEP 3333 "Handling the Content-Length Header"',
    "the app's Content-Length is used",
    "the body is not chunked below it",
)
def test_a_generator_keeps_its_length(start_server, raw_client):
    """A generator below its own Content-Length is not chunked."""
    reply = raw_client(start_server(apps.measured_generator)).fetch()
    assert (reply.body, reply.framing) == (b"made for", "length")


@rule(
    'PEP 3333 "Specification Details"',
    "an iterable may yield nothing",
    "an empty body of length 0; the connection goes on",
)
@pytest.mark.parametrize("app", [apps.no_chunks, apps.no_chunks_lazily])
def test_no_chunk_is_an_empty_body(start_server, raw_client, app):
    """No chunk at all is an empty body, and the connection stays usable."""
    client = raw_client(start_server(app))
    for _ in range(2):
        reply = client.fetch()
        assert (reply.status, reply.body, reply.framing) == (200, b"", "length")


@rule("RFC 9110 15.3.5", "a 204 response has no body", "what the app gives is dropped, and so is its Content-Length")
@rule(
    "RFC 9110 15.4.5", "a 304 response has no body", "what the app gives is dropped; its Content-Length stays, but no 0"
)
@rule("RFC 9112 6.1", "no Transfer-Encoding in a 1xx or 204 response", "none, nor in a 304")
@pytest.mark.parametrize("app", [apps.status, apps.status_lazily, apps.status_with_length])
@pytest.mark.parametrize("code", [204, 304])
def test_statuses_without_body(start_server, raw_client, app, code):
    """RFC 9112 6.3: 204 and 304 have no body whatever the app gives, and no chunked coding."""
    client = raw_client(start_server(app))
    for _ in range(2):
        reply = client.fetch(f"/{code}")
        assert (reply.status, reply.get("Transfer-Encoding")) == (code, None)
        if code == 204:
            assert reply.get("Content-Length") is None
        assert client.is_quiet()


@rule(
    "RFC 9110 8.6",
    "a Content-Length of a 304 response is that of the 200 response",
    "a 0 is dropped: frameworks count the body that they have emptied; the length of a HEAD's response stays",
)
@pytest.mark.parametrize(
    ("target", "method", "length"),
    [("/304", "GET", None), ("/304", "HEAD", None), ("/200", "HEAD", "0"), ("/200", "GET", "0")],
)
def test_a_length_of_0(start_server, raw_client, target, method, length):
    """A 304 response with length 0 would make caches forget the true length."""

    def app(environ, start_response):
        start_response(environ["PATH_INFO"][1:] + " Test", [("Content-Length", "0")])
        return []

    client = raw_client(start_server(app))
    for _ in range(2):
        assert client.fetch(target, method=method).get("Content-Length") == length
    assert client.is_quiet()


@rule(
    "RFC 9110 9.3.2",
    "the response to HEAD has the fields of GET's and no body",
    "not one octet of body, whatever the app gives; the length if it is known",
)
@pytest.mark.parametrize(
    ("app", "length"),
    [
        (apps.hello, "6"),
        (apps.measured_generator, "8"),
        (apps.lazy_generator, None),
        (apps.written, None),
        (apps.no_chunks, None),
        (apps.endless_with_length, "4"),
    ],
)
def test_head_has_no_body(start_server, raw_client, app, length):
    """HEAD gets the head of GET and not one octet of body; the next request is answered."""
    client = raw_client(start_server(app))
    for _ in range(2):
        reply = client.fetch(method="HEAD")
        assert reply.status in (200, 201)
        assert reply.get("Content-Length") == length
        assert client.is_quiet()


@rule(
    'PEP 3333 "Handling the Content-Length Header"',
    "nothing is sent beyond Content-Length",
    "the body is cut there, and the log says so; the connection stays in sync",
)
@pytest.mark.parametrize("app", [apps.too_long, apps.too_long_lazily, apps.too_long_written])
def test_longer_than_content_length(start_server, raw_client, app):
    """A body is cut at its Content-Length: no rest is read as a further response."""
    client = raw_client(start_server(app))
    for _ in range(2):
        reply = client.fetch()
        assert (reply.status, reply.body) == (200, b"1234")
    assert client.is_quiet()


@rule(
    'PEP 3333 "Handling the Content-Length Header"',
    "the server stops iterating when enough has been sent",
    "it stops, and closes the iterable",
)
def test_endless_with_length(start_server, raw_client):
    """PEP 3333: the server stops iterating when enough has been sent, and closes."""
    client = raw_client(start_server(apps.endless_with_length))
    for _ in range(2):
        assert client.fetch().body == b"1234"


@rule(
    'PEP 3333 "Specification Details"',
    "the iterable is run to its end",
    "also when its Content-Length is reached exactly",
)
def test_code_after_the_last_chunk_runs(start_server, raw_client):
    """A generator that gave exactly its Content-Length is run to its end."""
    ends = []

    def app(environ, start_response):
        start_response("200 OK", [("Content-Length", "4")])
        yield b"1234"
        ends.append(True)

    server = start_server(app)
    client = raw_client(server)
    for _ in range(2):
        assert client.fetch().body == b"1234"
    server.stop()
    assert ends == [True, True]


@rule(
    'PEP 3333 "Handling the Content-Length Header"',
    "a body shorter than Content-Length is an error",
    "the connection closes before the length is reached, so that nobody takes it for whole; the log says so",
)
@rule("RFC 9112 9.6", "the connection is closed after a body shorter than declared", "closed")
@pytest.mark.parametrize("app", [apps.too_short, apps.too_short_lazily])
def test_shorter_than_content_length(start_server, raw_client, app):
    """A body that ends early is seen as cut short: its connection closes, and is not reset, since the length shows the cut."""
    client = raw_client(start_server(app))
    with pytest.raises(client.Truncated) as caught:
        client.fetch()
    assert not caught.value.is_reset


@rule("RFC 9112 6.3", "a body shorter than declared is incomplete", "the same when none of it came")
def test_nothing_of_content_length(start_server, raw_client):
    """A body that never begins is no whole response either."""
    client = raw_client(start_server(apps.nothing_with_length))
    with pytest.raises(client.Truncated):
        client.fetch()


@rule(
    'PEP 3333 "Error Handling"',
    "an error after the head cannot become a response",
    "the connection ends: no last chunk, no second head; a reset where only that shows it",
)
@rule("RFC 9112 8", "an incomplete chunked body has no last chunk", "no last chunk, and the end of the connection")
@pytest.mark.parametrize("app", [apps.raises_mid_stream, apps.raises_written])
def test_exception_mid_stream(start_server, raw_client, app, caplog):
    """An exception after the head is seen as truncation: no end of the chunked body, no second head."""
    server = start_server(app)
    client = raw_client(server)
    with pytest.raises(client.Truncated) as caught:
        client.fetch()
    assert b"0\r\n\r\n" not in caught.value.octets and not caught.value.is_reset
    assert b"500" not in caught.value.octets
    server.stop()
    assert "raised ValueError at GET /" in caplog.text


@rule(
    'PEP 3333 "Error Handling"',
    "an error before the head is caught by the server",
    "500 without details, a traceback in the log; the connection goes on",
)
@pytest.mark.parametrize("app", [apps.raises, apps.raises_started, apps.raises_lazily, apps.exits])
def test_exception_before_the_head(start_server, raw_client, app):
    """An exception before the head is out gives a 500, and the connection lives on."""
    client = raw_client(start_server(app))
    for _ in range(2):
        reply = client.fetch()
        assert reply.status == 500
        assert b"on purpose" not in reply.body  # the log knows; the client need not
    reply = client.fetch(method="HEAD")
    assert (reply.status, client.is_quiet()) == (500, True)


@rule(
    'PEP 3333 "The start_response() Callable"',
    "with exc_info, status and headers are replaced while they are not sent",
    "replaced, not added to",
)
def test_exc_info_replaces(start_server, raw_client):
    """start_response with exc_info replaces status and headers while the head is not out."""
    reply = raw_client(start_server(apps.error_replaces)).fetch()
    assert (reply.status, reply.body) == (503, b"sorry")
    assert reply.get("Content-Type") == "text/html"
    assert reply.get("X-First") is None


@rule(
    'PEP 3333 "The start_response() Callable"',
    "with exc_info after the head, the error is raised again",
    "raised; the response is cut short",
)
def test_exc_info_raises_after_the_head(start_server, raw_client, caplog):
    """Once the head is out, start_response raises the given error; the body is truncated."""
    server = start_server(apps.error_too_late)
    client = raw_client(server)
    with pytest.raises(client.Truncated) as caught:
        client.fetch()
    assert b"never sent" not in caught.value.octets
    server.stop()
    assert "raised KeyError" in caplog.text


@rule(
    'PEP 3333 "The start_response() Callable"',
    "a second call without exc_info is a fatal error",
    "500, and the log names the rule",
)
def test_second_start_response(start_server, raw_client, caplog):
    """A second start_response without exc_info is refused, and the log names the rule."""
    server = start_server(apps.started_twice)
    reply = raw_client(server).fetch()
    assert reply.status == 500
    server.stop()
    assert "a second time without exc_info" in caplog.text


@rule(
    'PEP 3333 "The start_response() Callable"',
    "start_response is called before the first block",
    "500 for a body without it",
)
def test_no_start_response(start_server, raw_client):
    """A body without start_response is a 500."""
    assert raw_client(start_server(apps.not_started)).fetch().status == 500


@rule(
    'PEP 3333 "Unicode Issues"',
    "bodies are bytes",
    "500 for str, bytearray and everything else; after the head the response is cut short",
)
@pytest.mark.parametrize(
    ("value", "told"),
    [
        (["text"], "must be made of bytes, not str"),
        ([b"good", "text"], "must be made of bytes, not str"),
        ([bytearray(b"x")], "not bytearray"),
        ("text", "not str"),
        (None, "returned None, not an iterable of bytes"),
        (17, "returned int, not an iterable of bytes"),
    ],
)
def test_body_of_a_wrong_type(start_server, raw_client, caplog, value, told):
    """A body that is not an iterable of bytes is refused, and the log names the app and the value."""
    server = start_server(apps.returns(value))
    client = raw_client(server)
    try:
        assert client.fetch().status == 500
    except client.Truncated:
        assert value == [b"good", "text"]
    server.stop()
    assert told in caplog.text


BAD_STARTS = [
    ("200 OK", [("X-Bad", "a\r\nX-Injected: 1")]),
    ("200 OK", [("X-Bad", "a\nX-Injected: 1")]),
    ("200 OK", [("X-Bad", "a\rb")]),
    ("200 OK", [("X-Bad", "a\0b")]),
    ("200 OK", [("X-Bad\r\nX-Injected", "1")]),
    ("200 OK", [("X Bad", "1")]),
    ("200 OK", [("", "1")]),
    ("200 OK", [("X-Bad:", "1")]),
    ("200 OK\r\nX-Injected: 1", []),
    ("200 OK", [("X-Bad", "\u20ac")]),
    ("200 \u20ac", []),
    ("200 OK", [("X-Bad\u20ac", "1")]),
    ("200 OK", [("Connection", "close")]),
    ("200 OK", [("Transfer-Encoding", "chunked")]),
    ("200 OK", [("Upgrade", "websocket")]),
    ("200 OK", [("Content-Length", "-1")]),
    ("200 OK", [("Content-Length", "1, 1")]),
    ("200 OK", [("Content-Length", "1"), ("content-length", "2")]),
    ("OK", []),
    ("20 OK", []),
    ("2000 OK", []),
    (200, []),
    (b"200 OK", []),
    ("200 OK", [("X-Bad", b"1")]),
    ("200 OK", [(b"X-Bad", "1")]),
    ("200 OK", [("X-Bad", 1)]),
    ("200 OK", [("X-Bad",)]),
    ("200 OK", None),
]


@rule(
    'PEP 3333 "The start_response() Callable"',
    "status and headers have their form; nothing may be injected",
    "500 for line ends, controls, bad names, statuses and lengths; nothing of it is sent",
)
@rule(
    'PEP 3333 "Other HTTP Features"',
    "hop-by-hop fields are not the app's",
    "500 for Connection, Transfer-Encoding, Upgrade and the like",
)
def test_bad_start_response(start_server, raw_client):
    """A forbidden status or field gives a 500, and does not reach the client."""

    def app(environ, start_response):
        return apps.starts_with(*BAD_STARTS[int(environ["QUERY_STRING"])])(environ, start_response)

    client = raw_client(start_server(app))
    for number, arguments in enumerate(BAD_STARTS):
        for _ in range(2):
            reply = client.fetch(f"/?{number}")
            assert reply.status == 500, arguments
            assert "injected" not in str(reply.fields).lower(), arguments


@rule('PEP 3333 "Unicode Issues"', "statuses and fields are latin-1", "500 for others, from a generator, too")
def test_bad_field_from_a_generator(start_server, raw_client):
    """A field value outside latin-1 is the app's error before the head is out: a 500, no cut."""

    def app(environ, start_response):
        start_response("200 OK", [("X-Bad", "\u20ac")])
        yield b"body"

    assert raw_client(start_server(app)).fetch().status == 500


@rule(
    'PEP 3333 "Unicode Issues"',
    "field values are octets as latin-1, in requests and responses",
    "every octet that is no control passes both ways, UTF-8 or not",
)
def test_latin_1_field_values(start_server, raw_client):
    """Field values are octets as latin-1, both ways, and so is the reason."""
    client = raw_client(start_server(apps.latin_1))
    back = bytes([*range(0x21, 0x7F), *range(0x80, 0x100)])
    client.send(b"GET / HTTP/1.1\r\nHost: test\r\nX-Back: " + back + b"\r\n\r\n")
    reply = client.recv_response()
    assert reply.reason == "Gr\xfc\xdfe" or client.protocol == "HTTP/2.0"  # without a reason
    assert reply.get("X-All").encode("latin-1") == b"x" + bytes([9, *range(32, 127), *range(128, 256)]) + b"x"
    assert reply.body == back


@rule("RFC 9110 6.6.1", "a response has one Date", "ours, or the app's own")
@rule("RFC 9110 5.3", "repeated fields stay in order", "as the app gave them")
def test_date_and_server(start_server, raw_client):
    """Date and Server are added once, unless the app set them; repeats stay repeats."""
    reply = raw_client(start_server(apps.hello)).fetch()
    assert reply.get("Server") == "aserve"
    assert reply.get("Date").endswith(" GMT")
    reply = raw_client(start_server(apps.two_servers)).fetch()
    assert reply.get("Server") == "mine"
    assert reply.get("Date") == "Sun, 06 Nov 1994 08:49:37 GMT"
    assert [value for name, value in reply.fields if name == "Set-Cookie"] == ["a=1", "b=2"]


@rule('PEP 3333 "Specification Details"', "close() of the iterable is called at the end", "once, also when it raises")
def test_close_is_called_once(start_server, raw_client):
    """close() of the iterable is called, once, also when it raises; the response is whole."""
    for error in (None, ValueError("on purpose")):
        app = apps.Streamer(lambda: [b"a", b"b"], close_error=error)
        client = raw_client(start_server(app))
        for count in (1, 2):
            assert client.fetch().body == b"ab"
            assert app.made[count - 1].closed.wait(30)
        assert [chunks.close_count for chunks in app.made] == [1, 1]


@rule('PEP 3333 "Specification Details"', "close() is called also after an error", "once")
def test_close_after_an_exception(start_server, raw_client):
    """close() is called when the iterable raises, too."""

    def failing():
        yield b"a"
        raise ValueError("on purpose")

    app = apps.Streamer(failing)
    client = raw_client(start_server(app))
    with pytest.raises(client.Truncated):
        client.fetch()
    assert app.made[0].closed.wait(30)
    assert app.made[0].close_count == 1


# The page


def _page():
    return load_module(ROOT / "docs/make_conformance.py")


@ONCE
@pytest.mark.checkout
def test_the_page_is_up_to_date():
    """docs/conformance.md equals the output of `make docs`."""
    assert (ROOT / "docs/conformance.md").read_text() == _page().build_page(), "run `make docs`"


@ONCE
@pytest.mark.checkout
def test_every_rule_is_one():
    """Each file of request pairs has a clause and, where it deviates, a reason, as a rule has."""
    for row in _page().collect_pairs():
        rule(*row[:5])


@ONCE
@pytest.mark.checkout
def test_deviations_are_on_the_page():
    """Where the source claims to be stricter than a clause of an RFC, the page says so, too."""
    page = _page()
    told = {row.clause for row in [*page.collect_rules(), *page.collect_pairs()] if row.kind == "stricter"}
    found = set()
    for path in [*(ROOT / "cparsers").glob("*.c"), *(ROOT / "aserve").rglob("*.py")]:
        found |= set(re.findall(r"Stricter than\s+(?:[*#]\s+)?((?:RFC|PEP) \d+ [\d.]*\d)", path.read_text()))
    assert len(found) > 8
    assert found - told == set()


@ONCE
@pytest.mark.checkout
def test_what_is_left_out_over_http2():
    """Each name of the table is a test's that would run over HTTP/2 otherwise."""
    texts = [path.read_text() for path in (ROOT / "tests/e2e").glob("test_*.py")]
    names = {name for text in texts if "mark.also_http2" in text for name in re.findall(r"^def (test_\w+)", text, re.M)}
    assert set(NOT_OVER_HTTP2) <= names


# wsgiref.validate round every path


@rule(
    'PEP 3333 "Specification Details"',
    "server and app keep the protocol",
    "wsgiref.validate finds nothing around any kind of response",
)
@pytest.mark.parametrize(
    ("app", "method", "body", "expected"),
    [
        (apps.hello, "GET", b"", b"hello\n"),
        (apps.hello, "HEAD", b"", b""),
        (apps.several_chunks, "GET", b"", b"one two three"),
        (apps.tuple_of_chunks, "GET", b"", b"one two"),
        (apps.measured_generator, "GET", b"", b"made for"),
        (apps.lazy_generator, "GET", b"", b"made late"),
        (apps.written, "GET", b"", b"written and returned"),
        (apps.no_chunks, "GET", b"", b""),
        (apps.error_replaces, "GET", b"", b"sorry"),
        (apps.count_body, "POST", b"12345", b"5 255"),
        (apps.no_reading, "POST", b"12345", b"unread"),
        (apps.file_sender(lambda: open(__file__, "rb"), *apps.PLAIN), "GET", b"", None),
    ],
)
def test_the_validator_finds_nothing(start_server, raw_client, capfd, app, method, body, expected):
    """The standard library's validator finds nothing to complain about."""
    if expected is None:
        with open(__file__, "rb") as file:
            expected = file.read()
    server = start_server(wsgiref.validate.validator(_typed(app)), is_checked=False)
    client = raw_client(server)
    for _ in range(2):
        reply = client.fetch(method=method, body=body)
        assert reply.status < 500 or app is apps.error_replaces
        assert reply.body == expected
    server.stop()
    assert "without being closed" not in capfd.readouterr().err


def _typed(app):
    """Add the Content-Type, which the validator demands of every response."""

    def typed(environ, start_response):
        def start(status, headers, *exc_info):
            if not any(name == "Content-Type" for name, _ in headers):
                headers = [*headers, *apps.PLAIN]
            return start_response(status, headers, *exc_info)

        return app(environ, start)

    return typed
