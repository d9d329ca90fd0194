"""The response: values of the app, checked, and framed for the client."""

import email.utils
import logging
import sys
import time

import pytest
from harness.responses import TEXT, fields_of, new, parse, start

from aserve.core.body import LiveBody
from aserve.core.errors import AppError, ClientDisconnected, RequestRefused, ResponseTruncated
from aserve.core.exchange import HTTP_1_0, refused_exchange
from aserve.wsgi.response import LARGE_BODY_BYTES, CommonFields, error_response

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
    """A whole body gets a length; the fate of the connection is told where needed."""
    made, exchange = start(headers=headers, **kind)
    octets = made.complete(b"hello")
    assert parse(octets) == ("HTTP/1.1 200 OK", fields, b"hello")
    assert made.code == 200 and made.sent_bytes == 5 and made.head_is_out
    assert exchange.keep_alive is kind.get("keep_alive", True)


def test_fields_keep_their_order_and_spelling():
    """The app's fields go out unchanged: order, case, repeats, octets (RFC 9110 5.3)."""
    headers = [("set-COOKIE", "a"), ("X", ""), ("Set-Cookie", "b\xe9\t "), ("x", " 1")]
    octets = start(headers=headers)[0].complete(b"")
    assert parse(octets)[1][:4] == headers


def test_an_empty_body():
    """An empty body has Content-Length: 0."""
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
    """Octets beyond the app's Content-Length would be taken for the next response."""
    made, _ = start(headers=[("Content-Length", "2")])
    octets = made.complete(b"x" * count)
    assert parse(octets)[1:] == ([("Content-Length", "2")], b"xx") and made.sent_bytes == 2
    assert "more body than its Content-Length of 2 octets" in caplog.text


def test_a_body_shorter_than_declared_is_not_complete():
    """Too short a body must be streamed, for the client to see the cut."""
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
    """A stream is cut at the declared length, whatever the chunks, and then full."""
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
    """Too little of a declared length cannot be repaired: the connection must show the cut."""
    made, _ = start(headers=[("Content-Length", "3")])
    for chunk in chunks:
        made.encode(chunk)
    with pytest.raises(ResponseTruncated, match="ended after 2 of 3 octets"):
        made.finish()


def test_an_empty_stream_of_declared_length_is_truncated():
    """Without any chunk the head goes out, for the client to see the promise."""
    made, exchange = start(headers=[("Content-Length", "3")])
    with pytest.raises(ResponseTruncated, match="after 0 of 3"):
        made.finish()
    assert fields_of(exchange.connection.sent[0]) == {"Content-Length": "3"}


def test_head_of_a_body_that_would_be_short():
    """RFC 9110 9.3.2: the response to a HEAD promises the same as to a GET; nothing is cut short."""
    made, _ = start(headers=[("Content-Length", "3")], is_head=True)
    assert fields_of(made.finish()) == {"Content-Length": "3"}


@pytest.mark.parametrize(
    ("chunk", "kind"),
    [("text", "str"), (None, "NoneType"), (5, "int"), (bytearray(b"x"), "bytearray"), ("", "str")],
)
def test_chunks_must_be_bytes(chunk, kind):
    """PEP 3333 "Unicode Issues": the body is made of bytes; the error names the wrong type."""
    with pytest.raises(AppError, match=f"must be made of bytes, not {kind}"):
        start()[0].encode(chunk)


def test_a_subclass_of_bytes_is_bytes():
    kind = type("Bytes", (bytes,), {})
    assert start()[0].encode(kind(b"ab")).endswith(b"\r\n\r\n2\r\nab\r\n")


def test_encode_before_start_response():
    """PEP 3333: start_response comes before the first non-empty chunk."""
    for call in (lambda made: made.encode(b"x"), lambda made: made.encode(b""), lambda made: made.finish()):
        with pytest.raises(AppError, match="before it called start_response"):
            call(new()[0])


# HEAD, and statuses without a body: RFC 9110 6.4.1, RFC 9112 6.3


@pytest.mark.parametrize(
    ("status", "is_head", "headers", "whole", "in_pieces"),
    [
        ("200 OK", True, [], "5", None),  # RFC 9110 8.6: as in the response to a GET
        ("200 OK", True, [("Content-Length", "7")], "7", "7"),
        ("204 No Content", False, [], None, None),  # RFC 9110 8.6: MUST NOT
        ("204 No Content", False, [("Content-Length", "5")], None, None),
        ("204 No Content", True, [("content-LENGTH", "5")], None, None),
        ("304 Not Modified", False, [], None, None),
        ("304 Not Modified", False, [("Content-Length", "5")], "5", "5"),  # RFC 9110 15.4.5
        ("304 Not Modified", True, [("Content-Length", "5")], "5", "5"),
        ("304 Not Modified", False, [("Content-Length", "0")], None, None),  # RFC 9110 8.6: not as in the 200
        ("304 Not Modified", True, [("content-length", "00")], None, None),
        ("200 OK", True, [("Content-Length", "0")], "0", "0"),  # of a HEAD, possibly true
        ("205 Reset Content", False, [], "0", "0"),  # RFC 9110 15.3.6
        ("205 Reset Content", False, [("content-length", "5")], "0", "0"),
    ],
)
@pytest.mark.parametrize("form", [None, HTTP_1_0])
def test_no_body_where_none_may_be(status, is_head, headers, whole, in_pieces, form):
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
    """An app without a body for HEAD has not told the length of the GET's."""
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
    """Date and Server are ours unless given by the app; never both."""
    made, _ = new(server_name="ours")
    made.start_response("200 OK", headers)
    lines = getattr(made, send)(b"x").partition(b"\r\n\r\n")[0].lower().split(b"\r\n")
    for name in (b"date", b"server"):
        found = [line for line in lines if line.startswith(name + b": ")]
        assert len(found) == 1
        assert (found[0] in (name + b": x", name + b": y")) is (name.decode() not in ours)


def test_fields_of_every_response():
    """These fields end each head, ours and the app's, whichever of Date and Server the app gives."""
    common_fields = CommonFields("s", fields=[("X-A", "1"), ("X-B", "2")])
    for tail in [common_fields.octets, *(common_fields.without(*has) for has in ((True, False), (True, True)))]:
        assert tail.endswith(b"X-A: 1\r\nX-B: 2\r\n\r\n")
    assert b"\r\nX-A: 1\r\nX-B: 2\r\n\r\n408 " in error_response(408, "late", None, common_fields)


def test_no_server_field():
    """An empty server name sends no Server field."""
    assert b"Server" not in start(server_name="")[0].complete(b"")


def test_the_date_is_now(monkeypatch):
    """The Date field is an IMF-fixdate, and moves only when refreshed."""
    now = 1_800_000_000
    monkeypatch.setattr(time, "time", lambda: now)
    common_fields = CommonFields("s")
    first = common_fields.octets
    assert f"Date: {email.utils.formatdate(now, usegmt=True)}\r\n".encode() in first
    assert b"15 Jan 2027 08:00:00 GMT" in first
    now += 1
    assert common_fields.octets == first
    common_fields.refresh()
    assert b"08:00:01 GMT" in common_fields.octets


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
    """Once the head is out, the exception comes back to the app, with the traceback."""
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
    """Octets of write() are on the way at the return; framed, behind the head."""
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
    """Nothing is sent behind the end; octets beyond a Content-Length are cut, as before the end."""
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
    """The app meets ClientDisconnected on the next write."""
    made, exchange = new()
    write = made.start_response("200 OK", [])
    exchange.connection.error = ClientDisconnected("gone")
    with pytest.raises(ClientDisconnected, match="gone"):
        write(b"x")


# Early hints: RFC 8297

LINK = ("Link", "</a>; rel=preload")


def test_early_hints_go_out_at_once():
    """A 103 response goes out at once, as often as the app likes; the final response follows."""
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
    """RFC 9112 9.6: a response before the end of the request's body announces the close."""
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
    """After the head early hints would be part of the body."""
    made, _ = start()
    made.encode(b"x")
    with pytest.raises(AppError, match="after the response's head"):
        made.early_hints([LINK])


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
    """A file has a known length, and needs no chunks; the declared length is sent."""
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
    """An app without a start gets the error from the general way."""
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
def test_an_error_response_is_whole(form, keep_alive, is_head, connection):
    _, exchange = new(form=form, keep_alive=keep_alive, is_head=is_head)
    line, fields, rest = parse(error_response(500, "no \u20ac", exchange, CommonFields("s")))
    body = b"500 Internal Server Error: no ?\n"
    assert line == "HTTP/1.1 500 Internal Server Error"
    assert dict(fields)["Content-Length"] == str(len(body))
    assert dict(fields)["Content-Type"].startswith("text/plain")
    assert dict(fields).get("Connection") == connection
    assert rest == (b"" if is_head else body)


def test_error_response_without_an_exchange():
    """RFC 9112 9.6: of an unreadable request nothing is known; the connection closes."""
    line, fields, rest = parse(error_response(408, "late", None, CommonFields("")))
    assert line == "HTTP/1.1 408 Request Timeout" and dict(fields)["Connection"] == "close"
    assert rest == b"408 Request Timeout: late\n"


def test_error_response_to_a_refusal():
    """A refused exchange closes the connection."""
    refused = refused_exchange(RequestRefused(413, "large"), None)
    octets = error_response(413, "large", refused, CommonFields("s"))
    assert fields_of(octets)["Connection"] == "close"


@pytest.mark.parametrize(
    ("status", "has_app_failed", "fault"),
    [
        (400, False, "http_request_error"),
        (413, True, "http_request_error"),
        (501, False, "http_request_error"),
        (500, False, "proxy_internal_error"),
        (500, True, "http_response_incomplete"),
        (503, True, "proxy_internal_error"),
        (504, False, "http_response_timeout"),
    ],
)
def test_whose_fault_an_error_is(status, has_app_failed, fault):
    """RFC 9209: an error of ours has Proxy-Status, if wanted."""
    _, exchange = new()
    exchange.has_app_failed = has_app_failed
    told = error_response(status, "late", exchange, CommonFields("s", "web1"))
    assert fields_of(told)["Proxy-Status"] == f"web1; error={fault}"
    assert "Proxy-Status" not in fields_of(error_response(status, "late", exchange, CommonFields("s")))


def test_the_fault_of_what_could_not_be_read():
    told = error_response(408, "late", None, CommonFields("", "web1"))
    assert fields_of(told)["Proxy-Status"] == "web1; error=http_request_error"


@pytest.mark.parametrize(
    ("value", "is_one"),
    [("text/event-stream", True), ("text/event-stream; charset=utf-8", True), ("text/plain", False)],
)
def test_event_streams_are_known_by_type(value, is_one):
    made, _ = start(headers=[("content-TYPE", value)])
    assert made.is_event_stream is is_one
