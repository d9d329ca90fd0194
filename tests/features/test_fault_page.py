"""Pages for code that cannot be imported, and for a response that the app did not give."""

import os
import socket

import pytest
from harness import apps
from harness.calling import call

from aserve.core.errors import Fault
from aserve.core.exchange import IS_FORWARDED
from aserve.features import Config, fault_page
from aserve.features.fault_page import MARK, FaultPage, FaultPages, is_loopback_name, is_ours
from aserve.lifecycle.loading import not_loaded

pytestmark = pytest.mark.long_on_pypy

FAULT = Fault("importing a raised ValueError: <b>", 'Traceback:\n  File "a.py"\n    if 1 < 2 & 3:\n')
BROWSER = {"HTTP_ACCEPT": "text/html,application/xhtml+xml,*/*;q=0.8", "HTTP_HOST": "localhost:8000"}


@pytest.fixture(autouse=True)
def peers_of_this_user(monkeypatch):
    """Let a client without a connection be a program of this user."""
    monkeypatch.setattr(fault_page, "is_ours", lambda environ: "REMOTE_ADDR" not in environ or is_ours(environ))


def page(app=apps.hello, fault=FAULT, **settings):
    return FaultPage(app, Config(workers=1, reload=True, **settings), fault)


def test_without_a_fault():
    """The app answers; the log names the fault."""
    outer = page(fault=None)
    assert call(outer, **BROWSER).status == "200 OK"
    assert (outer.__module__, outer.__qualname__) == (apps.__name__, "hello")


def test_a_browser_sees_it():
    """A client that asks for HTML gets the page, without markup of its words; it is not kept."""
    answer = call(page(), **BROWSER)
    text = answer.body.decode()
    assert answer.status == "500 Internal Server Error"
    assert answer.get("Content-Type") == "text/html; charset=utf-8" and answer.get("Cache-Control") == "no-store"
    assert "ValueError: &lt;b&gt;" in text and "if 1 &lt; 2 &amp; 3:" in text and "previous code still answers" in text
    assert answer.get(MARK) in text


def test_everything_else_is_the_apps():
    """fetch(), scripts and curl are answered by the code of before."""
    assert call(page(), HTTP_ACCEPT="*/*", HTTP_HOST="localhost").status == "200 OK"


def test_nothing_before_tells_everybody():
    """Without an app, everybody is told, in HTML or in text."""
    text = call(page(None), **BROWSER).body.decode()
    assert "Nothing has been served yet" in text
    answer = call(page(None), HTTP_HOST="127.0.0.1:8000")
    assert answer.status == "500 Internal Server Error" and answer.get("Content-Type") == "text/plain; charset=utf-8"
    assert answer.body.decode() == f"{FAULT.why}\n\n{FAULT.app_traceback}"
    assert b"<pre>" not in call(page(None, Fault("no app", "")), **BROWSER).body


@pytest.mark.parametrize(
    ("settings", "host", "is_shown"),
    [
        ({}, "localhost:8000", True),
        ({}, "shop.localhost", True),
        ({}, "127.0.0.1", True),
        ({}, "[::1]:8000", True),
        ({}, "attacker.example", False),  # whose name leads to 127.0.0.1
        ({}, "127.0.0.1.attacker.example", False),
        ({}, "", False),
        ({"bind": "[::1]:8000"}, "localhost", True),
        ({"bind": "localhost:8000"}, "localhost", True),
        ({"bind": ["127.0.0.1:1", "0.0.0.0:2"]}, "localhost", False),
        ({"bind": ":8000"}, "localhost", False),
        ({"bind": "unix:/run/a"}, "localhost", False),  # a front server's
        ({"bind": "uwsgi://127.0.0.1:1"}, "localhost", False),
        ({"bind": "proxy+http://127.0.0.1:1", "trusted_proxies": "127.0.0.1"}, "localhost", False),
        ({"bind": "fd:3"}, "localhost", False),
        ({"bind": "0.0.0.0:1", "reload_page": "on"}, "dev.example", True),
        ({"reload_page": "off"}, "localhost", False),
    ],
)
def test_who_may_see_it(settings, host, is_shown):
    """By default only clients on this machine, by a name of loopback: others see the app, or that there is none."""
    browser = {**BROWSER, "HTTP_HOST": host}
    assert (call(page(**settings), **browser).status != "200 OK") == is_shown
    text = call(page(None, **settings), **browser).body
    assert (b"ValueError" in text) == is_shown
    assert is_shown or text == b"The app does not start; its server's terminal says why.\n"


@pytest.mark.parametrize(
    "sign",
    [{IS_FORWARDED: "yes"}, {"SERVER_PROTOCOL": "HTTP/1.0"}, {"REMOTE_ADDR": "127.0.0.1", "REMOTE_PORT": "1", "SERVER_PORT": "1"}],
)  # fmt: skip
def test_what_a_local_front_server_forwards(sign):
    """Its clients may be anywhere, whatever its Host: they see the app, or that there is none; only --reload-page on shows all."""
    assert call(page(), **BROWSER, **sign).status == "200 OK"
    text = call(page(None), **BROWSER, **sign).body
    assert text == b"The app does not start; its server's terminal says why.\n"
    assert b"ValueError" in call(page(reload_page="on"), **BROWSER, **sign).body


def test_the_mark_is_not_the_apps():
    seen = {}

    def app(environ, start_response):
        seen.update(environ)
        return apps.hello(environ, start_response)

    call(page(app), **BROWSER, **{IS_FORWARDED: "yes"})
    assert seen and IS_FORWARDED not in seen


@pytest.mark.parametrize("trusted", [{}, {"trusted_proxies": "127.0.0.1"}], ids=["nobody trusted", "a proxy trusted"])
def test_forwarded_requests_are_marked(start_server, raw_client, trusted):
    """The fields are removed before the app; their arrival is known all the same."""
    settings = {"bind": "127.0.0.1:0", "reload": True, "workers": 1, **trusted}
    client = raw_client(start_server(FaultPage(None, Config(**settings), FAULT), **settings))
    ask = "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n"
    for field in (
        "X-Forwarded-For: 192.0.2.1",
        "Forwarded: for=192.0.2.1",
        "X-Real-IP: 192.0.2.1",
        "X-Forwarded-Proto: https",
    ):
        client.send(f"{ask}{field}\r\n\r\n".encode())
        assert client.recv_response().body == b"The app does not start; its server's terminal says why.\n", field
    client.send(f"{ask}\r\n".encode())
    assert b"ValueError" in client.recv_response().body


@pytest.mark.skipif(not os.path.exists("/proc/net/tcp"), reason="the table is Linux's, as --reload is")
@pytest.mark.parametrize(
    ("family", "host", "address"),
    [
        (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
        (socket.AF_INET6, "::1", "::1"),
        (socket.AF_INET6, "::ffff:127.0.0.1", "127.0.0.1"),  # a client of Java's
    ],
)
def test_whose_process_the_peer_is(monkeypatch, family, host, address):
    """The kernel tells the user of a connection's other end; an unknown end is nobody's."""
    own_family = socket.AF_INET6 if address == "::1" else socket.AF_INET
    with socket.create_server((address, 0), family=own_family) as server:
        port = server.getsockname()[1]
        with socket.socket(family) as client:
            client.connect((host, port))
            peer = {"REMOTE_ADDR": address, "REMOTE_PORT": str(client.getsockname()[1]), "SERVER_PORT": str(port)}
            assert is_ours(peer)
            assert not is_ours({**peer, "SERVER_PORT": "1"}) and not is_ours({**peer, "REMOTE_ADDR": "127.0.0.2"})
            assert not is_ours({**peer, "REMOTE_PORT": ""}) and not is_ours({**peer, "REMOTE_ADDR": "unknown"})
            monkeypatch.setattr(os, "getuid", lambda: 4242)
            assert not is_ours(peer)


@pytest.mark.parametrize("call", [apps.raises, apps.raises_started, apps.raises_lazily])
@pytest.mark.also_inline
def test_an_exception_in_a_request(start_server, raw_client, call):
    """The traceback is the response: a page, or text for a client that asks for no page; a client without the right gets a line; the connection goes
    on.
    """
    client = raw_client(start_server(call, bind="127.0.0.1:0", reload=True, workers=1))
    for host, accept, kind, part in (
        ("localhost", "text/html", "text/html; charset=utf-8", b"<h1>The app has raised an exception</h1>"),
        ("localhost", "*/*", "text/plain; charset=utf-8", b"answering GET /?... raised ValueError"),
        ("attacker.example", "text/html", "text/plain; charset=latin-1", b"its log says why"),
    ):
        client.send(f"GET /?a HTTP/1.1\r\nHost: {host}\r\nAccept: {accept}\r\n\r\n".encode())
        response = client.recv_response()
        assert response.status == 500 and response.get("content-type") == kind and part in response.body
        assert (b"apps.py" in response.body) == (host == "localhost") and b"setInterval" not in response.body


@pytest.mark.parametrize(
    "text", ["localhost.example", "", ":8000", "10.0.0.1", "[fe80::1]", "[", "localhost.example:1"]
)
def test_no_names_of_loopback(text):
    assert not is_loopback_name(text)


def test_the_extension_shows_a_told_fault():
    """With --reload the extension shows a told fault; code that never could be imported has no app behind it."""
    extension = FaultPages(Config(workers=1, reload=True))
    outer = extension.wrap_app(apps.hello)
    assert call(outer, **BROWSER).status == "200 OK"
    extension.show_fault(FAULT)
    assert "previous code still answers" in call(outer, **BROWSER).body.decode()
    outer = extension.wrap_app(not_loaded)
    extension.show_fault(FAULT)
    assert "Nothing has been served yet" in call(outer, **BROWSER).body.decode()
    assert FaultPages.is_on(Config(reload=True, workers=1)) and not FaultPages.is_on(Config())


def test_no_app_is_never_called():
    with pytest.raises(AssertionError, match="could not be imported"):
        not_loaded({}, None)
