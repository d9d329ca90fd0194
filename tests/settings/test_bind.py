"""Places to listen: each form of a bind spec, and refused forms."""

import sys

import pytest
from harness.refusals import error_of

from aserve.settings import Bind, parse_bind, with_reach

pytestmark = pytest.mark.long_on_pypy


@pytest.mark.parametrize(
    ("text", "bind"),
    [
        ("127.0.0.1:8000", Bind("tcp", "127.0.0.1", 8000)),
        ("localhost:0", Bind("tcp", "localhost", 0)),
        ("my-host.example_1.org:65535", Bind("tcp", "my-host.example_1.org", 65535)),
        (":80", Bind("tcp", "", 80)),
        ("[::1]:8000", Bind("tcp", "::1", 8000)),
        ("[::]:8000", Bind("tcp", "::", 8000)),
        ("[fe80::1%eth0]:8000", Bind("tcp", "fe80::1%eth0", 8000)),
        ("unix:/run/a.sock", Bind("unix", path="/run/a.sock")),
        ("unix:a:b.sock", Bind("unix", path="a:b.sock")),
        ("unix:" + "x" * 103, Bind("unix", path="x" * 103)),
        ("uwsgi://unix:/run/a.sock", Bind("unix", path="/run/a.sock", protocol="uwsgi")),
        ("uwsgi://:3031", Bind("tcp", "", 3031, protocol="uwsgi")),
        ("scgi://[::1]:4000", Bind("tcp", "::1", 4000, protocol="scgi")),
        ("https://[::1]:443", Bind("tcp", "::1", 443, protocol="https")),
        ("https://unix:/run/a.sock", Bind("unix", path="/run/a.sock", protocol="https")),
        ("proxy+http://:8000", Bind("tcp", "", 8000, is_proxied=True)),
        ("proxy+http://unix:/run/a.sock", Bind("unix", path="/run/a.sock", is_proxied=True)),
        ("fd:3", Bind("fd", name="3")),
        ("uwsgi://fd:0", Bind("fd", name="0", protocol="uwsgi")),
        ("proxy+http://fd:12", Bind("fd", name="12", is_proxied=True)),
        ("systemd:web", Bind("systemd", name="web")),
        ("https://systemd:shop-1.socket", Bind("systemd", name="shop-1.socket", protocol="https")),
        ("scgi://systemd:a\\x2db@c.socket", Bind("systemd", name="a\\x2db@c.socket", protocol="scgi")),
    ],
)
def test_bind_forms_are_read_and_given_back(text, bind):
    assert parse_bind(text) == bind
    assert str(bind) == text


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("http://localhost:80", "localhost:80"),
        ("http://:80/", ":80"),
        ("uwsgi://a:1/", "uwsgi://a:1"),
        ("fd://3", "fd:3"),
        ("fd:03", "fd:3"),
        ("systemd://web", "systemd:web"),
    ],
)
def test_bind_as_a_url(text, plain):
    """The text of an address bar is understood."""
    assert str(parse_bind(text)) == plain


@pytest.mark.parametrize(
    ("text", "options", "spec"),
    [
        ("https://a:1?", (), "https://a:1"),
        ("https://a:1/?key=b", (("key", "b"),), "https://a:1?key=b"),
        ("https://:1?certificate=/a b&key=c", (("certificate", "/a b"), ("key", "c")), "https://:1?certificate=/a%20b&key=c"),
        ("https://:1?key=a%2Cb%26c%25+d", (("key", "a,b&c%+d"),), "https://:1?key=a%2Cb%26c%25+d"),
        ("https://:1?sni=*.a.org=b:c&sni=d=e", (("sni", "*.a.org=b:c"), ("sni", "d=e")), "https://:1?sni=*.a.org=b:c&sni=d=e"),
        ("https://unix:/a/b?key=/c", (("key", "/c"),), "https://unix:/a/b?key=/c"),
        ("https://systemd:web?key=/c", (("key", "/c"),), "https://systemd:web?key=/c"),
    ],
)  # fmt: skip
def test_bind_options_are_in_the_spec_alone(text, options, spec):
    """An https bind may have settings; `spec` has the settings, str() has none, and the spec is read back."""
    bind = parse_bind(text)
    assert (bind.options, bind.spec) == (options, spec)
    assert str(bind) == spec.partition("?")[0]
    assert parse_bind(spec) == bind


@pytest.mark.skipif(sys.platform != "linux", reason="abstract sockets are Linux's")
@pytest.mark.parametrize("text", ["unix:@app", "uwsgi://unix:@a/b:c"])
def test_bind_abstract_is_no_file(text):
    """unix(7): an abstract socket is a name behind a NUL, and no file."""
    bind = parse_bind(text)
    assert bind.is_abstract and str(bind) == text
    assert bind.unix_address == "\0" + text.partition("@")[2]
    assert not parse_bind("unix:/a@b").is_abstract


def test_bind_abstract_elsewhere(monkeypatch):
    """Where there are no abstract sockets, the message says so."""
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "only Linux" in error_of(parse_bind, "unix:@app")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no port"),
        ("localhost", "'localhost:8000'"),
        ("8000", "'127.0.0.1:8000'"),
        ("[::1]", "'[::1]:8000'"),
        ("localhost:", "port ''"),
        ("localhost:http", "port 'http'"),
        ("localhost:65536", "0 to 65535"),
        ("localhost:-1", "port '-1'"),
        ("localhost:٣", "port"),  # a digit, but not an ASCII digit
        ("::1:8000", "brackets"),
        ("[::1:8000", "brackets"),
        ("[1.2.3.4]:80", "not an IPv6 address"),
        ("[::1\0]:80", "not an IPv6 address"),
        ("a b:80", "not a host name"),
        ("a" * 254 + ":80", "not a host name"),
        ("ftp://localhost:80", "none of http, https, uwsgi, scgi, proxy+http"),
        ("http://localhost:80?key=a", "port '80?key=a'"),
        ("https://localhost", "no port"),
        ("https://localhost:443?cert=a", "'cert' is none of the options certificate, key, sni,"),
        ("https://localhost:443?threads=1", "'threads' is none of the options"),
        ("https://localhost:443?key", "the option key has no value"),
        ("proxy://localhost:80", "proxy+http"),
        ("proxy+uwsgi://localhost:80", "'proxy+http://localhost:80' would"),
        ("proxy+http://localhost", "'localhost:8000'"),
        ("fd:", "'' is not the number of a descriptor"),
        ("fd:web", "'web' is not the number"),
        ("fd:-1", "'-1' is not the number"),
        ("fd://3/a", "'3/a' is not the number"),
        ("fd:3000000000", "is not the number"),
        ("uwsgi+fd://3", "none of http, https"),
        ("systemd:", "'' is not the name of a socket"),
        ("systemd:a b", "FileDescriptorName="),
        ("systemd:" + "x" * 256, "is not the name of a socket"),
        ("unix:", "needs the path"),
        ("unix:a\0b", "needs the path"),
        ("unix:" + "x" * 108, "longer than"),
        ("unix:@", "only Linux" if sys.platform != "linux" else "needs the name"),
    ],
)
def test_bind_refusals_say_the_reason(text, reason):
    assert reason in error_of(parse_bind, text)


@pytest.mark.parametrize(
    ("places", "shown"),
    [
        ([("http://127.0.0.1:1", ("0.0.0.0", 1)), ("http://[::1]:1", ("::", 1))], ["http://127.0.0.1:1 (all interfaces)"]),
        ([("http://[::1]:1", ("::", 1)), ("http://[::1]:2", ("::", 2))], ["http://[::1]:1 (all interfaces)", "http://[::1]:2 (all interfaces)"]),
        ([("http://127.0.0.1:1", ("127.0.0.1", 1)), ("http://[::1]:1", ("::1", 1))], ["http://127.0.0.1:1", "http://[::1]:1"]),
        ([("unix:/a", "/a"), ("unix:@a", "\0a")], ["unix:/a", "unix:@a"]),
    ],
)  # fmt: skip
def test_what_the_log_shows(places, shown):
    """In a container 127.0.0.1 alone looks like an address without clients; all interfaces of both families are one address."""
    assert with_reach(places) == shown
