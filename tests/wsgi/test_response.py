"""The response: what the app gave, checked, and framed as its client can read it."""

from __future__ import annotations

import email.utils
import logging
import sys
import time

import pytest
from fakes import FakeConnection

from aserve.body import LiveBody
from aserve.errors import AppError, ClientDisconnected, RequestRefused, ResponseTruncated
from aserve.exchange import HTTP_1_0, SCGI_STATUS_FIELD, Exchange, refused_exchange
from aserve.wsgi import response as response_module
from aserve.wsgi.response import LARGE_BODY_BYTES, Response, StandingFields, error_response

TEXT = ("Content-Type", "text/plain")


def new(form=None, keep_alive=True, is_head=False, server_name="s"):
    """Return a response to a request of this kind."""
    exchange = Exchange("REQUEST_METHOD\0GET\0REQUEST_URI\0/", 2)
    if form is not None:
        exchange.form = form
    exchange.keep_alive, exchange.is_head = keep_alive, is_head
    exchange.connection = FakeConnection()
    return Response(exchange, StandingFields(server_name)), exchange


def start(status="200 OK", headers=(TEXT,), **kind):
    made, exchange = new(**kind)
    made.start_response(status, list(headers))
    return made, exchange


def parse(octets):
    """Return status line, fields without Date and Server, and what follows the head."""
    head, _, rest = octets.partition(b"\r\n\r\n")
    line, *fields = head.decode("latin-1").split("\r\n")
    pairs = [tuple(field.split(": ", 1)) for field in fields]
    return line, [pair for pair in pairs if pair[0] not in ("Date", "Server")], rest


def fields_of(octets):
    return dict(parse(octets)[1])


# A whole body


@pytest.mark.parametrize(
    ("kind", "headers", "fields"),
    [
        ({}, [], [("Content-Length", "5")]),
        ({}, [TEXT], [TEXT, ("Content-Length", "5")]),
        ({}, [("content-length", "5"), TEXT], [("content-length", "5"), TEXT]),
        ({"keep_alive": False}, [], [("Content-Length", "5"), ("Connection", "close")]),
        ({"form": HTTP_1_0}, [], [("Content-Length", "5"), ("Connection", "keep-alive")]),
        ({"form": HTTP_1_0, "keep_alive": False}, [], [("Content-Length", "5"), ("Connection", "close")]),
    ],
)
def test_a_whole_body(kind, headers, fields):
    """A body that is known whole gets its length; the connection's fate is said where it must be."""
    made, exchange = start(headers=headers, **kind)
    octets = made.complete(b"hello")
    assert parse(octets) == ("HTTP/1.1 200 OK", fields, b"hello")
    assert made.code == 200 and made.sent_bytes == 5 and made.head_is_out
    assert exchange.keep_alive is kind.get("keep_alive", True)


def test_fields_keep_their_order_and_spelling():
    """What the app gave goes out as it is: order, case, repeats, octets (RFC 9110 5.3)."""
    headers = [("set-COOKIE", "a"), ("X", ""), ("Set-Cookie", "b\xe9\t "), ("x", " 1")]
    octets = start(headers=headers)[0].complete(b"")
    assert parse(octets)[1][:4] == headers


def test_an_empty_body():
    """An empty body is a known one: Content-Length: 0."""
    assert fields_of(start(headers=[])[0].complete(b"")) == {"Content-Length": "0"}
    assert fields_of(start(headers=[])[0].finish()) == {"Content-Length": "0"}


@pytest.mark.parametrize("count", [LARGE_BODY_BYTES - 1, LARGE_BODY_BYTES])
def test_a_large_body_is_not_copied(count):
    """From LARGE_BODY_BYTES on, head and body are two pieces, and the body is the app's own."""
    body = bytes(count)
    reply = start()[0].complete(body)
    if count < LARGE_BODY_BYTES:
        assert parse(reply)[2] == body
    else:
        head, rest = reply
        assert fields_of(head)["Content-Length"] == str(count) and rest is body


@pytest.mark.parametrize("count", [3, LARGE_BODY_BYTES])
def test_a_body_longer_than_declared_is_cut(count, caplog):
    """What goes over the app's Content-Length would be taken for the next response."""
    made, _ = start(headers=[("Content-Length", "2")])
    octets = made.complete(b"x" * count)
    assert parse(octets)[1:] == ([("Content-Length", "2")], b"xx") and made.sent_bytes == 2
    assert "more body than its Content-Length of 2 octets" in caplog.text


def test_a_body_shorter_than_declared_is_not_complete():
    """Too short a body must be streamed, so that the client can see that it is cut short."""
    made, _ = start(headers=[("Content-Length", "6")])
    assert made.complete(b"hello") is None and not made.head_is_out


def test_complete_before_start_response():
    """PEP 3333: start_response comes first."""
    with pytest.raises(AppError, match="before it called start_response"):
        new()[0].complete(b"")


# A body in pieces


@pytest.mark.parametrize(
    ("kind", "headers", "fields", "pieces", "keep_alive"),
    [
        ({}, [], {"Transfer-Encoding": "chunked"}, [b"1\r\na\r\n", b"a\r\n0123456789\r\n", b"0\r\n\r\n"], True),
        ({"keep_alive": False}, [], {"Transfer-Encoding": "chunked", "Connection": "close"},
         [b"1\r\na\r\n", b"a\r\n0123456789\r\n", b"0\r\n\r\n"], False),
        ({}, [("Content-Length", "11")], {"Content-Length": "11"}, [b"a", b"0123456789", b""], True),
        ({"form": HTTP_1_0}, [], {"Connection": "close"}, [b"a", b"0123456789", b""], False),
        ({"form": HTTP_1_0}, [("Content-Length", "11")],
         {"Content-Length": "11", "Connection": "keep-alive"}, [b"a", b"0123456789", b""], True),
        ({"form": HTTP_1_0, "keep_alive": False}, [], {"Connection": "close"},
         [b"a", b"0123456789", b""], False),
        ({"is_head": True}, [], {}, [b"", b"", b""], True),
        ({"is_head": True}, [("Content-Length", "99")], {"Content-Length": "99"}, [b"", b"", b""], True),
        ({"is_head": True, "form": HTTP_1_0}, [], {"Connection": "keep-alive"}, [b"", b"", b""], True),
    ],
)  # fmt: skip
def test_a_streamed_body(kind, headers, fields, pieces, keep_alive):
    """RFC 9112 6.3: with the app's length, else chunked, else to the end of the connection."""
    made, exchange = start(headers=headers, **kind)
    assert made.encode(b"") == b"" and not made.head_is_out
    first = made.encode(b"a")
    assert made.head_is_out and made.is_full is kind.get("is_head", False)
    line, found, rest = parse(first)
    assert line == "HTTP/1.1 200 OK" and dict(found) == fields
    assert made.encode(b"") == b""
    assert [rest, made.encode(b"0123456789"), made.finish()] == pieces
    assert exchange.keep_alive is keep_alive
    assert made.sent_bytes == (0 if kind.get("is_head") else 11)


def test_a_streamed_body_longer_than_declared_is_cut(caplog):
    """A stream is cut at the declared length, whatever the chunks; then it is full."""
    made, _ = start(headers=[("Content-Length", "3")])
    assert parse(made.encode(b"ab"))[2] == b"ab" and not made.is_full
    assert made.encode(b"cd") == b"c" and made.is_full
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert made.encode(b"ef") == made.encode(b"g") == made.finish() == b""
    assert made.sent_bytes == 3


def test_a_streamed_body_of_declared_length_0(caplog):
    """A declared length of 0 takes nothing at all."""
    made, _ = start(headers=[("Content-Length", "0")])
    assert parse(made.encode(b"ab"))[2] == b"" and made.finish() == b"" and made.is_full
    assert "Content-Length of 0 octets" in caplog.text


@pytest.mark.parametrize("chunks", [[b"ab"], [b"a", b"b"]])
def test_a_stream_that_ends_early_is_truncated(chunks):
    """Too little of a declared length cannot be repaired: the connection must show it."""
    made, _ = start(headers=[("Content-Length", "3")])
    for chunk in chunks:
        made.encode(chunk)
    with pytest.raises(ResponseTruncated, match="ended after 2 of 3 octets"):
        made.finish()


def test_an_empty_stream_of_declared_length_is_truncated():
    """Without any chunk the head goes out, so that the client sees what was promised."""
    made, exchange = start(headers=[("Content-Length", "3")])
    with pytest.raises(ResponseTruncated, match="after 0 of 3"):
        made.finish()
    assert fields_of(exchange.connection.sent[0]) == {"Content-Length": "3"}


def test_head_of_a_body_that_would_be_short():
    """RFC 9110 9.3.2: a HEAD's response promises what the GET's would; nothing is cut short."""
    made, _ = start(headers=[("Content-Length", "3")], is_head=True)
    assert fields_of(made.finish()) == {"Content-Length": "3"}


@pytest.mark.parametrize(
    ("chunk", "kind"),
    [("text", "str"), (None, "NoneType"), (5, "int"), (bytearray(b"x"), "bytearray"), ("", "str")],
)
def test_chunks_must_be_bytes(chunk, kind):
    """PEP 3333 "Unicode Issues": the body is made of bytes; the error names what came."""
    with pytest.raises(AppError, match=f"must be made of bytes, not {kind}"):
        start()[0].encode(chunk)


def test_a_subclass_of_bytes_is_bytes():
    """What is bytes may be framed as bytes."""
    kind = type("Bytes", (bytes,), {})
    assert start()[0].encode(kind(b"ab")).endswith(b"\r\n\r\n2\r\nab\r\n")


def test_encode_before_start_response():
    """PEP 3333: start_response comes before the first chunk that is not empty."""
    for call in (lambda made: made.encode(b"x"), lambda made: made.encode(b""), lambda made: made.finish()):
        with pytest.raises(AppError, match="before it called start_response"):
            call(new()[0])


# HEAD, and statuses without a body: RFC 9110 6.4.1, RFC 9112 6.3


@pytest.mark.parametrize(
    ("status", "is_head", "headers", "whole", "in_pieces"),
    [
        ("200 OK", True, [], "5", None),  # RFC 9110 8.6: that of the GET's response
        ("200 OK", True, [("Content-Length", "7")], "7", "7"),
        ("204 No Content", False, [], None, None),  # RFC 9110 8.6: MUST NOT
        ("204 No Content", False, [("Content-Length", "5")], None, None),
        ("204 No Content", True, [("content-LENGTH", "5")], None, None),
        ("304 Not Modified", False, [], None, None),
        ("304 Not Modified", False, [("Content-Length", "5")], "5", "5"),  # RFC 9110 15.4.5
        ("304 Not Modified", True, [("Content-Length", "5")], "5", "5"),
        ("304 Not Modified", False, [("Content-Length", "0")], None, None),  # RFC 9110 8.6: not that of the 200
        ("304 Not Modified", True, [("content-length", "00")], None, None),
        ("200 OK", True, [("Content-Length", "0")], "0", "0"),  # a HEAD's, which may be true
        ("103 Early Hints", False, [("Content-Length", "5")], None, None),
        ("199 X", False, [], None, None),
    ],
)
@pytest.mark.parametrize("form", [None, HTTP_1_0])
def test_no_body(status, is_head, headers, whole, in_pieces, form):
    """No octet of a body goes out, no coding is announced, and the length is the one allowed."""
    for length, send in (
        (whole, lambda made: made.complete(b"hello")),
        (in_pieces, lambda made: made.encode(b"hel") + made.encode(b"lo") + made.finish()),
    ):
        made, _ = start(status, headers, is_head=is_head, form=form)
        line, fields, rest = parse(send(made))
        assert line == f"HTTP/1.1 {status}" and rest == b"" and made.sent_bytes == 0
        assert "Transfer-Encoding" not in dict(fields)
        lengths = [value for name, value in fields if name.lower() == "content-length"]
        assert lengths == ([length] if length else [])


def test_head_of_an_empty_body_says_no_length():
    """An app that gives HEAD no body has not told the length of the GET's."""
    assert "Content-Length" not in fields_of(start(is_head=True)[0].complete(b""))


# Date and Server: RFC 9110 6.6.1 and 10.2.4


@pytest.mark.parametrize(
    ("headers", "ours"),
    [
        ([], {"date", "server"}),
        ([("date", "x")], {"server"}),
        ([("SERVER", "x")], {"date"}),
        ([("Date", "x"), ("Server", "y")], set()),
    ],
)
@pytest.mark.parametrize("send", ["complete", "encode"])
def test_date_and_server(headers, ours, send):
    """Date and Server are ours unless the app gives its own; never both."""
    made, _ = new(server_name="ours")
    made.start_response("200 OK", headers)
    lines = getattr(made, send)(b"x").partition(b"\r\n\r\n")[0].lower().split(b"\r\n")
    for name in (b"date", b"server"):
        found = [line for line in lines if line.startswith(name + b": ")]
        assert len(found) == 1
        assert (found[0] in (name + b": x", name + b": y")) is (name.decode() not in ours)


def test_no_server_field():
    """An empty server name sends no Server field."""
    assert b"Server" not in start(server_name="")[0].complete(b"")


def test_the_date_is_now(monkeypatch):
    """The Date field is an IMF-fixdate, and moves only when it is refreshed."""
    now = 1_800_000_000
    monkeypatch.setattr(time, "time", lambda: now)
    standing = StandingFields("s")
    first = standing.octets
    assert f"Date: {email.utils.formatdate(now, usegmt=True)}\r\n".encode() in first
    assert b"15 Jan 2027 08:00:00 GMT" in first
    now += 1
    assert standing.octets == first
    standing.refresh()
    assert b"08:00:01 GMT" in standing.octets


# What the app may not give

REFUSED = [
    (b"200 OK", [], "status must be str, not bytes"),
    (200, [], "status must be str, not int"),
    (None, [], "status must be str, not NoneType"),
    (["200 OK"], [], "status must be str, not list"),
    ("", [], "status must be like '200 OK'"),
    ("OK", [], "status must be like '200 OK'"),
    ("2000 OK", [], "status must be like '200 OK'"),
    ("099 Low", [], "status must be like '200 OK'"),
    ("200OK", [], "status must be like '200 OK'"),
    ("\u0662\u0660\u0660 OK", [], "status must be like '200 OK'"),
    ("200 \u20ac", [], "latin-1"),
    ("200 \u20ac", [TEXT], "status must be latin-1"),
    ("200 OK\r\nX: y", [], "status|control"),
    ("200 OK\n", [], "status|control"),
    ("200 O\0K", [], "status|control"),
    ("200 OK", None, "headers must be a list"),
    ("200 OK", {"Content-Type": "x"}, "headers must be a list of .* not dict"),
    ("200 OK", [None], "headers must be .name, value. pairs, not None"),
    ("200 OK", [("A",)], "headers must be .name, value. pairs"),
    ("200 OK", [("A", "b", "c")], "headers must be .name, value. pairs"),
    ("200 OK", ["ABC"], "headers must be .name, value. pairs"),
    ("200 OK", [(b"A", "b")], "fields must be str, not bytes"),
    ("200 OK", [("A", b"b")], "fields must be str, not bytes"),
    ("200 OK", [("A", 5)], "fields must be str, not int"),
    ("200 OK", [("A", None)], "fields must be str, not NoneType"),
    ("200 OK", [("Content-Length", 5)], "fields must be str, not int"),
    ("200 OK", [("A", "\u20ac")], "latin-1"),
    ("200 OK", [("", "b")], "not a token"),
    ("200 OK", [("A B", "b")], "not a token"),
    ("200 OK", [("A:", "b")], "not a token"),
    ("200 OK", [("A\r\nB", "b")], "not a token"),
    ("200 OK", [("\xe9", "b")], "not a token"),
    ("200 OK", [("A", "b\r\nC: d")], "control character"),
    ("200 OK", [("A", "b\n")], "control character"),
    ("200 OK", [("A", "b\0")], "control character"),
    ("200 OK", [("A", "b\x7f")], "control character"),
    ("200 OK", [("Content-Length", "-1")], "Content-Length must be digits"),
    ("200 OK", [("Content-Length", "")], "Content-Length must be digits"),
    ("200 OK", [("Content-Length", " 5")], "Content-Length must be digits"),
    ("200 OK", [("Content-Length", "5, 5")], "Content-Length must be digits"),
    ("200 OK", [("Content-Length", "\u0665")], "Content-Length must be digits|latin-1"),
    ("200 OK", [("Content-Length", "1" * 19)], "Content-Length must be digits"),
    ("200 OK", [("Content-Length", "5"), ("content-length", "5")], "Content-Length twice"),
    ("200 OK", [("Connection", "close")], "Connection, a hop-by-hop field"),
    ("200 OK", [("keep-alive", "x")], "keep-alive, a hop-by-hop field"),
    ("200 OK", [("Proxy-Authenticate", "x")], "hop-by-hop"),
    ("200 OK", [("Proxy-Authorization", "x")], "hop-by-hop"),
    ("200 OK", [("Proxy-Connection", "x")], "hop-by-hop"),
    ("200 OK", [("TE", "x")], "hop-by-hop"),
    ("200 OK", [("Trailer", "x")], "hop-by-hop"),
    ("200 OK", [("TRANSFER-ENCODING", "chunked")], "hop-by-hop"),
    ("200 OK", [("Upgrade", "x")], "hop-by-hop"),
]


@pytest.mark.parametrize(("status", "headers", "text"), REFUSED, ids=lambda value: repr(value)[:40])
def test_what_an_app_may_not_give(status, headers, text):
    """PEP 3333: the error says what was wrong, and nothing of it goes out; the second time, too."""
    for _ in range(2):
        made, exchange = new()
        with pytest.raises(AppError, match=text):
            made.start_response(status, headers)
        assert not made.head_is_out and exchange.connection.sent == []
        with pytest.raises(AppError, match="before it called start_response"):
            made.encode(b"x")


def test_a_str_that_cannot_be_looked_up():
    """A subclass of str without a hash is as good as its characters."""
    unhashable = type("Unhashable", (str,), {"__hash__": None})
    for text, pair in ((unhashable("200 OK"), ("A", "b")), ("200 OK", (unhashable("A"), unhashable("b")))):
        assert parse(start(text, [pair])[0].complete(b""))[:2] == (
            "HTTP/1.1 200 OK",
            [("A", "b"), ("Content-Length", "0")],
        )


@pytest.mark.parametrize("status", ["200 OK", "200 ", "999 \xe9 ok", "404 Not\tFound", "299 a  b"])
def test_statuses_that_are_fine(status):
    """RFC 9112 4: three digits, a space, and a reason that may be empty."""
    line = start(status)[0].complete(b"").split(b"\r\n", 1)[0]
    assert line == b"HTTP/1.1 " + status.encode("latin-1")


class Lies(str):
    """Looks harmless however it is asked."""

    __slots__ = ()

    def isprintable(self):
        return True

    def __format__(self, spec):
        return "a\r\nX: y"

    def __str__(self):
        return "a\r\nX: y"

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    def __hash__(self):
        return hash("X-Known")


@pytest.mark.parametrize("send", ["start_response", "early_hints"])
@pytest.mark.parametrize("at", ["name", "value", "status"])
def test_a_subclass_of_str_is_str(at, send):
    """What goes out is the characters that are there, which are checked, and not what a subclass says of them."""

    def head(text):
        made, exchange = start(headers=[("X-Known", "1")])  # a name that has been checked
        if send == "early_hints":
            made.early_hints([(text, "b") if at == "name" else ("X-Known", text)])
            return parse(exchange.connection.sent[-1])
        made, _ = start(
            text if at == "status" else "200 OK",
            [(text if at == "name" else "X-Known", text if at == "value" else "b")],
        )
        return parse(made.complete(b""))

    if (at, send) == ("status", "early_hints"):
        return
    good = "299 fine" if at == "status" else "fine"
    line, fields, _ = head(Lies(good))
    assert good in line or fields[0] in [(good, "b"), ("X-Known", good)]
    for bad in ("200 a\r\nX: y", "200 a\n", "a:\0"):
        with pytest.raises(AppError):
            head(Lies(bad))
    assert head("200 OK" if at == "status" else "X-Known") != head("299 OK" if at == "status" else "Other")


@pytest.mark.parametrize("headers", [((TEXT),), ([*TEXT],), iter([TEXT])])
def test_other_iterables_of_pairs_are_taken(headers):
    """Lenient: what can be read as pairs is."""
    made, _ = new()
    made.start_response("200 OK", headers)
    assert fields_of(made.complete(b""))["Content-Type"] == "text/plain"


# start_response again: PEP 3333 "The start_response() Callable"


def test_a_second_call_needs_exc_info():
    """A second call without exc_info is refused, before and after the head is out."""
    made, _ = start()
    with pytest.raises(AppError, match="second time without exc_info"):
        made.start_response("500 X", [])
    made.encode(b"x")
    with pytest.raises(AppError, match="second time without exc_info"):
        made.start_response("500 X", [])


def exc_info_of(text="oops"):
    try:
        raise KeyError(text)
    except KeyError:
        return sys.exc_info()


def test_exc_info_replaces_the_head():
    """While the head is not out, a call with exc_info replaces status, headers, length and code."""
    made, _ = start(headers=[("Content-Length", "99"), ("Date", "x")])
    made.start_response("500 Oops", [TEXT], exc_info_of())
    octets = made.complete(b"hello")
    assert parse(octets)[:2] == ("HTTP/1.1 500 Oops", [TEXT, ("Content-Length", "5")])
    assert b"Date: x" not in octets and b"Date: " in octets and made.code == 500


def test_exc_info_with_the_first_call():
    """PEP 3333: exc_info may come with the first call, too; so may None."""
    made, _ = new()
    made.start_response("500 Oops", [], exc_info_of())
    assert made.code == 500
    made, _ = new()
    made.start_response("200 OK", [], None)
    assert made.code == 200


def test_exc_info_raises_when_the_head_is_out():
    """Once the head is out, the app's own exception comes back to it, with its traceback."""
    made, _ = start()
    made.encode(b"x")
    exc_info = exc_info_of("mine")
    with pytest.raises(KeyError, match="mine") as caught:
        made.start_response("500 X", [], exc_info)
    assert caught.value is exc_info[1]
    assert any(entry.name == "exc_info_of" for entry in caught.traceback)
    assert made.code == 200


# write(): PEP 3333 "The write() Callable"


def test_write_sends_at_once():
    """What is written is on its way when write() returns; framed, behind the head."""
    made, exchange = new()
    write = made.start_response("200 OK", [])
    write(b"")
    assert exchange.connection.sent == []
    write(b"ab")
    write(b"c")
    assert parse(exchange.connection.sent[0])[2] == b"2\r\nab\r\n"
    assert exchange.connection.sent[1:] == [b"1\r\nc\r\n"]
    assert made.encode(b"d") == b"1\r\nd\r\n" and made.finish() == b"0\r\n\r\n"


def test_write_takes_bytes_alone():
    """write() checks as the iterable is checked."""
    made, _ = new()
    write = made.start_response("200 OK", [])
    with pytest.raises(AppError, match="not str"):
        write("text")


@pytest.mark.parametrize("end", ["complete", "finish"])
@pytest.mark.parametrize("headers", [[], [("Content-Length", "2")]])
def test_write_after_the_end(end, headers):
    """Nothing is sent behind the end; beyond a Content-Length it is cut, as before the end."""
    made, exchange = start(headers=headers)
    if end == "complete":
        made.complete(b"ab")
    else:
        made.encode(b"ab")
        made.finish()
    if headers:
        made.write(b"late")
    else:
        with pytest.raises(AppError, match="after the end of the response"):
            made.write(b"late")
    assert exchange.connection.sent == []


def test_write_to_a_client_that_has_left():
    """The app meets ClientDisconnected where it writes."""
    made, exchange = new()
    write = made.start_response("200 OK", [])
    exchange.connection.error = ClientDisconnected("gone")
    with pytest.raises(ClientDisconnected, match="gone"):
        write(b"x")


# Early hints: RFC 8297

LINK = ("Link", "</a>; rel=preload")


def test_early_hints():
    """A 103 response goes out at once, as often as the app likes; the final one follows."""
    made, exchange = new()
    made.early_hints([LINK])
    made.early_hints([])
    expected = b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n"
    assert exchange.connection.sent == [expected, b"HTTP/1.1 103 Early Hints\r\n\r\n"]
    made.start_response("200 OK", [])
    made.early_hints([LINK])
    assert exchange.connection.sent[2] == expected
    assert made.complete(b"x").startswith(b"HTTP/1.1 200 OK\r\n")


def test_early_hints_to_http_1_0():
    """RFC 9110 15.2: no 1xx to an HTTP/1.0 client; the app need not know."""
    made, exchange = new(form=HTTP_1_0)
    made.early_hints([LINK])
    assert exchange.connection.sent == []


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_live_body_that_is_not_read(is_complete):
    """RFC 9112 9.6: a response before the end of its request's body says that the connection closes."""
    made, exchange = start()
    exchange.body = LiveBody(10, is_chunked=False)
    if is_complete:
        exchange.body.feed_end()
    assert (b"Connection: close\r\n" in made.complete(b"x")) is not is_complete
    assert exchange.keep_alive is is_complete


def test_early_hints_as_the_head_goes_out():
    """Another thread takes the head between the first look and the second: the hints are refused all the same."""
    made, exchange = start()

    class Lock:
        def __enter__(self):
            made.complete(b"whole")

        def __exit__(self, *_):
            pass

    made.sending_lock = Lock()
    with pytest.raises(AppError, match="after the response's head"):
        made.early_hints([("Link", "</a>")])
    assert exchange.connection.sent == []


def test_early_hints_too_late():
    """After the head they would be part of the body."""
    made, _ = start()
    made.encode(b"x")
    with pytest.raises(AppError, match="after the response's head"):
        made.early_hints([LINK])


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ([("A B", "x")], "not a token"),
        ([("A", "x\r\nB: c")], "control character"),
        ([("A", "\u20ac")], "latin-1"),
        ([("A", 5)], "must be str, not int"),
        ([(b"A", "x")], "must be str, not bytes"),
        ([("A",)], "pairs"),
        (None, "headers must be a list"),
        ([("Content-Length", "5")], "Content-Length"),  # RFC 9110 8.6: not in a 1xx
        ([("Transfer-Encoding", "chunked")], "hop-by-hop"),  # RFC 9112 6.1: not in a 1xx
        ([("Connection", "close")], "hop-by-hop"),
    ],
)
def test_early_hints_are_checked(headers, text):
    """What may not stand in a head may not stand in a hint; nothing of it goes out."""
    for form in (None, HTTP_1_0):
        made, exchange = new(form=form)
        with pytest.raises(AppError, match=text):
            made.early_hints(headers)
        assert exchange.connection.sent == []


# Files


@pytest.mark.parametrize(
    ("status", "headers", "kind", "size", "count", "length"),
    [
        ("200 OK", [], {}, 9, 9, "9"),
        ("200 OK", [], {}, 0, 0, "0"),
        ("200 OK", [("Content-Length", "4")], {}, 9, 4, "4"),
        ("200 OK", [("Content-Length", "10")], {}, 9, -1, None),
        ("200 OK", [], {"is_head": True}, 9, 0, "9"),
        ("200 OK", [], {"form": HTTP_1_0}, 9, 9, "9"),
        ("304 Not Modified", [], {}, 9, 0, None),
        ("204 No Content", [], {}, 9, 0, None),
    ],
)
def test_the_head_of_a_file(status, headers, kind, size, count, length):
    """A file has a known length, so it needs no chunks; what was declared is what is sent."""
    made, exchange = start(status, headers, **kind)
    head, found = made.build_file_head(size)
    assert found == count
    if count >= 0:
        assert fields_of(head).get("Content-Length") == length
        assert "Transfer-Encoding" not in fields_of(head) and exchange.keep_alive
        assert made.head_is_out and made.sent_bytes == count
    else:
        assert head == b"" and not made.head_is_out


def test_the_head_of_a_file_before_start_response():
    """An app that has not started gets its error from the general way."""
    assert new()[0].build_file_head(9) == (b"", -1)


# Our own errors


@pytest.mark.parametrize(
    ("form", "keep_alive", "is_head", "connection"),
    [
        (None, True, False, None),
        (None, False, False, "close"),
        (None, True, True, None),
        (HTTP_1_0, True, False, "keep-alive"),
        (HTTP_1_0, False, True, "close"),
    ],
)
def test_error_response(form, keep_alive, is_head, connection):
    """An error of ours is a whole response in plain text; HEAD gets the head of it."""
    _, exchange = new(form=form, keep_alive=keep_alive, is_head=is_head)
    line, fields, rest = parse(error_response(500, "no \u20ac", exchange, StandingFields("s")))
    body = b"500 Internal Server Error: no ?\n"
    assert line == "HTTP/1.1 500 Internal Server Error"
    assert dict(fields)["Content-Length"] == str(len(body))
    assert dict(fields)["Content-Type"].startswith("text/plain")
    assert dict(fields).get("Connection") == connection
    assert rest == (b"" if is_head else body)


def test_error_response_without_an_exchange():
    """RFC 9112 9.6: of a request that could not be read, nothing is known; the connection closes."""
    line, fields, rest = parse(error_response(408, "late", None, StandingFields("")))
    assert line == "HTTP/1.1 408 Request Timeout" and dict(fields)["Connection"] == "close"
    assert rest == b"408 Request Timeout: late\n"


def test_error_response_to_a_refusal():
    """A refused exchange closes the connection."""
    refused = refused_exchange(RequestRefused(413, "large"), None)
    octets = error_response(413, "large", refused, StandingFields("s"))
    assert fields_of(octets)["Connection"] == "close"


# The caches of checked names and statuses


def test_caches_are_bounded():
    """An app that makes up names and statuses costs time, not memory."""
    caches = [
        value for name, value in vars(response_module).items() if name.startswith("_known") and isinstance(value, dict)
    ]
    assert caches
    saved = [dict(cache) for cache in caches]
    try:
        for number in range(3000):
            made, _ = start(f"200 {number}", [(f"X-{number}", "1")])
            assert made.complete(b"").startswith(b"HTTP/1.1 200 %d\r\nX-%d: 1\r\n" % (number, number))
        assert all(len(cache) <= 1024 for cache in caches)
    finally:
        for cache, entries in zip(caches, saved):
            cache.clear()
            cache.update(entries)


# Heads that are known


@pytest.fixture
def known_heads(monkeypatch):
    """Nothing is known yet."""
    heads = {}
    monkeypatch.setattr(response_module, "_known_heads", heads)
    return heads


def whole_response(status, headers, body=b"x", form=None):
    response, _ = new(form=form)
    response.start_response(status, headers)
    return response.complete(body)


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        ("200 OK", [("A", "1"), ("Content-Length", "1")]),
        ("200 OK", [("Server", "mine")]),
        ("204 No Content", [("Content-Length", "5")]),
        ("304 Not Modified", [("Content-Length", "5")]),
        ("101 Switching Protocols", []),
        ("200 OK", []),
    ],
)
def test_a_known_head_makes_the_same_response(known_heads, status, headers):
    """The first response with a head, and those that find it."""
    first = whole_response(status, headers)
    assert len(known_heads) == 1
    assert whole_response(status, list(headers)) == first
    assert whole_response(status, [*headers, ("B", "2")]) != first
    assert whole_response(status, headers, form=SCGI_STATUS_FIELD).startswith(b"Status: " + status.encode())
    assert len(known_heads) == 3


def test_the_length_declared_is_that_of_each(known_heads):
    """A known head cuts and refuses as an unknown one does."""
    for _ in range(2):
        assert whole_response("200 OK", [("Content-Length", "1")], b"xyz").endswith(b"\r\n\r\nx")
        assert whole_response("200 OK", [("Content-Length", "2")], b"x") is None


@pytest.mark.parametrize(
    "headers",
    [
        [("Set-Cookie", "secret=1")],
        [("ETag", '"1"')],
        [("Date", "Thu, 01 Jan 1970 00:00:00 GMT")],
        [("A", "1" * 1024)],
        [["A", "1"]],
        (("A", "1"),),
        iter([("A", "1")]),
    ],
    ids=lambda headers: type(headers).__name__,
)
def test_heads_that_are_not_kept(known_heads, headers):
    """Secrets, what hardly comes twice, what is large, and what is no key of a dictionary."""
    assert b"\r\nServer: " in whole_response("200 OK", headers)
    assert known_heads == {}


def test_a_refused_head_is_refused_again(known_heads):
    """Only what has passed the checks is known."""
    for _ in range(2):
        for headers in ([("A", "1\n")], [("Connection", "x")], [("A", 1)], [("A",)], [("Content-Length", "x")]):
            with pytest.raises(AppError):
                whole_response("200 OK", headers)
    assert known_heads == {}


def test_known_heads_are_bounded(known_heads):
    """An app that makes every head anew takes no more memory than the bound."""
    for number in range(3000):
        whole_response("200 OK", [("A", str(number))])
        assert len(known_heads) <= 1024
