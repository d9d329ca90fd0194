"""An app finds the environ of uWSGI or gunicorn."""

import socket

import pytest

from aserve.compat.moving.environ import MovedEnviron
from aserve.features import Config

NODE = socket.gethostname()
PROTO, SSL, OLD = "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_SSL", "HTTP_X_FORWARDED_PROTOCOL"


@pytest.fixture
def environ_of():
    """Return the app's environ: environ_of(settings, fields, peer, scheme); a reply in its place is returned as its status."""

    def environ_of(settings, fields=(), peer="10.0.0.1", scheme="http"):
        found = {}
        app = MovedEnviron(Config(**settings)).wrap_app(lambda environ, start_response: found.update(environ) or [])
        environ = {
            "wsgi.url_scheme": scheme, "REMOTE_ADDR": peer, "REQUEST_URI": "/a%20b?c", "SERVER_NAME": NODE, "SERVER_PORT": "80",
            **dict(fields),
        }  # fmt: skip
        statuses = []
        body = app(environ, lambda status, headers: statuses.append(status))
        return (statuses[0], body) if statuses else found

    return environ_of


@pytest.mark.parametrize(
    ("fields", "scheme", "becomes"),
    [
        ({}, "http", "http"),
        ({}, "https", "https"),
        ({PROTO: "https"}, "http", "https"),
        ({PROTO: "HTTPS"}, "http", "https"),
        ({PROTO: "http"}, "https", "http"),
        ({PROTO: "wss"}, "http", "https"),
        ({PROTO: "javascript"}, "http", "http"),
        ({PROTO: "https, http"}, "http", "http"),
        ({SSL: "on"}, "http", "https"),
        ({SSL: "off"}, "http", "http"),
        ({PROTO: "", SSL: "1"}, "http", "https"),
        ({PROTO: "http", SSL: "on"}, "http", "http"),
    ],
)
def test_the_scheme_of_uwsgi(environ_of, fields, scheme, becomes):
    """The scheme is any peer's word, in a field of uWSGI; no further text gets there."""
    found = environ_of({"environ_as": "uwsgi"}, fields, "203.0.113.9", scheme)
    assert found["wsgi.url_scheme"] == becomes and fields.items() <= found.items() and "RAW_URI" not in found
    assert found["REMOTE_ADDR"] == "203.0.113.9"


def test_what_is_of_uwsgi(environ_of):
    """uWSGI names itself and the machine; in HTTP the machine is SERVER_NAME, too, and a front server's value stays."""
    settings = {"environ_as": "uwsgi", "bind": ["127.0.0.1:80", "uwsgi://127.0.0.1:81", "unix:/x"]}
    found = environ_of(settings, {"SERVER_NAME": "127.0.0.1"})
    assert (found["uwsgi.version"][:2], found["uwsgi.node"], found["SERVER_NAME"]) == (b"2.", NODE.encode(), NODE)
    assert environ_of(settings, {"SERVER_NAME": "shop.example"})["SERVER_NAME"] == "shop.example"
    assert environ_of(settings, {"SERVER_NAME": "127.0.0.1", "SERVER_PORT": "81"})["SERVER_NAME"] == "127.0.0.1"


@pytest.mark.parametrize(
    ("target", "path", "becomes"),
    [
        ("/a/../b%20?c/..", "/a/../b ", "/b "),
        ("http://h/./b", "/./b", "/b"),
        ("http://h", "/", "/"),
        ("/%2e/b/./c", "/./b/./c", "/./b/c"),
        ("/x/../b", "/x/b", "/x/b"),
        ("/x/b", "/../b", "/../b"),
    ],
)
def test_the_path_of_uwsgi(environ_of, target, path, becomes):
    """The path is without the target's segments of dots; with routes, and behind a server with another path, the path stays."""
    fields = {"REQUEST_URI": target, "PATH_INFO": path}
    assert environ_of({"environ_as": "uwsgi"}, fields)["PATH_INFO"] == becomes
    assert environ_of({"environ_as": "uwsgi", "route": ["last:"]}, fields)["PATH_INFO"] == path
    assert environ_of({"environ_as": "gunicorn"}, fields)["PATH_INFO"] == path


@pytest.mark.parametrize(
    ("bind", "fields", "peer", "server"),
    [
        ("0.0.0.0:80", {}, "10.0.0.1", ("0.0.0.0", "80")),
        ("[::]:80", {}, "10.0.0.1", ("::", "80")),
        (":80", {}, "10.0.0.1", ("0.0.0.0", "80")),
        ("10.1.1.1:80", {"SERVER_NAME": "10.1.1.1"}, "10.0.0.1", ("10.1.1.1", "80")),
        ("fd:3", {}, "10.0.0.1", (NODE, "80")),
        ("unix:/x", {"HTTP_HOST": "shop.example"}, "", ("shop.example", "80")),
        ("unix:/x", {"HTTP_HOST": "shop.example:8080"}, "", ("shop.example", "8080")),
        ("unix:/x", {"HTTP_HOST": "shop.example", PROTO: "https"}, "", ("shop.example", "443")),
        ("unix:/x", {"HTTP_HOST": "[::1]"}, "", ("[::1]", "80")),
        ("unix:/x", {"HTTP_HOST": "[::1]:81"}, "", ("[::1]", "81")),
        ("unix:/x", {}, "", (NODE, "80")),
    ],
)
def test_the_name_of_gunicorn(environ_of, bind, fields, peer, server):
    """The name is the bound address, and on a unix socket the Host field's, with the scheme's port."""
    found = environ_of({"environ_as": "gunicorn", "bind": [bind], "trusted_proxies": ["unix"]}, fields, peer)
    assert (found["SERVER_NAME"], found["SERVER_PORT"]) == server


@pytest.mark.parametrize(
    ("fields", "peer", "scheme", "becomes"),
    [
        ({}, "10.0.0.1", "http", "http"),
        ({PROTO: "https"}, "10.0.0.1", "http", "https"),
        ({PROTO: "https"}, "10.0.0.2", "http", "http"),
        ({PROTO: "https"}, "", "http", "https"),
        ({PROTO: "http"}, "10.0.0.1", "https", "http"),
        ({SSL: "on"}, "10.0.0.1", "http", "https"),
        ({OLD: "ssl", SSL: "on"}, "10.0.0.1", "http", "https"),
        ({OLD: "https"}, "10.0.0.1", "http", "http"),
    ],
)
def test_the_scheme_of_gunicorn(environ_of, fields, peer, scheme, becomes):
    """The scheme is a trusted peer's word, in one of three fields; REMOTE_ADDR and the fields stay, and RAW_URI is there."""
    settings = {"environ_as": "gunicorn", "trusted_proxies": "10.0.0.1,unix"}
    found = environ_of(settings, fields, peer, scheme)
    assert (found["wsgi.url_scheme"], found["RAW_URI"], found["REMOTE_ADDR"]) == (becomes, "/a%20b?c", peer)
    assert fields.items() <= found.items()


def test_fields_of_gunicorn(environ_of):
    """Other fields may be named in their place; without trusted proxies none counts."""
    settings = {"environ_as": "gunicorn", "trusted_proxies": "*", "scheme_fields": ["X-Ssl: yes"]}
    assert environ_of(settings, {"HTTP_X_SSL": "yes", PROTO: "http"})["wsgi.url_scheme"] == "https"
    assert environ_of({**settings, "scheme_fields": ["none"]}, {PROTO: "https"})["wsgi.url_scheme"] == "http"
    assert environ_of({"environ_as": "gunicorn"}, {PROTO: "https"})["wsgi.url_scheme"] == "http"
    assert (
        environ_of({**settings, "trusted_proxies": "unix:uid=7"}, {"HTTP_X_SSL": "yes"}, "")["wsgi.url_scheme"]
        == "http"
    )


def test_fields_that_contradict_one_another(environ_of):
    """The request is refused, as by gunicorn, if the peer is trusted; from another peer the fields mean nothing."""
    settings, fields = {"environ_as": "gunicorn", "trusted_proxies": "10.0.0.1"}, {PROTO: "https", SSL: "off"}
    status, (body,) = environ_of(settings, fields)
    assert status == "400 Bad Request" and body.startswith(b"400: ")
    assert environ_of(settings, fields, "10.0.0.2")["wsgi.url_scheme"] == "http"


@pytest.mark.parametrize(
    ("settings", "is_on", "keeps"),
    [
        ({}, False, None),
        ({"environ_as": "uwsgi"}, True, True),
        ({"environ_as": "uwsgi", "trusted_proxies": "10.0.0.1"}, True, False),
        ({"environ_as": "gunicorn", "trusted_proxies": "10.0.0.1"}, True, True),
    ],
)
def test_which_fields_are_kept(settings, is_on, keeps):
    """All, but for an app of uWSGI with trusted proxies: then aserve's rules decide."""
    config = Config(**settings)
    assert MovedEnviron.is_on(config) is is_on
    assert not is_on or bool(MovedEnviron(config).keeps) is keeps
