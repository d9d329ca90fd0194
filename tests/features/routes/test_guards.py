"""Routes that let a request pass, or not."""

from __future__ import annotations

import base64

import pytest
from harness.fakes import FakeConnection

from aserve.core.errors import ResponseTruncated
from aserve.core.exchange import Exchange
from aserve.features.routes import Routes, compile_routes
from aserve.features.routes.guards import compile_guard, status_line
from aserve.settings import ConfigError
from aserve.wsgi import Gateway
from aserve.wsgi.environ import build_base_environ
from aserve.wsgi.response import CommonFields

pytestmark = pytest.mark.long_on_pypy

FIELDS = CommonFields("")


def app(environ, start_response):
    body = environ.get("REMOTE_USER", "-").encode("latin-1")
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


def respond(*routes, **fields):
    """Return the response to a request for /x by these routes."""
    pairs = {
        "REQUEST_METHOD": "GET",
        "REQUEST_URI": "/x",
        "PATH_INFO": "/x",
        "QUERY_STRING": "",
        "SERVER_PROTOCOL": "HTTP/1.1",
    }
    pairs.update(fields)
    exchange = Exchange("\0".join(part for pair in pairs.items() for part in pair), len(pairs))
    exchange.connection = FakeConnection(
        build_base_environ("a", "80", server_software="s", multithread=True, file_wrapper=None)
    )
    return Gateway(app, FIELDS, False, [Routes(FIELDS, compile_routes(routes))]).respond(exchange)


def credentials(pair):
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


BASIC = "^/ basicauth:My Site,ann:s:3cret"


@pytest.mark.parametrize(
    "given",
    [None, credentials("ann:no"), credentials("bob:s:3cret"), "Basic", "Bearer x", "Basic \xff", credentials("")],
)
def test_without_the_password(given):
    """Each gets 401 with the challenge, and the app is not called."""
    reply = respond(BASIC, **({} if given is None else {"HTTP_AUTHORIZATION": given}))
    assert (
        reply.startswith(b"HTTP/1.1 401 Unauthorized\r\n") and b'WWW-Authenticate: Basic realm="My Site"\r\n' in reply
    )
    assert reply.endswith(b"\r\n\r\n")


def test_with_the_password():
    """The app is called, and finds the name; the case of the scheme does not count."""
    for scheme in ("Basic", "basic"):
        given = credentials("ann:s:3cret").replace("Basic", scheme)
        assert respond(BASIC, HTTP_AUTHORIZATION=given).endswith(b"\r\n\r\nann")


@pytest.mark.parametrize(
    ("routes", "status"),
    [
        (["^/x break:403"], b"403 Forbidden"),
        (["^/x break:403 Go away"], b"403 Go away"),
        (["break:413"], b"413 "),
        (["^/y break:403"], b"200 OK"),
        (["^/x last:", "break:403"], b"200 OK"),
        (["^/y continue:", "break:403"], b"403 Forbidden"),
        (["^/x continue:", BASIC], b"200 OK"),
    ],
)
def test_order(routes, status):
    """The first that decides ends the search; continue and last let the request pass."""
    assert respond(*routes).startswith(b"HTTP/1.1 " + status)


def test_break_alone():
    """It closes the connection without an answer, as in uWSGI."""
    with pytest.raises(ResponseTruncated):
        list(respond("^/x break:"))


@pytest.mark.parametrize(
    "text",
    [
        "^/ basicauth:Realm,s3cret",
        "^/ basicauth:s3cret:x",
        '^/ basicauth:a"b,s3cret:x',
        "^/ break:s3cret",
        "basicauth:s3cret,",
    ],
)
def test_what_is_no_guard(text):
    """An error tells the form, and not what may be a password."""
    with pytest.raises(ConfigError) as caught:
        compile_routes([text])
    assert "s3cret" not in str(caught.value) and (
        "REALM,USER:PASSWORD" in str(caught.value) or "a status" in str(caught.value)
    )


def test_statuses():
    """A status without a known reason has one, too; compile_guard takes the action's name."""
    assert status_line("499") == "499 Refused"
    assert compile_guard("last", "")(None, {}) == "continue"
