"""An exchange starts as the plainest request there is."""

import subprocess
import sys

import pytest
from harness.fakes import FakeConnection

from aserve.core.errors import RequestRefused
from aserve.core.exchange import HTTP_1_0, HTTP_1_1, Exchange, refused_exchange, shortened, without_query
from aserve.features import Config


def test_defaults_are_a_plain_request():
    """Without more, an exchange is HTTP/1.1, keeps alive, has no body and no fault."""
    exchange = Exchange("REQUEST_METHOD\0GET", 1)
    assert (exchange.vars, exchange.own_count) == ("REQUEST_METHOD\0GET", 1)
    assert exchange.form is HTTP_1_1
    assert exchange.keep_alive and not exchange.is_head
    assert exchange.body is exchange.refusal is exchange.connection is exchange.response is None


def test_what_differs_is_set_on_one_exchange_alone():
    """A protocol's value on one exchange is not seen on another."""
    exchange = Exchange("", 0)
    exchange.form, exchange.keep_alive, exchange.is_head = HTTP_1_0, False, True
    other = Exchange("", 0)
    assert other.form is HTTP_1_1 and other.keep_alive and not other.is_head


def test_a_form_with_a_line_more():
    """The line stands in the head of a response that keeps the connection, and of one that closes it."""
    form = HTTP_1_1.with_line(b"A: 1\r\n").with_line(b"B: 2\r\n")
    assert form.keep_alive_line == b"A: 1\r\nB: 2\r\n" and form.close_line == b"Connection: close\r\nA: 1\r\nB: 2\r\n"
    assert form._replace(keep_alive_line=HTTP_1_1.keep_alive_line, close_line=HTTP_1_1.close_line) == HTTP_1_1


def test_a_refused_exchange_without_a_request():
    """Of an unreadable head nothing is known: the reply has a body, and closes."""
    why = RequestRefused(400, "no")
    exchange = refused_exchange(why, None)
    assert exchange.refusal is why and (exchange.vars, exchange.own_count) == ("", 0)
    assert not exchange.keep_alive and not exchange.is_head


@pytest.mark.parametrize("is_head", [False, True])
def test_a_refused_exchange_with_a_request(is_head):
    """Known parts of the request are kept, for the log and for HEAD."""
    request = Exchange("REQUEST_METHOD\0X", 1)
    request.is_head = is_head
    exchange = refused_exchange(RequestRefused(413, "no"), request)
    assert (exchange.vars, exchange.own_count) == ("REQUEST_METHOD\0X", 1)
    assert exchange.is_head is is_head and not exchange.keep_alive and request.keep_alive


@pytest.mark.parametrize(
    ("form", "may_chunk", "may_inform", "line"),
    [
        (HTTP_1_1, True, True, b""),
        (HTTP_1_0, False, False, b"Connection: keep-alive\r\n"),  # RFC 9112 C.2.2
    ],
)
def test_forms_follow_the_clients_version(form, may_chunk, may_inform, line):
    """Towards HTTP/1.0: no chunks, no 1xx, keep-alive is told; our version is always 1.1."""
    # RFC 9110 6.2: the version is the highest of our conformance, not the request's.
    assert form.status_prefix == "HTTP/1.1 "
    assert (form.may_chunk, form.may_inform, form.keep_alive_line) == (may_chunk, may_inform, line)


@pytest.mark.parametrize(
    ("vars", "summary"),
    [
        ("REQUEST_METHOD\0GET\0REQUEST_URI\0/a?b\0PATH_INFO\0/a", "GET /a?..."),
        ("QUERY_STRING\0\0PATH_INFO\0/a\0REQUEST_METHOD\0PUT", "PUT /a"),
        ("REQUEST_URI\0\0PATH_INFO\0/a", "- /a"),
        ("", "- -"),
        ("REQUEST_METHOD\0GET\0REQUEST_URI\0/\x9b31m\x85forged", r"GET /\x9b31m\x85forged"),
        ('REQUEST_METHOD\0A\nB\0PATH_INFO\0/\x1b[31m\r\n"\\\xe9', r"A\x0aB /\x1b[31m\x0d\x0a\x22\x5c\xe9"),
    ],
)
def test_the_summary_names_method_and_target(vars, summary):
    """The logs' name of a request, whatever the order and octets of its vars."""
    assert Exchange(vars, 0).summary == summary


@pytest.mark.parametrize(("is_shown", "summary"), [(True, "GET /a?token=x"), (False, "GET /a?...")])
def test_queries_are_shown_if_asked(is_shown, summary):
    exchange = Exchange("REQUEST_METHOD\0GET\0REQUEST_URI\0/a?token=x", 2)
    exchange.connection = FakeConnection()
    exchange.connection.service.config = Config(show_queries=is_shown)
    assert exchange.summary == summary


@pytest.mark.parametrize(
    ("text", "shown"), [("GET /a", "GET /a"), ("GET /a?b=c?d", "GET /a?..."), ("- -", "- -"), ("GET /?", "GET /?...")]
)
def test_requests_without_queries(text, shown):
    """In a query there may be passwords and tokens."""
    assert without_query(text) == shown


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("http://me:secret@a/?b", "http://...@a/?..."),
        ("http://me:sec@ret@a", "http://...@a"),
        ("me:secret@a:443", "...@a:443"),
        ("/@me", "/@me"),
        ("http://a/@me", "http://a/@me"),
    ],
)
def test_a_users_name_and_password(target, shown):
    """Such a target is refused, and the wire's log names it."""
    assert Exchange(f"REQUEST_METHOD\0GET\0REQUEST_URI\0{target}", 2).summary == f"GET {shown}"


@pytest.mark.skipif(sys.implementation.name != "cpython" or sys.version_info < (3, 11), reason="has no shared names")
def test_no_dict_of_its_own():
    """Also behind a first batch of many an exchange keeps its values in the instance: a dict would cost each of them."""
    code = (
        "import gc\nfrom aserve.core.exchange import Exchange\n"
        "exchange = [Exchange('', 0) for _ in range(64)][-1]\n"
        "for name in ('connection', 'response', 'arrived_at', 'began_at', 'thread_id'):\n    setattr(exchange, name, 1.0)\n"
        "print(dict in map(type, gc.get_referents(exchange)))\n"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


@pytest.mark.parametrize(("text", "shown"), [("", ""), ("abc", "abc"), ("abcd", "abc...")])
def test_a_shortened_text_is_marked(text, shown):
    assert shortened(text, 3) == shown
