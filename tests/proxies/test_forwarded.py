"""The fields of proxies about a client: taken out of every request, read from the right end."""

import logging

import pytest

from aserve.core.errors import RequestRefused
from aserve.core.exchange import IS_FORWARDED, Exchange
from aserve.proxies.forwarded import (
    MAX_FORWARDED,
    Rules,
    StripForwarded,
    cgi_name,
    field_name,
    keep_forwarded,
    marking,
    parse_forwarded,
    parse_node,
    read_claims,
    split_host,
    strip_forwarded,
)
from aserve.proxies.peers import Peers

pytestmark = pytest.mark.long_on_pypy

PROXIES = Peers(["10.0.0.0/8", "2001:db8:a::/48"])
ALL = [
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-real-ip",
]
FOR = "x-forwarded-for"
CLIENT = ("203.0.113.7", "")


def new_exchange(*pairs):
    return Exchange("\0".join(text for pair in pairs for text in pair), len(pairs))


def claims(named=(*ALL, "x-forwarded-user"), hops=0, **sent):
    """Return the claims of fields given as x_forwarded_for="..."."""
    rules = Rules(frozenset(map(cgi_name, named)), hops, PROXIES.has_address)
    found = read_claims({"HTTP_" + name.upper(): value for name, value in sent.items()}, rules)
    return found._replace(fields=dict(found.fields))


def fault(**sent):
    """Return why these fields are refused."""
    with pytest.raises(RequestRefused) as caught:
        claims(**sent)
    assert caught.value.status == 400
    return str(caught.value)


# Taking fields out


@pytest.mark.parametrize(
    "name",
    [
        "HTTP_FORWARDED",
        "HTTP_X_FORWARDED_FOR",
        "HTTP_X_FORWARDED_PROTO",
        "HTTP_X_FORWARDED_HOST",
        "HTTP_X_FORWARDED_PORT",
        "HTTP_X_FORWARDED_PREFIX",
        "HTTP_X_FORWARDED_SSL",
        "HTTP_X_FORWARDED_USER",
        "HTTP_X_FORWARDED",
        "HTTP_X_REAL_IP",
    ],
)
def test_strip_forwarded_drops_proxy_fields(name):
    exchange = new_exchange(("A", "1"), (name, "x"), ("HTTP_B", name))
    strip_forwarded(exchange)
    assert exchange.vars == f"A\x001\x00HTTP_B\x00{name}"
    assert exchange.forwarded == {name: "x"}


def test_nothing_to_strip():
    """Similar names stay, and so do values."""
    pairs = [("HTTP_FORWARDED_FOR", "1"), ("HTTP_X_REAL_IPS", "2"), ("HTTP_A", "HTTP_X_FORWARDED_FOR"), ("B", "")]
    exchange = new_exchange(*pairs)
    before = exchange.vars
    strip_forwarded(exchange)
    assert (exchange.vars, exchange.forwarded) == (before, None)


def test_a_mark_tells_of_a_dropped_field():
    take = marking(strip_forwarded)
    for name, expected in (("HTTP_VIA", "HTTP_VIA\0x"), ("HTTP_FORWARDED", f"\0{IS_FORWARDED}\0yes")):
        exchange = new_exchange((name, "x"))
        take(exchange)
        assert exchange.vars == expected


def test_repeated_fields_are_one_list():
    """RFC 9110 5.3: several lines are one list, in order."""
    exchange = new_exchange(
        ("HTTP_X_FORWARDED_FOR", "1"), ("A", ""), ("HTTP_X_FORWARDED_FOR", "2"), ("HTTP_FORWARDED", "x")
    )
    strip_forwarded(exchange)
    assert exchange.forwarded == {"HTTP_X_FORWARDED_FOR": "1, 2", "HTTP_FORWARDED": "x"}
    assert exchange.vars == "A\0"


def test_said_once_with_the_remedy(caplog):
    """Where nobody is believed, the log says once the missing setting, and how to have one."""
    caplog.set_level(logging.INFO, "aserve")
    take = StripForwarded("http://a:80")
    take(new_exchange(("A", "FORWARDED")))
    assert caplog.text == ""
    for _ in range(3):
        take(new_exchange(("HTTP_X_FORWARDED_FOR", "1"), ("HTTP_X_REAL_IP", "1")))
    assert caplog.text.count("\n") == 1
    assert "http://a:80: X-Forwarded-For, X-Real-IP came" in caplog.text and "--trusted-proxies" in caplog.text


def test_names_of_wire_and_environ_agree():
    for name in ("X-Forwarded-For", "X-Real-IP", "Forwarded"):
        assert field_name(cgi_name(name)) == field_name(cgi_name(name.lower())) == name


# X-Forwarded-For


@pytest.mark.parametrize(
    ("value", "hops", "client", "kept"),
    [
        # By addresses: the first from the right, proxies excepted.
        ("203.0.113.7", 0, CLIENT, "203.0.113.7"),
        ("198.51.100.1, 203.0.113.7", 0, CLIENT, "203.0.113.7"),
        ("203.0.113.7, 10.0.0.1", 0, CLIENT, "203.0.113.7, 10.0.0.1"),
        ("1.2.3.4, 203.0.113.7, 10.0.0.2,10.0.0.1", 0, CLIENT, "203.0.113.7, 10.0.0.2, 10.0.0.1"),
        ("10.0.0.9, 203.0.113.7, 10.0.0.1", 0, CLIENT, "203.0.113.7, 10.0.0.1"),
        ("10.0.0.2, 10.0.0.1", 0, ("10.0.0.2", ""), "10.0.0.2, 10.0.0.1"),  # a client among the proxies
        ("garbage, 'x', 203.0.113.7", 0, CLIENT, "203.0.113.7"),  # a client's garbage is nobody's
        ("203.0.113.7, ::ffff:10.0.0.1", 0, CLIENT, "203.0.113.7, ::ffff:10.0.0.1"),
        ("203.0.113.7, 2001:db8:a::1", 0, CLIENT, "203.0.113.7, 2001:db8:a::1"),
        (",203.0.113.7 ,\t, 10.0.0.1,", 0, CLIENT, "203.0.113.7, 10.0.0.1"),  # RFC 9110 5.6.1.2
        ("unknown, 10.0.0.1", 0, ("", ""), "unknown, 10.0.0.1"),
        ("1.2.3.4, _hidden, 10.0.0.1", 0, ("", ""), "_hidden, 10.0.0.1"),
        ("1.2.3.4, unix:", 0, ("", ""), "unix:"),  # nginx's word for a client on a unix socket
        ("203.0.113.7:4711", 0, ("203.0.113.7", "4711"), "203.0.113.7:4711"),  # Azure's
        ('"[2001:DB8::1]:80"', 0, ("2001:db8::1", "80"), '"[2001:DB8::1]:80"'),
        ("", 0, None, None),
        (" , ", 0, None, None),
        # By number: whatever the addresses are.
        ("1.2.3.4, 203.0.113.7", 1, CLIENT, "203.0.113.7"),
        ("1.2.3.4, 203.0.113.7, 198.51.100.9", 2, CLIENT, "203.0.113.7, 198.51.100.9"),
        ("203.0.113.7, 10.0.0.1", 1, ("10.0.0.1", ""), "10.0.0.1"),
        ("203.0.113.7", 3, CLIENT, "203.0.113.7"),  # fewer than there should be: the first
        ("203.0.113.7, unknown, 10.0.0.1", 3, CLIENT, "203.0.113.7, unknown, 10.0.0.1"),
    ],
)
def test_x_forwarded_for(value, hops, client, kept):
    """The client is the last address named by a proxy of ours; anything before is gone."""
    found = claims(hops=hops, x_forwarded_for=value)
    assert found.client == client
    assert found.fields.get("HTTP_X_FORWARDED_FOR") == kept


@pytest.mark.parametrize("value", ["x", "203.0.113", "203.0.113.7:", "203.0.113.7:99999", "[::1", "[1.2.3.4]", "[::1]80", "a:1",
                                   "::1:99999", "203.0.113.7;", "x.example", "for=1.2.3.4", "\xe9", "fe80::1%lo"])  # fmt: skip
def test_a_malformed_address(value):
    """A proxy with a wrong address is told so; the meaning is not guessed."""
    assert fault(x_forwarded_for=f"203.0.113.7, {value}").startswith("X-Forwarded-For, as a proxy")


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("192.0.2.1", ("192.0.2.1", "")),
        ("192.0.2.1:0", ("192.0.2.1", "0")),
        ("192.0.2.1:_port", ("192.0.2.1", "")),
        ("2001:db8::1", ("2001:db8::1", "")),
        ("[2001:db8::1]", ("2001:db8::1", "")),
        ("[2001:db8::1]:443", ("2001:db8::1", "443")),
        ("[::ffff:192.0.2.1]:1", ("192.0.2.1", "1")),
        ("UNKNOWN", ("", "")),
        ("unknown:1", ("", "")),
        ("_a.b-c_d:_e", ("", "")),
    ],
)
def test_nodes_have_an_address_or_nothing(text, node):
    """RFC 7239 section 6: an address with or without a port, or nothing about the client."""
    assert parse_node(text) == node


# Fields beside X-Forwarded-For


@pytest.mark.parametrize(
    ("hops", "xff", "value", "scheme"),
    [
        (0, "203.0.113.7", "https", "https"),
        (0, "203.0.113.7", "HTTPS", "https"),
        (0, "203.0.113.7", "wss", "https"),
        (0, "203.0.113.7", "ws", "http"),
        (0, "203.0.113.7", "https, http", "http"),  # one proxy, one word: the last
        (0, "203.0.113.7, 10.0.0.1", "https, http", "https"),  # both have added theirs
        (0, "1.2.3.4, 203.0.113.7, 10.0.0.1", "x, https, http", "https"),
        (0, "203.0.113.7, 10.0.0.1", "https", "https"),  # a single word, or overwritten
        (0, "", "https, http", "http"),
        (2, "", "x, https, http", "https"),
        (2, "203.0.113.7", "https, http", "http"),
        (1, "203.0.113.7, 10.0.0.1", "https, http", "http"),
        (0, "203.0.113.7", "", ""),
    ],
)
def test_x_forwarded_proto(hops, xff, value, scheme):
    """Of a list, the word of our farthest proxy counts."""
    found = claims(hops=hops, x_forwarded_for=xff, x_forwarded_proto=value)
    assert found.scheme == scheme
    assert found.fields.get("HTTP_X_FORWARDED_PROTO", "") in value.split(", ")


@pytest.mark.parametrize(
    ("value", "host"),
    [
        ("example.com", "example.com"),
        ("example.com:8443", "example.com:8443"),
        ("[2001:db8::1]:80", "[2001:db8::1]:80"),
        ("evil.example, example.com", "example.com"),
        ("a_b~c-d.example", "a_b~c-d.example"),
    ],
)
def test_x_forwarded_host(value, host):
    """A host, with any port given."""
    assert claims(x_forwarded_host=value).host == host


@pytest.mark.parametrize(
    ("value", "prefix"),
    [
        ("/app", "/app"),
        ("/app/", "/app"),
        ("/a%20b/c", "/a b/c"),
        ("/%C3%A9", "/\xc3\xa9"),
        ("/", ""),
        ("/evil, /app", "/app"),
    ],
)
def test_x_forwarded_prefix(value, prefix):
    """A path, decoded as SCRIPT_NAME is."""
    assert claims(x_forwarded_prefix=value).prefix == prefix


def test_x_forwarded_port():
    """A port."""
    assert claims(x_forwarded_port="8443").port == "8443"
    assert claims(x_forwarded_port="1, 443").port == "443"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x_forwarded_proto", "gopher"),
        ("x_forwarded_proto", "on"),
        ("x_forwarded_host", "a/b"),
        ("x_forwarded_host", "user@a"),
        ("x_forwarded_host", "a b"),
        ("x_forwarded_host", ":80"),
        ("x_forwarded_host", "a:"),
        ("x_forwarded_host", "a:99999"),
        ("x_forwarded_host", "a:b"),
        ("x_forwarded_host", "[::1"),
        ("x_forwarded_host", "\xe9"),
        ("x_forwarded_port", "0"),
        ("x_forwarded_port", "080"),
        ("x_forwarded_port", "65536"),
        ("x_forwarded_port", "http"),
        ("x_forwarded_port", "-1"),
        ("x_forwarded_prefix", "app"),
        ("x_forwarded_prefix", "//evil.example"),
        ("x_forwarded_prefix", "/%2Fevil.example"),
        ("x_forwarded_prefix", "/\\evil.example"),
        ("x_forwarded_prefix", "/a%0d%0aSet-Cookie:x"),
        ("x_forwarded_prefix", "/a%zz"),
        ("x_forwarded_prefix", "http://evil.example/"),
        ("x_real_ip", "x"),
    ],
)
def test_malformed_fields_are_refused_by_name(name, value):
    assert fault(**{name: value}).startswith(field_name("HTTP_" + name.upper()) + ", as a proxy")


def test_x_real_ip():
    """One address, of the nearest; where X-Forwarded-For tells more, X-Forwarded-For decides."""
    found = claims(x_real_ip="1.2.3.4, 203.0.113.7")
    assert found.client == CLIENT and found.fields == {"HTTP_X_REAL_IP": "203.0.113.7"}
    found = claims(x_real_ip="10.0.0.1", x_forwarded_for="203.0.113.7, 10.0.0.1")
    assert found.client == CLIENT and found.fields["HTTP_X_REAL_IP"] == "10.0.0.1"
    assert claims(x_real_ip="unknown").client == ("", "")


def test_only_what_is_named():
    """A field not named by the operator is the word of a client, even where a proxy sends the field."""
    sent = {name.replace("-", "_"): "garbage" for name in ALL}
    found = claims([FOR, "x-forwarded-user"], **{**sent, "x_forwarded_for": "203.0.113.7"}, x_forwarded_user="a, b",
                   x_forwarded_email="c", forwarded="garbage")  # fmt: skip
    assert found == (CLIENT, "", "", "", "", {"HTTP_X_FORWARDED_FOR": "203.0.113.7", "HTTP_X_FORWARDED_USER": "a, b"})


def test_nothing_claimed_without_a_named_field():
    assert claims(forwarded="for=1.2.3.4") == (None, "", "", "", "", {})


@pytest.mark.parametrize(
    ("host", "parts"),
    [
        ("a", ("a", "")),
        ("a:80", ("a", "80")),
        ("[::1]", ("[::1]", "")),
        ("[::1]:80", ("[::1]", "80")),
        ("a:", ("a", "")),
        ("", ("", "")),
    ],
)
def test_split_host_gives_name_and_port(host, parts):
    assert split_host(host) == parts


# Forwarded (RFC 7239)


@pytest.mark.parametrize(
    ("value", "pairs"),
    [
        ("for=192.0.2.43", [{"for": "192.0.2.43"}]),
        ("For=192.0.2.43;PROTO=https ", [{"for": "192.0.2.43", "proto": "https"}]),
        ('for="[2001:db8:cafe::17]:4711"', [{"for": "[2001:db8:cafe::17]:4711"}]),
        ('for="_gazonk"', [{"for": "_gazonk"}]),
        ("for=192.0.2.60;proto=http;by=203.0.113.43", [{"for": "192.0.2.60", "proto": "http", "by": "203.0.113.43"}]),
        ("for=192.0.2.43, for=198.51.100.17", [{"for": "192.0.2.43"}, {"for": "198.51.100.17"}]),
        ('a="x, for=1.2.3.4;b=\\"c\\\\d";e=f', [{"a": 'x, for=1.2.3.4;b="c\\d', "e": "f"}]),
        (" ,, for=a ,\t,host=b;", [{"for": "a"}, {"host": "b"}]),
        (";for=a;;host=b", [{"for": "a", "host": "b"}]),
        ("for=a; host=b ;by=c", [{"for": "a", "host": "b", "by": "c"}]),  # lenient
        ("for=192.0.2.1:80;by=[::1]", [{"for": "192.0.2.1:80", "by": "[::1]"}]),  # lenient
        ('host=""', [{"host": ""}]),
        ("", []),
        (" ", []),
    ],
)
def test_forwarded_elements_respect_quotes(value, pairs):
    """RFC 7239 section 4: elements by commas, pairs by semicolons, both not within quotes."""
    assert [element.pairs for element in parse_forwarded(value)] == pairs


@pytest.mark.parametrize(
    "value",
    [
        "for",
        "for=",
        "=a",
        "for =a",
        "for= a",
        "for=a b",
        "for=a;for=b",
        'for="a',
        'for="a"b',
        'for=a"b"',
        'for="a\\"',
        "for=a, garbage",
        "garbage, for=a",
        "for=\xe9",
        "for=a/b",
        'x=", for=1.2.3.4;by="[::1]"',  # the quote of a client does not swallow the words of a proxy
        # The words of a proxy of ours must mean something.
        "for=x",
        "for=1.2.3.4;proto=gopher",
        'for=1.2.3.4;host="a b"',
        "for=[::1",
    ],
)
def test_a_malformed_forwarded(value):
    """A field malformed anywhere is so as a whole: the ends of elements are unknown."""
    assert fault(named=["forwarded"], forwarded=value).startswith("Forwarded, as a proxy")


def test_a_forwarded_that_is_too_long():
    """A field as long as the limit is read, a longer one is refused."""
    element = "for=192.0.2.1"
    longest = ", ".join([element] * 500)
    longest += ";by=" + "a" * (MAX_FORWARDED - len(longest) - 4)
    assert len(parse_forwarded(longest)) == 500
    assert "longer than" in fault(named=["forwarded"], forwarded=longest + "a")
    assert "longer than" in fault(named=["forwarded"], forwarded="," * 60_000)


@pytest.mark.parametrize(
    ("value", "hops", "client", "scheme", "host", "kept"),
    [
        ("for=203.0.113.7;proto=https;host=example.com", 0, CLIENT, "https", "example.com", 1),
        ("for=1.2.3.4;proto=http, for=203.0.113.7", 0, CLIENT, "", "", 1),
        # Of each, the word of our farthest proxy.
        ("for=203.0.113.7;proto=https;host=a, for=10.0.0.1;proto=http;host=b", 0, CLIENT, "https", "a", 2),
        ("for=203.0.113.7, for=10.0.0.1;proto=http;host=b", 0, CLIENT, "http", "b", 2),
        ("host=x, for=203.0.113.7, for=10.0.0.1;proto=http;host=b", 0, CLIENT, "http", "b", 2),
        ("proto=https, for=203.0.113.7", 2, CLIENT, "https", "", 2),
        # A chain ends where nobody is named.
        ("for=203.0.113.7;host=x, proto=https", 0, None, "https", "", 1),
        ("for=203.0.113.7, for=_hidden", 0, ("", ""), "", "", 1),
        ("for=203.0.113.7, proto=https", 2, CLIENT, "https", "", 2),
        ("for=1.2.3.4, for=203.0.113.7, for=198.51.100.9", 2, CLIENT, "", "", 2),
        ('for="[2001:db8::1]:80", for="[2001:db8:a::1]"', 0, ("2001:db8::1", "80"), "", "", 2),
        ("", 0, None, "", "", 0),
    ],
)
def test_forwarded_is_read_from_the_right(value, hops, client, scheme, host, kept):
    found = claims(["forwarded"], hops, forwarded=value, x_forwarded_for="garbage", x_forwarded_proto="garbage")
    assert (found.client, found.scheme, found.host) == (client, scheme, host)
    elements = [element.strip() for element in value.split(",")]
    assert found.fields == ({"HTTP_FORWARDED": ", ".join(elements[-kept:])} if kept else {})


def test_a_client_s_values_need_no_meaning():
    """Anything before the proxies' words must be well-formed, and no more."""
    assert (
        claims(["forwarded"], forwarded="for=x;proto=y;host=///, for=203.0.113.7".replace("///", '"/"')).client
        == CLIENT
    )


def test_forwarded_and_a_prefix():
    """RFC 7239 has no prefix: a prefix may come beside, and counts the same proxies."""
    named = ["forwarded", "x-forwarded-prefix"]
    found = claims(named, forwarded="for=203.0.113.7, for=10.0.0.1", x_forwarded_prefix="/evil, /app, /inner")
    assert found.client == CLIENT and found.prefix == "/app"


def test_kept_fields_reach_app_and_mark():
    """Where an extension keeps the fields, the app has them unchanged, and a mark of --reload sees them."""
    exchange = new_exchange(("REQUEST_METHOD", "GET"), ("HTTP_X_FORWARDED_FOR", "1.2.3.4, 5.6.7.8"))
    vars = exchange.vars
    keep_forwarded(exchange)
    assert exchange.vars == vars and exchange.forwarded == {"HTTP_X_FORWARDED_FOR": "1.2.3.4, 5.6.7.8"}
    marking(keep_forwarded)(exchange)
    assert exchange.vars == f"{vars}\0{IS_FORWARDED}\0yes"
