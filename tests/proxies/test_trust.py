"""The beliefs of a listener, and the effect in the environ and in the log."""

import logging

import pytest
from harness.examples import EXAMPLES
from harness.fakes import FakeAccessLog, FakeConnection
from hypothesis import given, settings
from hypothesis import strategies as st

from aserve.core.body import LiveBody
from aserve.core.errors import BindError, RequestRefused
from aserve.core.exchange import Exchange, refused_exchange
from aserve.features import Config
from aserve.proxies.forwarded import strip_forwarded
from aserve.proxies.peers import Peers
from aserve.proxies.trust import TrustedProxies, TrustingLog, needs_identity, peers_of, trust_of
from aserve.settings import parse_bind
from aserve.wsgi import FileWrapper, Gateway
from aserve.wsgi.environ import build_base_environ, build_environ
from aserve.wsgi.response import CommonFields

pytestmark = pytest.mark.long_on_pypy

PROXY = "10.0.0.1"
HEAD = {
    "REQUEST_METHOD": "GET",
    "REQUEST_URI": "/a?b",
    "PATH_INFO": "/a",
    "QUERY_STRING": "b",
    "SERVER_PROTOCOL": "HTTP/1.1",
}
FIELDS = "x-forwarded-for,x-forwarded-proto,x-forwarded-host,x-forwarded-port,x-forwarded-prefix,x-forwarded-user"


def new_exchange(*fields, peer=PROXY, base=(), host="inside:8000"):
    """Return a request as left by the parser, from a peer."""
    pairs = [*HEAD.items(), *([("HTTP_HOST", host)] if host is not None else []), *fields]
    exchange = Exchange("\0".join(text for pair in pairs for text in pair), len(pairs))
    strip_forwarded(exchange)
    made = build_base_environ("server", "8000", server_software="s", multithread=True, file_wrapper=FileWrapper)
    exchange.connection = FakeConnection({**made, **dict(base)})
    exchange.connection.remote_addr = peer
    exchange.connection.remote_port = "4711"
    return exchange


def new_trust(bind="127.0.0.1:80", proxies="10.0.0.0/8", **settings):
    settings.setdefault("forwarded_fields", FIELDS)
    config = Config(trusted_proxies=proxies, **settings)
    return trust_of(config, parse_bind(bind), peers_of(config))


def environ_of(*fields, trust=None, **options):
    """Return the environ of a request with these fields."""
    exchange = new_exchange(*fields, **options)
    if exchange.forwarded is not None:
        assert (trust or new_trust()).apply(exchange)
    return build_environ(exchange)


def shown(environ):
    """Client and server, in one line."""
    names = ("REMOTE_ADDR", "REMOTE_PORT", "wsgi.url_scheme", "HTTP_HOST", "SERVER_NAME", "SERVER_PORT", "SCRIPT_NAME")
    return " ".join(environ.get(name) or "-" for name in names)


# In the environ


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({}, "10.0.0.1 4711 http inside:8000 server 8000 -"),
        ({"FOR": "203.0.113.7"}, "203.0.113.7 - http inside:8000 server 8000 -"),
        ({"FOR": "203.0.113.7:99"}, "203.0.113.7 99 http inside:8000 server 8000 -"),
        ({"FOR": "unknown"}, "- - http inside:8000 server 8000 -"),
        ({"PROTO": "https"}, "10.0.0.1 4711 https inside:8000 server 443 -"),
        ({"PROTO": "http"}, "10.0.0.1 4711 http inside:8000 server 80 -"),
        ({"HOST": "a.example"}, "10.0.0.1 4711 http a.example a.example 80 -"),
        ({"HOST": "a.example", "PROTO": "https"}, "10.0.0.1 4711 https a.example a.example 443 -"),
        ({"HOST": "a.example:8443", "PROTO": "https"}, "10.0.0.1 4711 https a.example:8443 a.example 8443 -"),
        ({"HOST": "[::1]:8443"}, "10.0.0.1 4711 http [::1]:8443 [::1] 8443 -"),
        # The client's own port before the proxy's; the proxy's where the host has none.
        ({"HOST": "a.example:8443", "PORT": "443"}, "10.0.0.1 4711 http a.example:8443 a.example 8443 -"),
        ({"HOST": "a.example", "PORT": "8080"}, "10.0.0.1 4711 http a.example:8080 a.example 8080 -"),
        ({"HOST": "a.example", "PORT": "443", "PROTO": "https"}, "10.0.0.1 4711 https a.example a.example 443 -"),
        ({"HOST": "a.example", "PORT": "80", "PROTO": "https"}, "10.0.0.1 4711 https a.example:80 a.example 80 -"),
        ({"PORT": "8443", "PROTO": "https"}, "10.0.0.1 4711 https inside:8000 server 8443 -"),
        ({"PORT": "81"}, "10.0.0.1 4711 http inside:8000 server 81 -"),
        ({"PREFIX": "/app/"}, "10.0.0.1 4711 http inside:8000 server 8000 /app"),
        ({"PREFIX": "/"}, "10.0.0.1 4711 http inside:8000 server 8000 -"),
    ],
)
def test_the_environ_is_as_the_client_knows(fields, line):
    """Client, scheme, host, port and mount point are those known to the client."""
    environ = environ_of(*((f"HTTP_X_FORWARDED_{name}", value) for name, value in fields.items()))
    assert shown(environ) == line
    assert environ["PATH_INFO"] == "/a" and environ["QUERY_STRING"] == "b"
    assert environ.get("HTTPS", "") == ("on" if " https " in line else "")


def test_a_host_without_a_port():
    """A port lost by the proxy's Host comes back."""
    port = ("HTTP_X_FORWARDED_PORT", "8443")
    assert environ_of(port, host="a.example")["HTTP_HOST"] == "a.example:8443"
    assert environ_of(("HTTP_X_FORWARDED_PORT", "80"), host="a.example")["HTTP_HOST"] == "a.example"
    assert environ_of(port, host="")["HTTP_HOST"] == ""


def test_no_host_at_all():
    """HTTP/1.0 may name no host; a proxy still may."""
    assert "HTTP_HOST" not in environ_of(("HTTP_X_FORWARDED_PORT", "8443"), host=None)
    assert environ_of(("HTTP_X_FORWARDED_HOST", "a.example"), host=None)["HTTP_HOST"] == "a.example"


@pytest.mark.parametrize(("proto", "https"), [("https", "on"), ("http", None), (None, "on")])
def test_behind_tls_of_our_own(proto, https):
    """The proxy's words about the client count, not the proxy's way to us."""
    fields = [("HTTP_X_FORWARDED_FOR", "203.0.113.7")] + [("HTTP_X_FORWARDED_PROTO", proto)] * bool(proto)
    environ = environ_of(*fields, base={"wsgi.url_scheme": "https", "HTTPS": "on"})
    assert environ.get("HTTPS") == https
    assert environ["wsgi.url_scheme"] == (proto or "https")


def test_believed_fields_alone_stay():
    """The words of a client before those of the proxies are gone."""
    environ = environ_of(
        ("HTTP_X_FORWARDED_FOR", "1.2.3.4"),
        ("HTTP_X_FORWARDED_FOR", "203.0.113.7, 10.0.0.2"),
        ("HTTP_X_FORWARDED_PROTO", "ftp, https, http"),
        ("HTTP_X_FORWARDED_USER", "alice"),
        ("HTTP_X_FORWARDED_EMAIL", "not named"),
        ("HTTP_X_REAL_IP", "1.2.3.4"),
        ("HTTP_FORWARDED", "for=1.2.3.4"),
        ("HTTP_ACCEPT", "a"),
        ("HTTP_ACCEPT", "b"),
    )
    assert {name: value for name, value in environ.items() if name.startswith("HTTP_")} == {
        "HTTP_HOST": "inside:8000",
        "HTTP_ACCEPT": "a, b",
        "HTTP_X_FORWARDED_FOR": "203.0.113.7, 10.0.0.2",
        "HTTP_X_FORWARDED_PROTO": "https",
        "HTTP_X_FORWARDED_USER": "alice",
    }
    assert environ["REMOTE_ADDR"] == "203.0.113.7" and environ["wsgi.url_scheme"] == "https"


def test_forwarded_says_all_at_once():
    trust = new_trust(forwarded_fields="forwarded")
    field = 'for=203.0.113.7;host="a.example:444";proto=https'
    environ = environ_of(("HTTP_FORWARDED", field), ("HTTP_X_FORWARDED_FOR", "1.2.3.4"), trust=trust)
    assert shown(environ) == "203.0.113.7 - https a.example:444 a.example 444 -"
    assert environ["HTTP_FORWARDED"] == field and "HTTP_X_FORWARDED_FOR" not in environ


def test_hops_are_counted_to_the_client():
    trust = new_trust(proxies="*", trusted_hops=2)
    field = ("HTTP_X_FORWARDED_FOR", "1.2.3.4, 203.0.113.7, 198.51.100.9")
    assert environ_of(field, trust=trust)["REMOTE_ADDR"] == "203.0.113.7"
    assert environ_of(field, trust=new_trust(proxies="*"))["REMOTE_ADDR"] == "198.51.100.9"


def test_the_same_again():
    """A value read once is not read again; the connection, and long values, are looked at each time."""
    trust = new_trust()
    for value in ("203.0.113.7", "203.0.113.7" + " " * 300):
        for port in ("1", "2"):
            exchange = new_exchange(("HTTP_X_FORWARDED_PROTO", "https"), ("HTTP_X_FORWARDED_FOR", value))
            assert trust.apply(exchange)
            assert build_environ(exchange)["REMOTE_ADDR"] == "203.0.113.7"
            exchange = new_exchange(("HTTP_X_FORWARDED_PROTO", "https"))
            exchange.connection.remote_port = port
            assert trust.apply(exchange) and build_environ(exchange)["REMOTE_PORT"] == port


def test_the_connection_is_what_it_was():
    """Only the asking client changes; the app's words go to the connected peer."""
    exchange = new_exchange(("HTTP_X_FORWARDED_FOR", "203.0.113.7"))
    connection = exchange.connection
    assert new_trust().apply(exchange)
    assert exchange.connection is connection and connection.remote_addr == PROXY
    assert (exchange.client.remote_addr, exchange.client.remote_port) == ("203.0.113.7", "")


SENT = [
    ("HTTP_X_FORWARDED_FOR", "203.0.113.7, 10.0.0.2"), ("HTTP_X_FORWARDED_FOR", "[2001:db8::1]:80"), ("HTTP_X_FORWARDED_FOR", "unknown"),
    ("HTTP_X_FORWARDED_PROTO", "https"), ("HTTP_X_FORWARDED_PROTO", "http"), ("HTTP_X_FORWARDED_HOST", "a.example"),
    ("HTTP_X_FORWARDED_HOST", "[::1]:81"), ("HTTP_X_FORWARDED_PORT", "8443"), ("HTTP_X_FORWARDED_PORT", "443"),
    ("HTTP_X_FORWARDED_PREFIX", "/app"), ("HTTP_X_FORWARDED_PREFIX", "/"), ("HTTP_X_FORWARDED_USER", "me"), ("HTTP_X_REAL_IP", "1.2.3.4"),
]  # fmt: skip


@settings(EXAMPLES, max_examples=80)
@given(
    st.lists(st.sampled_from(SENT), min_size=1, max_size=6, unique_by=lambda pair: pair[0]),
    st.sampled_from(["inside:8000", "inside", "[::1]", "", None]),
)
def test_changes_match_the_rewritten_exchange(fields, host):
    """The environ changed by the proxies' words is the environ of the rewritten exchange."""
    trust = new_trust(proxies="10.0.0.0/8")
    exchange = new_exchange(*fields, host=host)
    changed = {**build_environ(exchange), **trust.changes(exchange), "wsgi.input": None, "wsgi.errors": None}
    assert trust.apply(exchange)
    assert changed == {**build_environ(exchange), "wsgi.input": None, "wsgi.errors": None}


def test_what_a_malformed_one_changes():
    """A malformed field changes nothing: the request is refused."""
    exchange = new_exchange(("HTTP_X_FORWARDED_FOR", "x"))
    with pytest.raises(RequestRefused):
        new_trust().changes(exchange)


# Trusted peers


@pytest.mark.parametrize(
    ("bind", "proxies", "peer", "is_believed"),
    [
        ("127.0.0.1:80", "10.0.0.0/8", "10.0.0.1", True),
        ("127.0.0.1:80", "10.0.0.0/8", "11.0.0.1", False),
        ("127.0.0.1:80", "*", "11.0.0.1", True),
        ("127.0.0.1:80", "unix", "11.0.0.1", False),
        ("unix:/a", "unix", "", True),
        ("unix:/a", "*", "", True),
    ],
)
def test_who_is_believed(bind, proxies, peer, is_believed):
    """A peer is believed by address, or by a connection to a unix socket."""
    exchange = new_exchange(("HTTP_X_FORWARDED_FOR", "203.0.113.7"), peer=peer)
    assert new_trust(bind, proxies).apply(exchange) is is_believed
    environ = build_environ(exchange)
    assert environ["REMOTE_ADDR"] == ("203.0.113.7" if is_believed else peer)
    assert ("HTTP_X_FORWARDED_FOR" in environ) is is_believed


@pytest.mark.parametrize(
    ("bind", "settings"),
    [
        ("127.0.0.1:80", {"proxies": ()}),
        ("127.0.0.1:80", {"forwarded_fields": ()}),
        ("unix:/a", {}),
        ("uwsgi://127.0.0.1:80", {"proxies": "*"}),
        ("scgi://unix:/a", {"proxies": "unix"}),
    ],
)
def test_nobody_is_believed(bind, settings):
    """Without proxies, on a socket without a proxy, and over uwsgi and SCGI, nothing is read."""
    assert new_trust(bind, **settings) is None


@pytest.mark.parametrize(
    ("bind", "proxies", "needed"),
    [
        ("127.0.0.1:80", "10.0.0.1, unix:uid=0", False),
        ("proxy+http://127.0.0.1:80", "10.0.0.1", True),
        ("proxy+http://unix:/a", "unix", True),
        ("unix:/a", "unix", False),
        ("unix:/a", "unix:uid=0", True),
        ("unix:/a", "unix:uid=0, unix", False),
    ],
)
def test_a_connection_s_own_identity(bind, proxies, needed):
    """Where the address does not tell, the connection knows the trust."""
    assert needs_identity(parse_bind(bind), Peers(proxies.split(", "))) is needed
    if needed:
        for is_believed in (False, True):
            exchange = new_exchange(("HTTP_X_FORWARDED_FOR", "203.0.113.7"))
            exchange.connection.is_believed = is_believed
            assert new_trust(bind, proxies).apply(exchange) is is_believed


def test_an_account_that_does_not_exist():
    """The error tells whose fault, and where to look."""
    with pytest.raises(BindError, match="--trusted-proxies: there is no user 'no-such-account'"):
        peers_of(Config(trusted_proxies="unix:uid=no-such-account"))


# The gateway


def app(environ, start_response):
    start_response("200 OK", [])
    return [environ["REMOTE_ADDR"].encode()]


def new_gateway(trust=None):
    common_fields = CommonFields("s")
    return Gateway(app, common_fields, True, [TrustedProxies(common_fields, trust or new_trust(), "http://a:80")])


def test_before_the_app(caplog):
    """Requests with and without fields reach the app; an untrusted peer is named once."""
    caplog.set_level(logging.INFO, "aserve")
    gateway = new_gateway()
    field = ("HTTP_X_FORWARDED_FOR", "203.0.113.7")
    assert gateway.respond(new_exchange()).endswith(b"\r\n\r\n10.0.0.1")
    assert gateway.respond(new_exchange(field)).endswith(b"\r\n\r\n203.0.113.7")
    assert caplog.text == ""
    for peer in ("198.51.100.1", "", "198.51.100.2"):
        assert gateway.respond(new_exchange(field, peer=peer)).endswith(b"\r\n\r\n" + peer.encode())
    assert caplog.text.count("\n") == 1 and "http://a:80: X-Forwarded-For came from 198.51.100.1" in caplog.text


@pytest.mark.parametrize(("peer", "who"), [(PROXY, PROXY), ("", "unix socket")])
def test_a_proxy_s_fault(caplog, peer, who):
    """Meaningless words of a proxy of ours are answered with 400, and the connection goes on."""
    caplog.set_level(logging.INFO, "aserve")
    gateway = new_gateway(new_trust("unix:/a" if not peer else "127.0.0.1:80", "unix,10.0.0.1"))
    exchange = new_exchange(("HTTP_X_FORWARDED_FOR", "nonsense"), peer=peer)
    reply = gateway.respond(exchange)
    assert reply.startswith(b"HTTP/1.1 400 Bad Request\r\n") and b"Connection: close" not in reply
    assert b"X-Forwarded-For, as a proxy has sent it, is malformed: 'nonsense' is no address" in reply
    assert exchange.response.code == 400 and exchange.keep_alive
    assert f"{who}: answered 400" in caplog.text


def test_a_proxy_s_fault_with_a_body_to_come():
    """The rest of a live body is not read: the connection ends, and the answer says so."""
    exchange = new_exchange(("HTTP_X_FORWARDED_FOR", "nonsense"))
    exchange.body = LiveBody(10, False)
    reply = new_gateway().respond(exchange)
    assert reply.startswith(b"HTTP/1.1 400 ") and b"\r\nConnection: close\r\n" in reply and not exchange.keep_alive


# The access log


@pytest.mark.parametrize(
    ("value", "peer", "client"),
    [
        ("203.0.113.7", PROXY, "203.0.113.7"),
        ("203.0.113.7", "198.51.100.1", None),
        ("nonsense", PROXY, None),
        (None, PROXY, None),
    ],
)
def test_refused_requests_in_the_log(value, peer, client):
    """A refused request is logged with the client's address, if known."""
    seen = []
    inner = FakeAccessLog()
    inner.write_refused = lambda connection, exchange, why: seen.append((connection, exchange))
    log = TrustingLog(inner, new_trust())
    request = new_exchange(*([("HTTP_X_FORWARDED_FOR", value)] if value else []), peer=peer)
    why = RequestRefused(413, "large")
    log.write_refused(request.connection, refused_exchange(why, request), why)
    ((connection, exchange),) = seen
    assert (exchange.client or connection).remote_addr == (client or peer) and exchange.vars == request.vars + (
        f"\0HTTP_X_FORWARDED_FOR\0{value}" if client else ""
    )


def test_other_lines_of_the_log():
    """Lines without a question of belief are passed on."""
    inner = FakeAccessLog()
    log = TrustingLog(inner, new_trust())
    log.write(new_exchange())
    log.write_refused(None, None, RequestRefused(408, "late"))
    assert inner.codes == [0, 408]
