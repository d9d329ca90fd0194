"""The accepted names, the implications of --https, and its files."""

import importlib.util
import os

import pytest
from harness import apps

from aserve.command import banner
from aserve.features import Config
from aserve.features.https import settings
from aserve.features.https.settings import LETS_ENCRYPT, folder_of, serves_tls_alpn
from aserve.settings import ConfigError, parse_bind

NAME = "shop.example.org"


@pytest.fixture(autouse=True)
def _library(monkeypatch):
    """The library is there, wherever the tests run."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())


def config(**changes):
    """Return settings that serve one name."""
    return Config(
        **{"https": NAME, "bind": ["https://:443", ":80"], "acme_terms": "accept", "https_folder": "/f", **changes}
    )


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Shop.Example.org.", (NAME,)),
        ("a.example, b.example,a.example", ("a.example", "b.example")),
        ("münchen.example", ("xn--mnchen-3ya.example",)),
        (["a.example", "b.example"], ("a.example", "b.example")),
    ],
)
def test_names_follow_dns(text, names):
    assert config(https=text).https == names


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("https://shop.example.org/", "write the name alone, such as"),
        ("*.example.org", "takes a proof by DNS .* let certbot"),
        ("192.0.2.1", "is an IP address; give the name"),
        ("[2001:db8::1]", "is an IP address"),
        ("shop.example.org:8443", "'shop.example.org' here, and the port in --bind https://:8443"),
        (":443", "':443' is an address to listen at; write --bind https://:443, and here the name"),
        ("shop_1.example.org", "is not the name of a host"),
        ("a..example.org", "is not the name of a host"),
        ("-a.example.org", "is not the name of a host"),
        (f"{'a.' * 127}org", "is not the name of a host"),
        (",".join(f"a{number}.example" for number in range(101)), "101 names are more than 100"),
        (7, "neither text nor a list"),
    ],
)
def test_refused_names_are_told_with_a_remedy(text, why):
    """The error tells a right form, or another way."""
    with pytest.raises(ConfigError, match=why):
        config(https=text)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"acme_terms": "no"},
            "read the terms of Let's Encrypt, https://letsencrypt.org/repository/, and accept them: --acme-terms accept",
        ),
        (
            {"acme_terms": "no", "acme_directory": "https://ca.example/dir"},
            "read the terms of the authority, and accept",
        ),
        ({"bind": ":80"}, "needs a bind that speaks TLS, and :80 does not: write https://"),
        ({"https": "intranet"}, "Let's Encrypt knows no name without a dot"),
        ({"https_folder": "/a:b"}, "has a colon"),
        ({"acme_directory": "http://ca.example/dir"}, "does not begin with https://"),
        ({"acme_email": "me"}, "'me' is not an address of mail"),
    ],
)
def test_missing_settings_are_refused(changes, why):
    """A missing setting is an error before anything is asked or bound."""
    with pytest.raises(ConfigError, match=why):
        config(**changes)


def test_the_library_is_needed(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'aserve-wsgi\[acme\]'"):
        config()


def test_a_private_authority():
    """Such an authority may know names without a dot, and may want mail."""
    found = config(
        https="intranet", acme_directory="https://ca.example/dir", acme_email="me@example.org", acme_ca="/ca.pem"
    )
    assert (found.https, found.acme_email) == (("intranet",), "me@example.org")
    assert config(acme_email="").acme_email is None


def test_ports_are_a_sites_by_default():
    given = {"https": (NAME,), "acme_terms": "accept"}
    assert Config.of_given(given, False).bind == ("https://:443", ":80")
    assert Config.of_given({**given, "bind": ("https://:8443",)}, False).bind == ("https://:8443",)
    assert Config.of_given({}, False).bind == Config().bind


def test_certificates_are_chosen_by_name():
    """The first name's certificate is for all clients without one of the names; the rest are by name. A file has its key in it."""
    found = config(https="a.example,b.example")
    tls = found.tls_settings(parse_bind(found.bind[0]))
    assert (tls.certificate, tls.key) == ("/f/certificates/a.example.pem", None)
    assert tls.sni == ("b.example=/f/certificates/b.example.pem",)


def test_beside_a_certificate():
    """A given certificate is for all other names; a bind may have its own."""
    found = config(certificate="/own.pem", sni="c.example=/c.pem")
    tls = found.tls_settings(parse_bind(found.bind[0]))
    assert (tls.certificate, tls.sni) == ("/own.pem", ("c.example=/c.pem", f"{NAME}=/f/certificates/{NAME}.pem"))
    assert found.tls_settings(parse_bind("https://:1?certificate=/other.pem")).certificate == "/other.pem"


@pytest.mark.parametrize(
    ("uid", "user", "state", "path"),
    [
        (0, None, None, "/var/lib/aserve/https"),
        (0, "www-data", None, "/var/lib/aserve/https"),
        (33, "www-data", None, "/var/lib/aserve/https"),  # root was given up
        (1000, None, None, "/home/me/.local/share/aserve/https"),
        (1000, None, "/var/lib/shop", "/var/lib/shop/https"),
    ],
)
def test_the_folder_stays_when_root_is_given_up(uid, user, state, path, monkeypatch):
    """The folder is the same before and after root is given up; systemd may name it."""
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(settings, "state_folder", lambda: state)
    monkeypatch.setenv("HOME", "/home/me")
    assert folder_of(config(https_folder=None, user=user)) == path


def test_a_programs_folder(tmp_path, monkeypatch):
    """The folder may be relative, and stays the same when the program changes its working directory."""
    monkeypatch.chdir(tmp_path)
    assert folder_of(config(https_folder="keys")) == str(tmp_path / "keys")


@pytest.mark.parametrize(
    ("bind", "serves"),
    [
        ("https://:443", True),
        ("https://:8443", False),
        ("https://systemd:shop.socket", True),
        (["https://:8443", ":443"], False),
    ],
)
def test_whether_the_authority_comes(bind, serves):
    """The authority connects to port 443 of TLS, perhaps a socket of another process."""
    assert serves_tls_alpn(config(bind=bind)) == serves


@pytest.mark.parametrize(("fault", "count"), [("DNS; mend it", 1), ("", 0)])
def test_warnings_of_certificates(fault, count):
    """A certificate that could not be had is one, with the next try; a certificate that could be had is none."""
    one = {"name": "a.example", "until": None, "fault": fault, "again": "2027-01-28 03:00 UTC"}
    found = config().advise({"certificates": [one]})
    assert len(found) == count and all("a.example: DNS; mend it" in text for text, _ in found)


@pytest.mark.parametrize(
    ("settings", "challenges"),
    [
        ({}, "TLS-ALPN-01 at port 443, or HTTP-01 at port 80"),
        ({"bind": "https://:8443,:8080"}, "HTTP-01 at port 80, or TLS-ALPN-01 at port 443"),
        ({"bind": "https://:8443"}, "TLS-ALPN-01 at port 443"),
        ({"shared": "redis://store"}, "HTTP-01 at port 80"),
    ],
)
def test_a_site_with_names(settings, challenges):
    """--check tells names, authority, files, and how and at which ports the authority can check the names."""
    site = {"https": "a.example,b.example", "acme_terms": "accept", "https_folder": "/kept", "bind": "https://:443,:80"}
    said = banner.describe(Config(**{**site, **settings}), apps.hello, "a:hello").splitlines()
    at = said.index("https:   a.example, b.example")
    assert said[at - 1].startswith("bind:    ")
    assert said[at + 1 : at + 4] == [
        f"acme-directory: {LETS_ENCRYPT}", "https-folder: /kept", f"challenges: {challenges}",
    ]  # fmt: skip


def test_a_site_without():
    said = banner.describe(Config(), apps.hello, "a:hello")
    assert "https" not in said and "challenges" not in said
