"""The app's status and fields: refusals, sent octets, and heads known the second time."""

import pytest
from harness.responses import TEXT, fields_of, new, parse, start

from aserve.core.errors import AppError
from aserve.core.exchange import HTTP_1_0, SCGI_STATUS_FIELD
from aserve.wsgi import head as head_module
from aserve.wsgi import response as response_module

# Forbidden values

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
    """PEP 3333: the error tells the fault, and nothing of it goes out; the second time, too."""
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
    """The sent characters are the checked ones, and not a subclass's claims."""

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
    """Lenient: readable pairs are taken."""
    made, _ = new()
    made.start_response("200 OK", headers)
    assert fields_of(made.complete(b""))["Content-Type"] == "text/plain"


# Early hints: RFC 8297


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
    """Values forbidden in a head are forbidden in a hint; nothing of it goes out."""
    for form in (None, HTTP_1_0):
        made, exchange = new(form=form)
        with pytest.raises(AppError, match=text):
            made.early_hints(headers)
        assert exchange.connection.sent == []


# The caches of checked names and statuses


def test_caches_are_bounded():
    """An app that makes up names and statuses costs time, not memory."""
    caches = [value for name, value in vars(head_module).items() if "known" in name and isinstance(value, dict)]
    assert len(caches) == 3
    saved = [dict(cache) for cache in caches]
    try:
        for number in range(1100):
            made, _ = start(f"200 {number}", [(f"X-{number}", "1")])
            assert made.complete(b"").startswith(b"HTTP/1.1 200 %d\r\nX-%d: 1\r\n" % (number, number))
        assert all(len(cache) <= 1024 for cache in caches)
    finally:
        for cache, entries in zip(caches, saved):
            cache.clear()
            cache.update(entries)


# Known heads


@pytest.fixture
def known_heads(monkeypatch):
    """Nothing is known yet, and all dates are one."""
    monkeypatch.setattr(response_module, "http_date", lambda at: "Mon, 23 Nov 2026 22:00:35 GMT")
    heads = {}
    for module in (head_module, response_module):
        monkeypatch.setattr(module, "known_heads", heads)
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
        ("200 OK", []),
    ],
)
def test_a_known_head_makes_the_same_response(known_heads, status, headers):
    """The first response with a head, and later ones that find it."""
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
    """Secrets, rare heads, large ones, and heads that are no key of a dictionary."""
    assert b"\r\nServer: " in whole_response("200 OK", headers)
    assert known_heads == {}


@pytest.mark.parametrize("status", ["100 Continue", "101 Switching Protocols", "103 Early Hints", "199 x"])
def test_an_interim_status_is_refused(known_heads, status):
    """RFC 9110 15.2: the client would go on to wait for a final response."""
    for _ in range(2):
        with pytest.raises(AppError, match="is no status of a final response"):
            whole_response(status, [])
    assert known_heads == {}


def test_a_refused_head_is_refused_again(known_heads):
    """Only checked heads are known."""
    for _ in range(2):
        for headers in ([("A", "1\n")], [("Connection", "x")], [("A", 1)], [("A",)], [("Content-Length", "x")]):
            with pytest.raises(AppError):
                whole_response("200 OK", headers)
    assert known_heads == {}


def test_known_heads_are_bounded(known_heads):
    """An app that makes every head anew takes no more memory than the bound."""
    for number in range(1100):
        whole_response("200 OK", [("A", str(number))])
        assert len(known_heads) <= 1024


@pytest.mark.parametrize(
    ("status", "length", "lines"),
    [
        ("204 No Content", "3", []),
        ("304 Not Modified", "3", ["Content-Length: 3"]),
        ("304 Not Modified", "0", []),
        ("205 Reset Content", "3", ["Content-Length: 0"]),
    ],
)
def test_the_length_of_a_response_without_body(status, length, lines):
    """RFC 9110 8.6 and 15.3.6: a length remains where the length may be of a 200 response."""
    octets = head_module.build_app_head("HTTP/1.1 ", status, [("Content-Length", length)])[0].decode()
    assert octets.split("\r\n")[1:-1] == lines


def test_two_lengths_of_zero_are_refused():
    """The second Content-Length is refused, whatever the first says."""
    with pytest.raises(AppError, match="twice"):
        head_module.build_app_head("HTTP/1.1 ", "200 OK", [("Content-Length", "0")] * 2)


def test_an_empty_value_hides_no_fault():
    """The message names the pair that is not latin-1."""
    with pytest.raises(AppError, match=r"latin-1.*'Y'"):
        head_module.build_app_head("HTTP/1.1 ", "200 OK", [("X", ""), ("Y", "\u0100")])
