"""The name of a request: a proxy's, or one of ours, and the same for the app and the log."""

import re

import pytest
from harness.fakes import FakeConnection

from aserve.core.exchange import Exchange
from aserve.wsgi import Gateway
from aserve.wsgi.environ import build_base_environ
from aserve.wsgi.request_id import RequestId
from aserve.wsgi.response import CommonFields


def seen_by_app(vars, field_name=None):
    """Return the app's names of two such requests; check that the responses tell the field of that name."""
    seen = []

    def app(environ, start_response):
        seen.append(environ["HTTP_X_REQUEST_ID"])
        start_response("200 OK", [("Content-Length", "2")])
        return [b"ok"]

    gateway = Gateway(app, CommonFields(""), True, [RequestId(field_name)])
    base = build_base_environ("a", "80", server_software="s", multithread=True, file_wrapper=None)
    for _ in range(2):
        exchange = Exchange(vars)
        exchange.connection = FakeConnection(base)
        reply = gateway.respond(exchange)
        assert reply.endswith(b"\r\n\r\nok")
        told = re.findall(rb"\r\nX-Id: (.*)\r\n", reply)
        assert told == ([seen[-1].encode()] if field_name and len(seen[-1]) <= 128 and " " not in seen[-1] else [])
        assert f"HTTP_X_REQUEST_ID\0{seen[-1]}" in exchange.vars
    return seen


LINE = "REQUEST_METHOD\0GET\0REQUEST_URI\0/\0PATH_INFO\0/\0QUERY_STRING\0\0SERVER_PROTOCOL\0HTTP/1.1"


def test_one_that_was_sent():
    assert seen_by_app(f"{LINE}\0HTTP_X_REQUEST_ID\0abc") == ["abc", "abc"]


@pytest.mark.parametrize("end", ["", "\0HTTP_X_REQUEST_ID\0abc"])
def test_a_value_that_is_called_so(end):
    """Such a value is no name: neither does the request go without one, nor is the next field told as one."""
    query = LINE.replace("QUERY_STRING\0", "QUERY_STRING\0HTTP_X_REQUEST_ID")
    for vars in (query, f"{query}\0HTTP_A\0HTTP_X_REQUEST_ID\0HTTP_B\0b"):
        seen = seen_by_app(f"{vars}{end}", "X-Id")
        assert seen == ["abc", "abc"] if end else len(seen[0]) == 32


@pytest.mark.parametrize("vars", [LINE, f"{LINE}\0HTTP_HOST\0a"])
def test_one_of_ours(vars):
    first, second = seen_by_app(vars)
    assert first != second and re.fullmatch("[0-9a-f]{32}", first)


@pytest.mark.parametrize("end", ["", "\0HTTP_HOST\0a"])
def test_who_gets_the_response_is_told(end):
    """The field has the received name, or ours; anything that could be more than a name is not told."""
    assert seen_by_app(f"{LINE}\0HTTP_X_REQUEST_ID\0abc{end}", "X-Id") == ["abc", "abc"]
    assert len(seen_by_app(LINE, "X-Id")[0]) == 32
    for sent in ("a" * 129, "a b", "a\r\nB: c"):  # the last: by a front server
        assert seen_by_app(f"{LINE}\0HTTP_X_REQUEST_ID\0{sent}{end}", "X-Id")[0] == sent
