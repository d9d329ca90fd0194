"""Routes that change the request; the results of uWSGI 2.0.31 were seen with PCRE."""

import pytest
from harness.fakes import FakeConnection

from aserve.compat.routes import Routes, compile_routes
from aserve.core.exchange import Exchange
from aserve.settings import ConfigError
from aserve.wsgi import Gateway
from aserve.wsgi.environ import build_base_environ
from aserve.wsgi.response import CommonFields

FIELDS = CommonFields("")


def found(*routes, is_from_front=False, fields=(), decodes=False, **request):
    """Return the app's view of a request for /old/a?x=1 with these routes; `decodes`: the server was uWSGI."""
    pairs = {
        "REQUEST_METHOD": "POST", "REQUEST_URI": "/old/a?x=1", "PATH_INFO": "/old/a", "QUERY_STRING": "x=1", "SERVER_PROTOCOL": "HTTP/1.1",
        **request,
    }  # fmt: skip
    texts = [text for pair in [*pairs.items(), *dict(fields).items()] for text in pair]
    exchange = Exchange("\0".join(texts), len(pairs))
    exchange.is_from_front = is_from_front
    exchange.connection = FakeConnection(
        build_base_environ("a", "80", server_software="s", multithread=True, file_wrapper=None)
    )
    seen = {}

    def app(environ, start_response):
        seen.update(environ)
        start_response("200 OK", [("Content-Length", "0")])
        return []

    Gateway(app, FIELDS, False, [Routes(FIELDS, compile_routes(routes), decodes)]).respond(exchange)
    return seen


@pytest.mark.parametrize("is_from_front", [False, True], ids=["HTTP", "uwsgi"])
@pytest.mark.parametrize(
    ("routes", "values"),
    [
        (["^/old/(.*) rewrite:/new/$1"], {"PATH_INFO": "/new/a", "QUERY_STRING": "x=1", "REQUEST_URI": "/old/a?x=1"}),
        (["^/old/(.*) rewrite:/new?p=$1"], {"PATH_INFO": "/new", "QUERY_STRING": "p=a&x=1"}),
        (["rewrite:/a%20b/../c?"], {"PATH_INFO": "/c", "QUERY_STRING": "&x=1"}),
        (["rewrite:/n", "^/n seturi:${PATH_INFO}/$1"], None),
        (["rewrite:/n", "^/n setmethod:PUT"], {"PATH_INFO": "/n", "REQUEST_METHOD": "PUT"}),
        (["rewrite-last:/n", "^/n setmethod:PUT"], {"PATH_INFO": "/n", "REQUEST_METHOD": "POST"}),
        (["^/other rewrite:/n"], {"PATH_INFO": "/old/a"}),
        (["setpathinfo:/a%20b"], {"PATH_INFO": "/a%20b"}),
        (["seturi:/u/${QUERY_STRING}"], {"REQUEST_URI": "/u/x=1", "PATH_INFO": "/old/a"}),
        (["setuser:ann:word"], {"REMOTE_USER": "ann"}),
        (["addvar:SITE=shop ${HTTP_HOST}"], {"SITE": "shop h", "HTTP_HOST": "h"}),
        (["addvar:HTTP_HOST=other", "addvar:A=1", "addvar:A=2"], {"HTTP_HOST": "other", "A": "2"}),
    ],
)
def test_what_the_app_finds(routes, values, is_from_front):
    """Variables have their new values, for later routes, too."""
    if values is None:
        with pytest.raises(ConfigError, match="a group that"):
            found(*routes)
        return
    environ = found(*routes, is_from_front=is_from_front, fields={"HTTP_HOST": "h"})
    assert {name: environ[name] for name in values} == values


def test_a_request_without_a_query_or_fields():
    """A rewritten request has the new query alone; a variable is the first field."""
    assert found("rewrite:/n?a=b", QUERY_STRING="")["QUERY_STRING"] == "a=b"
    assert found("addvar:A=1")["A"] == "1"


def test_a_nul_cannot_end_a_value():
    assert found("rewrite:/a%00b")["PATH_INFO"] == "/ab"


@pytest.mark.parametrize("target", ["/x/../old/a?x=1", "http://h/./old/a", "/old/b/../a", "/x%2fy/../../old/a"])
def test_segments_of_dots(target):
    """Where the server was uWSGI, routes and the app find the path without them, and the target unchanged."""
    seen = found("^/old/ addvar:A=1", decodes=True, REQUEST_URI=target, PATH_INFO="/its/own")
    assert (seen["PATH_INFO"], seen["REQUEST_URI"], seen["A"]) == ("/old/a", target, "1")
    assert found("^/old/ addvar:A=1", REQUEST_URI=target, PATH_INFO="/its/own")["PATH_INFO"] == "/its/own"


@pytest.mark.parametrize(
    "text",
    [
        "rewrite:", "rewrite:/$0", "rewrite:/${x}", "setmethod:", "addvar:A", "addvar:a=b", "addvar:HTTPS=on", "addvar:PATH_INFO=/",
        "addvar:CONTENT_LENGTH=1", "addvar:REMOTE_ADDR=1.1.1.1", "addvar:UWSGI_SCHEME=https", "addvar:A=",
    ],
)  # fmt: skip
def test_what_is_no_action(text):
    with pytest.raises(ConfigError, match=r"expected|no variable"):
        compile_routes([text])
