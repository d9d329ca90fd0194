"""Routes that let a request pass, or not."""

import base64

import pytest
from harness.fakes import FakeConnection

from aserve.compat.routes import Routes, compile_routes
from aserve.compat.routes.guards import compile_guard, status_line
from aserve.core.errors import ResponseTruncated
from aserve.core.exchange import Exchange
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
        (["^/x goto:in", "break:403", "label:other", "break:403", "label:in"], b"200 OK"),
        (["^/y goto:in", "break:403", "label:in"], b"403 Forbidden"),
        (["goto:in", "label:in", "break:410", "label:in", "break:403"], b"410 Gone"),
        (["host:^h$ break:403"], b"200 OK"),
        (["if:empty:${HTTP_HOST} break:403"], b"403 Forbidden"),
    ],
)
def test_the_first_deciding_route_counts(routes, status):
    """The first deciding route ends the search; continue and last let the request pass."""
    assert respond(*routes).startswith(b"HTTP/1.1 " + status)


def test_break_alone_closes_the_connection():
    with pytest.raises(ResponseTruncated):
        list(respond("^/x break:"))
    with pytest.raises(ResponseTruncated):
        list(respond("if:ipv4in:${HTTP_HOST};10.0.0.0/8 break:403"))


@pytest.mark.parametrize(
    "text",
    [
        "^/ basicauth:Realm,s3cret",
        "^/ basicauth:s3cret:x",
        '^/ basicauth:a"b,s3cret:x',
        "^/ break:s3cret",
        "basicauth:s3cret,",
        "if-not:equal:${HTTP_KEY};s3cret break:s",
    ],
)
def test_what_is_no_guard(text):
    """An error tells the form, and not a possible password."""
    with pytest.raises(ConfigError) as caught:
        compile_routes([text])
    assert "s3cret" not in str(caught.value) and (
        "REALM,USER:PASSWORD" in str(caught.value) or "a status" in str(caught.value)
    )


@pytest.mark.parametrize("routes", [["goto:a"], ["label:a", "goto:a", "label:a"], ["goto:2", "label:2"], ["label:"]])
def test_labels_that_lead_nowhere(routes):
    with pytest.raises(ConfigError, match="label"):
        compile_routes(routes)


def test_statuses_have_a_reason():
    assert status_line("499") == "499 Refused"
    assert compile_guard("last", "")(None, {}, None) == "continue"


@pytest.mark.parametrize(
    ("route", "path", "place"),
    [
        ("^/old/(.*) redirect:/new/$1?${QUERY_STRING}", "/old/a b", b"/new/a%20b?q=1"),
        ("redirect:https://${HTTP_HOST}${REQUEST_URI}", "/x", b"https://shop.example/x"),
        ("(?s)^/(.*) redirect:/$1", "/a\r\nSet-Cookie: x=1", b"/a%0D%0ASet-Cookie:%20x=1"),
        ("^/(.*) redirect:/$1", "/\xc3\xbc", b"/%C3%BC"),
    ],
)
def test_a_redirect_has_groups_and_variables(route, path, place):
    """The Location has groups of the path and variables; a line end of the path does not end the field."""
    fields = {"PATH_INFO": path, "QUERY_STRING": "q=1", "HTTP_HOST": "shop.example"}
    reply = respond(route, **fields)
    assert reply.startswith(b"HTTP/1.1 302 Found\r\n") and b"\r\nLocation: " + place + b"\r\n" in reply
    assert respond(route.replace("redirect", "redirect-permanent"), **fields).startswith(b"HTTP/1.1 301 Moved")


@pytest.mark.parametrize(
    "text", ["redirect:", "^/ redirect: ", "^/ redirect:/$1", "redirect:/$0", "redirect:/${x}", "^/(.) redirect:/${x"]
)
def test_what_is_no_redirect(text):
    with pytest.raises(ConfigError):
        compile_routes([text])


@pytest.mark.parametrize(
    ("pattern", "path", "is_found"),
    [
        ("^/gesch\xfctzt", "/gesch\xc3\xbctzt", True),
        ("^/[\xe4\xfc]", "/\xc3\xbc", True),
        (r"^/\w+$", "/\xe9", False),
        (r"^/\W", "/\xe9", True),
    ],
)
def test_patterns_are_of_octets(pattern, path, is_found):
    """A pattern beyond ASCII finds the path in UTF-8, as in uWSGI; letters of classes are ASCII's."""
    assert respond(f"{pattern} break:403", PATH_INFO=path).startswith(b"HTTP/1.1 403 ") == is_found


def test_a_pattern_of_text():
    """A flag for Unicode contradicts this, and is an error."""
    with pytest.raises(ConfigError, match="no regular expression"):
        compile_routes(["(?u)^/x break:403"])
