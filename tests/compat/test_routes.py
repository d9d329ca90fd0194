"""Routes without a server: the grammar, and each action's effect on an exchange."""

import pytest
from harness.fakes import FakeConnection
from harness.gateways import Left

from aserve import rpc
from aserve.compat.routes import Routes, compile_routes, lacks_action
from aserve.core.body import BufferedBody
from aserve.core.errors import ResponseTruncated
from aserve.core.exchange import HTTP_1_0, UWSGI, Exchange
from aserve.settings import ConfigError
from aserve.wsgi import Gateway
from aserve.wsgi.environ import build_base_environ
from aserve.wsgi.response import LARGE_BODY_BYTES, CommonFields

pytestmark = pytest.mark.long_on_pypy

FIELDS = CommonFields("")

VARS = {
    "REQUEST_METHOD": "GET",
    "REQUEST_URI": "/rpc/a%20b?q=1",
    "PATH_INFO": "/rpc/a b",
    "QUERY_STRING": "q=1",
    "SERVER_PROTOCOL": "HTTP/1.1",
    "HTTP_X_LATIN": "\xe9",
}


@pytest.fixture(autouse=True)
def functions(monkeypatch):
    """A registry of these only."""
    monkeypatch.setattr(rpc.registry, "_functions", {})
    rpc.register("join", lambda *arguments: b"|".join(arguments))
    rpc.register("echo", lambda argument: argument)
    rpc.register("big", lambda: bytes(LARGE_BODY_BYTES))
    rpc.register("text", lambda: "text")
    rpc.register("fail", lambda: 1 / 0)


def app(environ, start_response):
    start_response("200 OK", [("Content-Length", "3")])
    return [b"app"]


def new_exchange(**vars):
    pairs = {**VARS, **vars}
    exchange = Exchange("\0".join(part for pair in pairs.items() for part in pair), len(pairs))
    base = build_base_environ("a", "80", server_software="s", multithread=True, file_wrapper=None)
    exchange.connection = FakeConnection(base)
    return exchange


def routing(app, *routes):
    return Gateway(app, FIELDS, False, [Routes(FIELDS, compile_routes(routes))])


def respond(*routes, exchange=None, gateway=None):
    gateway = gateway or routing(app, *routes)
    return gateway.respond(new_exchange() if exchange is None else exchange)


def split(reply):
    """Return status line, fields but Date, and body."""
    head, _, body = reply.partition(b"\r\n\r\n")
    status, *fields = head.decode("latin-1").split("\r\n")
    return status, [field for field in fields if not field.startswith("Date: ")], body


def returning(result):
    """Return a route of rpcraw's or rpcret's argument: a function that returns these octets."""
    rpc.register("given", lambda: result, replace=True)


# The grammar


@pytest.mark.parametrize(
    "text",
    [
        "^/rpc rpc join:one two",
        "^/rpc rpc join one two",
        "^/rpc rpc:join one two",
        "^/rpc rpc: join one two",
        "^/rpc \t rpc  join:  one   two  ",
        "^/rpc call:join one two",
    ],
)
def test_spellings_of_two_servers_are_the_same(text):
    (route,) = compile_routes([text])
    assert (route.pattern.pattern, route.function, route.arguments) == ("^/rpc", b"join", ((b"one",), (b"two",)))


@pytest.mark.parametrize("text", ["rpc join", "rpc:join", "call join:", "rpcraw:join", "rpcret join"])
def test_without_a_pattern_or_arguments(text):
    """Both may be left out."""
    (route,) = compile_routes([text])
    assert route.pattern is None and route.arguments == () and not route.needs_environ


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("^/rpc", True),
        ("/", True),
        ("rpc", True),
        ("rpc:f", False),
        ("rpc f", False),
        ("^/ rpc f", False),
        ("/rpc:f", True),
    ],
)
def test_a_pattern_alone(text, lacks):
    """The command line joins a lone pattern with the argument behind it."""
    assert lacks_action(text) is lacks


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no action"),
        ("^/rpc", "no action"),
        ("^/rpc rpc", "no action"),
        ("^/rpc rpc ", "no action"),
        ("^/rpc rpc:", "names no function"),
        ("rpc :a", "names no function"),
        ("^/(rpc rpc f", "its pattern is no regular expression: missing )"),
        ("^/x rpcblob f", "there is no action 'rpcblob'; there are rpc, call, rpcraw, rpcret"),
        ("rpcvar:VAR f", "there is no action 'rpcvar'"),
        ("rpcnext f", "there is no action 'rpcnext'"),
        ("^/x static:/y", "there is no action 'static'"),
        ("^/x rpc:f@10.0.0.1:3031 a", "is on another server"),
        ("rpc f $1", "$1 stands for a group"),
        ("^/x rpc f $1", "$1 stands for a group"),
        ("^/(x) rpc f $2", "$2 stands for a group"),
        ("rpc f ${hex[a]}", "${hex[a]} is no variable"),
        ("rpc f ${wsgi.input}", "is no variable"),
        ("rpc f " + "a " * 255, "255 arguments; a function takes 254"),
    ],
)
def test_what_is_no_route(text, why):
    """A mistake is a single line with the route."""
    with pytest.raises(ConfigError) as caught:
        compile_routes(["rpc good", text])
    line = str(caught.value)
    assert why in line and line.startswith("--route ") and "\n" not in line


# Actions


@pytest.mark.parametrize("action", ["rpc", "call"])
def test_rpc_answers_with_the_result(action):
    status, fields, body = split(respond(f"^/rpc {action} join:one two three"))
    assert (status, fields, body) == ("HTTP/1.1 200 OK", ["Content-Length: 13"], b"one|two|three")


def test_rpc_head_and_keep_alive():
    """The response has the form asked for by its exchange."""
    exchange = new_exchange()
    exchange.is_head, exchange.form = True, HTTP_1_0
    assert split(respond("rpc join:a b", exchange=exchange))[1:] == (
        ["Content-Length: 3", "Connection: keep-alive"],
        b"",
    )
    exchange.keep_alive = False
    assert "Connection: close" in split(respond("rpc join:a b", exchange=exchange))[1]
    exchange.form = UWSGI
    assert split(respond("rpc join:a b", exchange=exchange))[1] == ["Content-Length: 3"]


def test_rpc_is_logged_like_a_response():
    """The access log finds status and length."""
    exchange = new_exchange()
    respond("rpc join:a b", exchange=exchange)
    assert (exchange.response.code, exchange.response.sent_bytes) == (200, 3)
    respond("rpc fail", exchange=exchange)
    assert exchange.response.code == 500


def test_an_empty_result():
    """A function may return nothing: an empty body."""
    assert split(respond("rpc join"))[::2] == ("HTTP/1.1 200 OK", b"")


def test_a_large_result():
    """A large result is not copied behind its head."""
    head, body = respond("rpc big")
    assert head.endswith(b"\r\n\r\n") and len(body) == LARGE_BODY_BYTES


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("${REQUEST_URI}", b"/rpc/a%20b?q=1"),
        ("<${PATH_INFO}|${QUERY_STRING}>", b"</rpc/a b|q=1>"),
        ("${HTTP_X_LATIN}", b"\xe9"),
        ("${HTTP_ABSENT}", b""),
        ("${REMOTE_ADDR}", b"203.0.113.7"),
        ("$1", b"a b"),
        ("$2-$1$1", b"-a ba b"),
        ("$", b"$"),
        ("$0 ", b"$0"),
        ("é", b"\xc3\xa9"),
    ],
)
def test_arguments_hold_any_octets(argument, value):
    """Variables and groups are filled in, each into one argument, whatever their octets."""
    assert split(respond(f"^/rpc/(.*?)(x)?$ rpc echo:{argument}"))[2] == value


def test_variables_without_a_pattern():
    assert split(respond("rpc echo:${PATH_INFO}"))[2] == b"/rpc/a b"


def test_the_body_is_left_to_the_app():
    """Looking at the variables does not open the request's body."""
    exchange = new_exchange()
    exchange.body = BufferedBody(100, is_chunked=False)
    exchange.body.feed(b"body")
    seen = []

    def reading(environ, start_response):
        seen.append(environ["wsgi.input"].read())
        return app(environ, start_response)

    gateway = routing(reading, "^/none rpc join")
    assert split(respond(gateway=gateway, exchange=exchange))[2] == b"app"
    assert seen == [b"body"]


def test_the_path_is_the_apps():
    """From a front server, the pattern is searched in the app's PATH_INFO."""
    exchange = new_exchange(SCRIPT_NAME="/rpc")
    exchange.is_from_front = exchange.is_mounted = True
    assert split(respond("^/a rpc echo:${PATH_INFO}", exchange=exchange))[2] == b"/a b"


def test_the_first_match_answers():
    """Routes are tried in order; the app answers where none matches."""
    routes = ["^/other rpc echo:1", "^/rpc rpc echo:2", "rpc echo:3"]
    assert split(respond(*routes))[2] == b"2"
    assert split(respond(*routes, exchange=new_exchange(PATH_INFO="/")))[2] == b"3"
    assert split(respond(*routes[:2], exchange=new_exchange(PATH_INFO="/")))[2] == b"app"


@pytest.mark.parametrize("action", ["rpc", "rpcraw", "rpcret"])
@pytest.mark.parametrize("function", ["fail", "text", "other"])
def test_failures_of_functions_are_a_500(action, function, caplog):
    status, fields, _ = split(respond(f"{action} {function}"))
    assert status == "HTTP/1.1 500 Internal Server Error"
    assert "Connection: close" not in fields
    assert len(caplog.records) == 1


# rpcraw


def test_rpcraw_sends_the_functions_response():
    returning(b"HTTP/1.1 201 Created\r\nX-A: b\r\nconnection: close\r\nX-Empty:\r\nContent-Length: 3\r\n\r\nabc")
    status, fields, body = split(respond("rpcraw given"))
    assert (status, fields, body) == ("HTTP/1.1 201 Created", ["X-A: b", "X-Empty: ", "Content-Length: 3"], b"abc")


@pytest.mark.parametrize(
    ("result", "status", "fields", "body"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\n", "200 OK", ["Content-Length: 0"], b""),
        (b"HTTP/1.1 200 OK\r\n\r\na\r\n\r\nb", "200 OK", ["Content-Length: 6"], b"a\r\n\r\nb"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "204 No Content", [], b""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabc", "200 OK", ["Content-Length: 1"], b"a"),
    ],
)
def test_rpcraw_framing_follows_the_length(result, status, fields, body):
    """The length is the declared length, or the real length."""
    returning(result)
    assert split(respond("rpcraw given")) == (f"HTTP/1.1 {status}", fields, body)


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (b"", "whole HTTP response"),
        (b"hello", "whole HTTP response"),
        (b"HTTP/1.1 200 OK\r\nX: y\r\n", "whole HTTP response"),
        (b"HTTP/2 200 OK\r\n\r\n", "whole HTTP response"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n", "whole HTTP response"),
        (b"HTTP/1.1 200 OK\r\nno field\r\n\r\n", "no field"),
        (b"HTTP/1.1 200 OK\r\nX: a\nY: b\r\n\r\n", "control character"),
        (b"HTTP/1.1 200 OK\r\nX y: a\r\n\r\n", "not a token"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "Transfer-Encoding"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", "before its Content-Length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", "twice"),
    ],
)
def test_rpcraw_of_something_else(result, why, caplog):
    """Anything but a response is never sent: a 500, and a log line with the route."""
    returning(result)
    assert split(respond("rpcraw given"))[0].endswith("500 Internal Server Error")
    (record,) = caplog.records
    assert why in record.getMessage() and "'rpcraw given'" in record.getMessage()


# rpcret


def test_rpcret_next_tries_later_routes():
    returning(b"next")
    assert split(respond("rpcret given", "rpc echo:second"))[2] == b"second"


def test_rpcret_continue_lets_the_app_answer():
    returning(b"continue")
    assert split(respond("rpcret given", "rpc echo:second"))[2] == b"app"


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (b"break 403 Forbidden", "403 Forbidden"),
        (b"break 403", "403 Forbidden"),
        (b"break 404 Nothing here", "404 Nothing here"),
        (b"break 299 Own", "299 Own"),
    ],
)
def test_rpcret_break_with_status(result, status):
    """break STATUS: a response without a body."""
    returning(result)
    assert split(respond("rpcret given")) == (f"HTTP/1.1 {status}", ["Content-Length: 0"], b"")


def test_rpcret_break_cuts_the_connection():
    returning(b"break")
    pieces = respond("rpcret given")
    with pytest.raises(ResponseTruncated):
        assert b"".join(pieces) == b""


@pytest.mark.parametrize("result", [b"", b"NEXT", b"next ", b"goto a", b"break x", b"break 403\r\nX: y", b"\xff"])
def test_rpcret_of_something_else(result, caplog):
    """Anything but a verdict does not let the request pass."""
    returning(result)
    assert split(respond("rpcret given"))[0].endswith("500 Internal Server Error")
    assert len(caplog.records) == 1


def test_a_child_of_a_function(fork):
    """A process forked by a function leaves at its return."""
    rpc.register("fork", lambda: fork[0]() or b"x")
    with pytest.raises(Left):
        respond("rpc fork")
