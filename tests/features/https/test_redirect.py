"""From HTTP to HTTPS: the target of a request, and requests that stay."""

import types

import pytest
from harness.fakes import FakeConnection
from harness.refusals import error_of

from aserve.core.exchange import Exchange
from aserve.features import Config
from aserve.features.https.folder import Folder
from aserve.features.https.notes import Notes
from aserve.features.https.redirect import HTTPSOnly, HTTPSRedirect
from aserve.wsgi.response import CommonFields

COMMON = CommonFields("shop")
NAMED = {"acme_terms": "accept", "bind": "https://:8443"}


def request_of(target, host, scheme="http"):
    """Return a request in a step's form."""
    vars = f"REQUEST_METHOD\0GET\0REQUEST_URI\0{target}\0PATH_INFO\0{target}\0QUERY_STRING\0\0SERVER_PROTOCOL\0HTTP/1.1"
    exchange = Exchange(f"{vars}\0HTTP_HOST\0{host}" if host else vars)
    exchange.connection = FakeConnection({"wsgi.url_scheme": scheme, "REMOTE_ADDR": "", "REMOTE_PORT": ""})
    return exchange


def listener(protocol):
    """Return the context of a listener."""
    bind = types.SimpleNamespace(protocol=protocol)
    return types.SimpleNamespace(listener=types.SimpleNamespace(bind=bind), common_fields=COMMON)


@pytest.fixture
def redirect():
    """redirect(target, host, names, port) -> status and Location."""

    def redirect(target="/", host="shop.example", names=(), port=443, scheme="http"):
        reply = HTTPSRedirect(names, port, COMMON).before(request_of(target, host, scheme))
        if reply is None:
            return None
        head = reply.partition(b"\r\n\r\n")[0].decode()
        fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:])
        return int(head.split(" ", 2)[1]), fields.get("Location")

    return redirect


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/", "/"),
        ("/a%20b?c=d&e", "/a%20b?c=d&e"),
        ("//other.example/a", "//other.example/a"),
        ("http://shop.example/a?b", "/a?b"),
        ("http://shop.example", "/"),
        ("http://shop.example?b", "/?b"),
        ("*", "/"),
        ("/a\xe9", "/a%E9"),
    ],
)
def test_path_and_query_stay(redirect, target, path):
    """Method and body stay, too, by the status: a form is sent again unchanged."""
    assert redirect(target) == (308, f"https://shop.example{path}")


@pytest.mark.parametrize(
    ("host", "place"),
    [
        ("shop.example", "shop.example"),
        ("shop.example:80", "shop.example"),
        ("SHOP.example.", "shop.example"),
        ("www.shop.example", "www.shop.example"),
        ("other.example", "shop.example"),
        ("192.0.2.1", "shop.example"),
        ("[2001:db8::1]:80", "shop.example"),
        ("", "shop.example"),
    ],
)
def test_nobody_is_sent_to_another_site(redirect, host, place):
    """A host outside the site's names is sent to the first."""
    assert redirect(host=host, names=("shop.example", "www.shop.example")) == (308, f"https://{place}/")


def test_without_names_the_host_stays(redirect):
    """The certificate is the user's, and aserve does not know its names; without a host there is no target."""
    assert redirect(host="a.example:8080", port=8443) == (308, "https://a.example:8443/")
    assert redirect(host="[2001:db8::1]:80") == (308, "https://[2001:db8::1]/")
    assert redirect(host="") == (400, None)


def test_a_proxys_word_is_enough(redirect):
    """The proxy's client speaks TLS already: another redirect would never end."""
    assert redirect(scheme="https") is None


def test_authorities_are_answered(redirect):
    """certbot may have put its answer where --static serves it."""
    assert redirect("/.well-known/acme-challenge/abc") is None
    assert redirect("/.well-known/other") == (308, "https://shop.example/.well-known/other")


@pytest.mark.parametrize(
    ("settings", "redirects"),
    [
        ({}, False),
        ({"https": "shop.example"}, True),
        ({"https": "shop.example", "https_redirect": "off"}, False),
        ({"https_redirect": 443}, True),
        ({"https_redirect": "off"}, False),
    ],
)
def test_redirects_are_on_with_names_or_a_port(settings, redirects):
    """With names redirects are on; else where a port is given."""
    if "https" in settings:
        settings = {**settings, **NAMED}
    config = Config(**settings)
    assert config.redirects is redirects and HTTPSOnly.is_on(config) is redirects


@pytest.mark.parametrize(
    ("setting", "urls", "place"),
    [
        ("auto", ["http://a:80", "https://a:8443", "https://a:9443"], "https://shop.example:8443/"),
        ("auto", ["http://a:80", "https://a"], "https://shop.example/"),
        ("auto", ["http://a:80"], "https://shop.example/"),
        (8444, ["https://a:8443"], "https://shop.example:8444/"),
    ],
)
def test_the_port_is_the_first_of_tls(setting, urls, place, monkeypatch):
    """The port is the first TLS listener's, unless the settings name another: a container's is published as another."""
    monkeypatch.setattr(Notes, "has_certificate", True)
    extension = HTTPSOnly(Config(https="shop.example", **NAMED, https_redirect=setting))
    extension.start(types.SimpleNamespace(server=types.SimpleNamespace(urls=urls)))
    step = extension.before(listener("http"))
    assert f"Location: {place}\r\n".encode() in step.before(request_of("/", "shop.example"))


def test_not_before_there_is_a_certificate(tmp_path):
    """Browsers would warn of a placeholder, and remember the way there; until then the site stays."""
    extension = HTTPSOnly(Config(https="a.example,b.example", **NAMED, https_folder=str(tmp_path / "https")))
    folder = Folder(str(tmp_path / "https"))
    folder.make(None)
    Notes("https://ca.example").write(folder, "b.example")
    extension.start(types.SimpleNamespace(server=types.SimpleNamespace(urls=["https://a"])))
    step = extension.before(listener("http"))
    asked = [step.before(request_of("/", host)) is not None for host in ("a.example", "b.example", "other.example")]
    assert asked == [False, True, False]  # another host is sent to the first name
    Notes("https://ca.example").write(folder, "a.example")
    extension.on_second()
    assert step.before(request_of("/", "a.example")) is not None


@pytest.mark.parametrize("protocol", ["https", "uwsgi", "scgi"])
def test_listeners_that_answer_themselves(protocol):
    """TLS is there already; a front server has its own redirects."""
    assert HTTPSOnly(Config(https_redirect=443)).before(listener(protocol)) is None
    assert HTTPSOnly(Config(hsts="1")).before(listener("http")) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("300", "max-age=300"),
        (300, "max-age=300"),
        ("max-age=31536000; includesubdomains;preload", "max-age=31536000; includeSubDomains; preload"),
    ],
)
def test_hsts_is_sent_over_tls_alone(text, value):
    extension = HTTPSOnly(Config(hsts=text))
    assert extension.fields(True) == [("Strict-Transport-Security", value)] and not extension.fields(False)
    assert Config(hsts="").hsts is None and not HTTPSOnly(Config(https_redirect=443)).fields(True)


@pytest.mark.parametrize("text", ["a year", "-1", "300; foo", "300 preload", True, "300\r\nX: y"])
def test_what_is_no_hsts(text):
    """Nothing else gets into the field."""
    assert "is not a number of seconds" in error_of(Config, hsts=text)


@pytest.mark.parametrize(("value", "why"), [("on", "not a whole number"), (0, "too small"), (70000, "too large")])
def test_what_is_no_port(value, why):
    assert why in error_of(Config, https_redirect=value)
