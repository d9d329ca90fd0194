"""The environ of PEP 3333: complete, of native strings, and a copy for each exchange."""

import gc
import io
import sys

import pytest
from harness.environs import new_base
from harness.fakes import FakeConnection
from harness.front_vars import own_first

import aserve.wsgi.environ as environ_module
from aserve.core.body import BufferedBody, LiveBody
from aserve.core.exchange import Client, Exchange
from aserve.protocols import PROTOCOLS
from aserve.protocols.base import Limits
from aserve.wsgi.environ import REQUEST_DEFAULTS, ErrorStream, build_environ

# PEP 3333 "environ Variables"
REQUIRED = [
    "REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "SERVER_NAME", "SERVER_PORT", "SERVER_PROTOCOL",
    "wsgi.version", "wsgi.url_scheme", "wsgi.input", "wsgi.errors", "wsgi.multithread", "wsgi.multiprocess",
    "wsgi.run_once",
]  # fmt: skip
HEAD = {
    "REQUEST_METHOD": "GET",
    "REQUEST_URI": "/a?b",
    "PATH_INFO": "/a",
    "QUERY_STRING": "b",
    "SERVER_PROTOCOL": "HTTP/1.1",
}


def new_exchange(*fields, body=None):
    pairs = [*HEAD.items(), *fields]
    exchange = Exchange("\0".join(text for pair in pairs for text in pair), len(pairs))
    exchange.connection = FakeConnection(new_base())
    exchange.body = body
    return exchange


def test_the_environ_is_complete():
    environ = build_environ(new_exchange(("HTTP_HOST", "a")))
    assert type(environ) is dict
    assert [name for name in REQUIRED if name not in environ] == []
    assert environ["wsgi.version"] == (1, 0) and environ["wsgi.url_scheme"] == "http"
    for name, value in environ.items():
        assert type(name) is str
        if "." not in name:
            assert type(value) is str, name
    for name in ("multithread", "multiprocess", "run_once", "input_terminated"):
        assert isinstance(environ[f"wsgi.{name}"], bool)


def test_what_the_listener_says():
    """Name, port, scheme and the like are the listener's."""
    base = new_base(scheme="https", multithread=False)
    assert (base["SERVER_NAME"], base["SERVER_PORT"]) == ("www.example", "8000")
    assert base["wsgi.url_scheme"] == "https" and base["wsgi.multithread"] is False
    assert base["SERVER_SOFTWARE"] == "s" and base["wsgi.file_wrapper"] is object
    assert base["wsgi.input_terminated"] is True and base["SCRIPT_NAME"] == ""
    assert base["HTTPS"] == "on" and "HTTPS" not in new_base()


def test_the_base_holds_no_name_of_a_parser():
    """Of the names of the base a parser writes the defaults only, and these always: a client can replace nothing else."""
    raw = b"POST /a?b HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Type: x\r\n"
    for name in new_base():  # whatever a client sends, HTTP_ stands before it
        raw += f"{name.replace('_', '-')}: 1\r\n".encode()
    (exchange,) = PROTOCOLS["http", "c"](Limits())().receive(raw + b"\r\nx")
    assert exchange.refusal is None
    assert set(new_base()).intersection(exchange.vars.split("\0")[::2]) == set(REQUEST_DEFAULTS)


@pytest.mark.skipif(sys.version_info < (3, 10), reason="there a copy of a subclass of dict has no room to spare")
def test_a_copy_of_the_base_has_room():
    """On CPython a copy takes some twenty names more without growing."""
    environ = new_base().copy()
    size = sys.getsizeof(environ, 0)
    environ.update((f"HTTP_{number}", "") for number in range(18))
    assert sys.getsizeof(environ, 0) == size


def test_each_exchange_gets_a_copy():
    """An app's changes to its environ are its own affair."""
    exchange = new_exchange()
    environ = build_environ(exchange)
    environ["SCRIPT_NAME"] = "/x"
    del environ["wsgi.errors"]
    assert build_environ(exchange)["SCRIPT_NAME"] == ""
    assert "wsgi.errors" in exchange.connection.base_environ


def test_the_clients_address_is_there():
    """RFC 3875 4.1.8: the address of the client; empty strings for a unix socket."""
    exchange = new_exchange()
    environ = build_environ(exchange)
    assert (environ["REMOTE_ADDR"], environ["REMOTE_PORT"]) == ("203.0.113.7", "4711")
    exchange.connection.remote_addr = exchange.connection.remote_port = ""
    assert build_environ(exchange)["REMOTE_ADDR"] == ""


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ([("HTTP_A", "1")], "HTTP_A", "1"),
        ([("HTTP_A", "1"), ("HTTP_A", "2")], "HTTP_A", "1, 2"),  # RFC 9110 5.3
        ([("HTTP_A", "1"), ("HTTP_B", "x"), ("HTTP_A", "2"), ("HTTP_A", "3")], "HTTP_A", "1, 2, 3"),
        ([("HTTP_A", ""), ("HTTP_A", "")], "HTTP_A", ", "),
        ([("HTTP_COOKIE", "a=1"), ("HTTP_COOKIE", "b=2")], "HTTP_COOKIE", "a=1; b=2"),  # RFC 6265 5.4
        ([("HTTP_A", "1"), ("HTTP_A", "2"), ("HTTP_COOKIE", "x")], "HTTP_COOKIE", "x"),
    ],
)
def test_repeated_fields_are_joined(fields, name, value):
    environ = build_environ(new_exchange(*fields))
    assert environ[name] == value and environ["PATH_INFO"] == "/a"


def test_a_field_section_that_is_known():
    """The next request with the same fields has the same environ but for its request line; an app's changes stay its own."""
    environ_module.known_fields.clear()
    fields = [("HTTP_A", "1"), ("HTTP_B", "x"), ("HTTP_A", "2")]
    first = build_environ(new_exchange(*fields))
    first["HTTP_B"] = "changed"
    again = new_exchange(*fields)
    again.vars = again.vars.replace("/a?b", "/c?d").replace("\0/a\0", "\0/c\0")
    again.connection.base_environ["SERVER_NAME"] = "other"
    environ = build_environ(again)
    assert [build_environ(again)["HTTP_B"] for _ in range(3)] == ["x"] * 3
    assert len(environ_module.known_fields) == 1
    assert (environ["HTTP_A"], environ["HTTP_B"]) == ("1, 2", "x")
    assert (environ["REQUEST_URI"], environ["PATH_INFO"], environ["SERVER_NAME"]) == ("/c?d", "/c", "other")


def test_a_known_field_section_of_another_listener():
    """A field section known for one listener is not seen by another's app, nor by the client of a trusted proxy."""
    environ_module.known_fields.clear()
    first, other, believed = (new_exchange(("HTTP_A", "1")) for _ in range(3))
    for _ in range(3):
        build_environ(first)
    other.connection.base_environ["SERVER_NAME"] = "other"
    believed.connection = first.connection
    believed.client = Client("192.0.2.1", "5", {**first.connection.base_environ, "wsgi.url_scheme": "https"})
    assert build_environ(other)["SERVER_NAME"] == "other" and build_environ(first)["SERVER_NAME"] == "www.example"
    seen = build_environ(believed)
    assert (seen["wsgi.url_scheme"], seen["REMOTE_ADDR"], seen["HTTP_A"]) == ("https", "192.0.2.1", "1")
    assert environ_module.known_fields["HTTP_A\x001"][0] is first.connection.base_environ


def test_field_sections_that_are_not_kept():
    """Long ones, those with credentials or a name of the request; beyond the limit, all are forgotten."""
    known = environ_module.known_fields
    known.clear()
    for name, value in [
        ("HTTP_A", "x" * 3000),
        ("HTTP_AUTHORIZATION", "Basic x"),
        ("HTTP_PROXY_AUTHORIZATION", "x"),
        ("HTTP_X_REQUEST_ID", "1"),
        ("HTTP_TRACEPARENT", "1"),
    ]:
        assert build_environ(new_exchange((name, value)))[name] == value
    assert known == {}
    for number in range(300):
        assert build_environ(new_exchange(("HTTP_A", str(number))))["HTTP_A"] == str(number)
    assert len(known) == 300 - 256


def test_no_field_at_all():
    """An HTTP/1.0 request may have none."""
    environ = build_environ(new_exchange())
    assert environ["REQUEST_URI"] == "/a?b" and set(environ) == {*new_base(), *HEAD}


def test_no_body_means_an_empty_stream():
    exchange = new_exchange()
    environ = build_environ(exchange)
    assert environ["wsgi.input"].read() == environ["wsgi.input"].read(1) == b""
    assert build_environ(exchange)["wsgi.input"] is not environ["wsgi.input"]
    assert "CONTENT_LENGTH" not in environ


def test_a_body_with_a_length():
    body = BufferedBody(10, False)
    body.feed(b"hello")
    environ = build_environ(new_exchange(("CONTENT_LENGTH", "05"), body=body))
    assert environ["CONTENT_LENGTH"] == "05" and environ["wsgi.input"].read() == b"hello"


def test_a_chunked_body():
    """A chunked body comes with its length in place of its coding, as from a front server."""
    body = BufferedBody(10, True)
    body.feed(b"hello")
    environ = build_environ(new_exchange(("HTTP_TRANSFER_ENCODING", "chunked"), body=body))
    assert environ["CONTENT_LENGTH"] == "5" and "HTTP_TRANSFER_ENCODING" not in environ
    assert environ["wsgi.input"].read() == b"hello"


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_live_body(is_chunked):
    """The length of a live chunked body is not known: the app must read to the end."""
    body = LiveBody(10, is_chunked)
    environ = build_environ(new_exchange(("HTTP_TRANSFER_ENCODING", "chunked"), body=body))
    assert environ["wsgi.input"] is body and environ["wsgi.input_terminated"] is True
    assert environ["HTTP_TRANSFER_ENCODING"] == "chunked" and "CONTENT_LENGTH" not in environ


def test_errors_go_to_standard_error(monkeypatch):
    """wsgi.errors writes text to the present standard error, not to a former one."""
    errors = build_environ(new_exchange())["wsgi.errors"]
    assert type(errors) is ErrorStream
    for _ in range(2):
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        assert errors.write("one\n") == 4
        errors.writelines(["two", "\n"])
        errors.flush()
        print("three", file=errors)
        assert stream.getvalue() == "one\ntwo\nthree\n"


def test_the_error_stream_ends_quietly(monkeypatch):
    """The error stream leaves standard error alone: its own end may be the interpreter's, when there is none any more."""
    flushed = []
    stream = io.StringIO()
    monkeypatch.setattr(stream, "flush", lambda: flushed.append(1), raising=False)
    monkeypatch.setattr(sys, "stderr", stream)
    for _ in range(3):
        ErrorStream()
        gc.collect()
    assert flushed == []


# From a front server: its variables, in CGI's form


def from_front(*pairs, is_mounted=False, connection=None):
    ordered, own_count = own_first(pairs)
    exchange = Exchange("\0".join(text for pair in ordered for text in pair), own_count)
    exchange.connection = connection or FakeConnection(new_base())
    exchange.is_from_front, exchange.is_mounted = True, is_mounted
    return build_environ(exchange)


def test_known_vars_of_a_front_server():
    """The next request of the same client has the same environ but for its own part, and may have less of that."""
    environ_module.known_fields.clear()
    connection = FakeConnection(new_base())
    common = [
        ("REQUEST_METHOD", "GET"),
        ("REQUEST_SCHEME", "https"),
        ("SERVER_NAME", ""),
        ("HTTP_A", "1"),
        ("HTTP_A", "2"),
    ]
    for number in range(4):
        own = [("REQUEST_URI", f"/{number}"), ("DOCUMENT_URI", f"/{number}"), ("REMOTE_PORT", str(number))]
        environ = from_front(*own, ("SCRIPT_NAME", "/"), *common, connection=connection)
        environ["HTTP_A"] += environ.pop("REQUEST_URI")  # the app's own business
        assert (environ["PATH_INFO"], environ["REMOTE_PORT"], environ["HTTP_A"]) == (
            f"/{number}",
            f"{number}",
            f"1, 2/{number}",
        )
        assert (environ["wsgi.url_scheme"], environ["SERVER_NAME"], environ["SCRIPT_NAME"]) == (
            "https",
            "www.example",
            "",
        )
        environ = from_front(*common, connection=connection)
        assert (environ["HTTP_A"], environ["PATH_INFO"], environ["REMOTE_PORT"]) == ("1, 2", "", "")
    assert len(environ_module.known_fields) == 1


def test_a_front_server_may_say_little():
    """All that PEP 3333 requires is there even from a silent front server."""
    environ = from_front(("REQUEST_METHOD", "GET"))
    assert [name for name in REQUIRED if name not in environ] == []
    assert environ["SCRIPT_NAME"] == environ["PATH_INFO"] == environ["QUERY_STRING"] == ""
    assert (environ["SERVER_NAME"], environ["SERVER_PORT"]) == ("www.example", "8000")


def test_what_a_front_server_says_is_kept():
    """The front server's own words are the environ's; only empty names are filled in."""
    said = {"SERVER_NAME": "front", "SERVER_PORT": "443", "REMOTE_ADDR": "198.51.100.1"}
    environ = from_front(*said.items(), *HEAD.items())
    assert {name: environ[name] for name in said} == said
    environ = from_front(("SERVER_NAME", ""), ("SERVER_PORT", ""))
    assert (environ["SERVER_NAME"], environ["SERVER_PORT"]) == ("www.example", "8000")


@pytest.mark.parametrize(
    ("pairs", "scheme"),
    [
        ([], "http"),
        ([("HTTPS", "on")], "https"),
        ([("HTTPS", "1")], "https"),
        ([("HTTPS", "ON")], "https"),
        ([("HTTPS", "on"), ("UWSGI_SCHEME", "http")], "https"),
        ([("UWSGI_SCHEME", ""), ("REQUEST_SCHEME", "")], "http"),
        ([("HTTPS", "off")], "http"),
        ([("HTTPS", "")], "http"),
        ([("REQUEST_SCHEME", "https")], "https"),
        ([("UWSGI_SCHEME", "https"), ("REQUEST_SCHEME", "http")], "https"),
        ([("UWSGI_SCHEME", "javascript")], "http"),
        ([("UWSGI_SCHEME", "javascript"), ("REQUEST_SCHEME", "https")], "https"),
        ([("REQUEST_SCHEME", "wss")], "https"),
        ([("REQUEST_SCHEME", "https\n")], "http"),
    ],
)
def test_the_scheme_of_a_front_server(pairs, scheme):
    """Front servers have several ways to tell a client's TLS; an unknown scheme is passed over."""
    assert from_front(*pairs)["wsgi.url_scheme"] == scheme


@pytest.mark.parametrize(
    ("pairs", "path_info"),
    [
        ([("PATH_INFO", "/x"), ("DOCUMENT_URI", "/y")], "/x"),
        ([("DOCUMENT_URI", "/y"), ("REQUEST_URI", "/z")], "/y"),
        ([("REQUEST_URI", "/z%C3%A9?q")], "/z\xc3\xa9"),
        ([("SCRIPT_NAME", "/app"), ("DOCUMENT_URI", "/app/y")], "/y"),
        ([("SCRIPT_NAME", "/app"), ("DOCUMENT_URI", "/app")], ""),
        ([("SCRIPT_NAME", "/app/"), ("DOCUMENT_URI", "/app/y")], "/y"),
        ([("SCRIPT_NAME", "/app"), ("DOCUMENT_URI", "/apple")], "/apple"),
        ([], ""),
        # Apache's mod_proxy_scgi
        ([("SCRIPT_NAME", "/a b/c"), ("SCRIPT_FILENAME", "proxy:scgi://app/a%20b/c")], "/a b/c"),
        ([("SCRIPT_NAME", "/%41"), ("SCRIPT_FILENAME", "proxy:scgi://127.0.0.1:4000/%2541")], "/%41"),
        ([("SCRIPT_NAME", "/"), ("SCRIPT_FILENAME", "proxy:scgi://app/")], "/"),
    ],
)
def test_the_path_of_a_front_server(pairs, path_info):
    """Without PATH_INFO, it is the part behind SCRIPT_NAME in the front server's words."""
    assert from_front(*pairs)["PATH_INFO"] == path_info


@pytest.mark.parametrize(("is_mounted", "path_info"), [(False, "/app/x"), (True, "/x")])
def test_a_mount_point(is_mounted, path_info):
    """Where the front server leaves the mount point in PATH_INFO, it is taken out, when asked."""
    pairs = [("SCRIPT_NAME", "/app"), ("PATH_INFO", "/app/x")]
    assert from_front(*pairs, is_mounted=is_mounted)["PATH_INFO"] == path_info


@pytest.mark.parametrize(
    ("script_name", "target", "expected"),
    [
        ("/app/x y", "app/x%20y", ("/app", "/x y")),
        ("/app/x y", "app//x%20y", ("/app", "/x y")),
        ("/app", "app/", ("/app", "")),
        ("/app/", "app/", ("/app", "/")),
        ("/", "app/", ("", "/")),
        ("/a/b", "app/other", ("", "/a/b")),
        ("/a/b", "app", ("/a/b", "")),
    ],
)
def test_the_mount_point_of_apache(script_name, target, expected):
    """mod_proxy_scgi tells the whole path, and the place of the mount point's end."""
    environ = from_front(("SCRIPT_NAME", script_name), ("SCRIPT_FILENAME", f"proxy:scgi://{target}"))
    assert (environ["SCRIPT_NAME"], environ["PATH_INFO"]) == expected


@pytest.mark.parametrize(
    ("script_name", "path_info", "expected"),
    [
        ("/app/", "/", ("/app", "/")),  # Apache's mod_proxy_uwsgi for /app/
        ("/app/", "", ("/app", "/")),
        ("/app/", "x", ("/app", "/x")),
        ("/", "/x", ("", "/x")),
        ("/", "", ("", "/")),
        ("/app", "", ("/app", "")),
        ("", "/x", ("", "/x")),
    ],
)
def test_a_slash_between_mount_point_and_path(script_name, path_info, expected):
    """PEP 3333: SCRIPT_NAME and PATH_INFO together are the path; the slash between them is PATH_INFO's."""
    environ = from_front(("SCRIPT_NAME", script_name), ("PATH_INFO", path_info))
    assert (environ["SCRIPT_NAME"], environ["PATH_INFO"]) == expected
    environ = from_front(("SCRIPT_NAME", "/app/"), ("PATH_INFO", "/app/x"), is_mounted=True)
    assert (environ["SCRIPT_NAME"], environ["PATH_INFO"]) == ("/app", "/x")


def test_nothing_is_decoded_twice():
    """A part decoded by a front server stays; only a raw target is decoded, once."""
    assert from_front(("PATH_INFO", "/%41"))["PATH_INFO"] == "/%41"
    assert from_front(("DOCUMENT_URI", "/%41"), ("REQUEST_URI", "/%2541"))["PATH_INFO"] == "/%41"
    assert from_front(("REQUEST_URI", "/%2541"))["PATH_INFO"] == "/%41"


def test_magic_is_only_environ():
    """uWSGI's variables for loading code are ordinary entries of the environ."""
    environ = from_front(("PATH_INFO", "/x"), ("UWSGI_FILE", "/tmp/x"), ("UWSGI_SETENV", "A=1"), ("mine", "1"))
    assert (environ["UWSGI_FILE"], environ["UWSGI_SETENV"], environ["mine"]) == ("/tmp/x", "A=1", "1")


def test_repeated_fields_from_a_front_server():
    """nginx before 1.23 passes repeated fields one by one: joined; of other vars the last wins."""
    connection = FakeConnection()
    vars = "PATH_INFO\0/\0SCRIPT_NAME\0\0HTTP_COOKIE\0a=b\0HTTP_COOKIE\0c=d\0HTTP_X\x001\0HTTP_X\x002\0SERVER_NAME\0one\0SERVER_NAME\0two\0SERVER_PORT\x0080"
    exchange = Exchange(vars, 2)
    exchange.connection = connection
    exchange.is_from_front = True
    environ = build_environ(exchange)
    assert (environ["HTTP_COOKIE"], environ["HTTP_X"], environ["SERVER_NAME"]) == ("a=b; c=d", "1, 2", "two")
