"""The words of --check about certificates by ACME."""

from __future__ import annotations

import pytest
from harness import apps

from aserve.command import banner
from aserve.features import Config
from aserve.features.https.settings import LETS_ENCRYPT


@pytest.mark.parametrize(
    ("settings", "challenges"),
    [
        ({}, "TLS-ALPN-01 at port 443, or HTTP-01 at port 80"),
        ({"bind": "https://:8443,:8080"}, "HTTP-01 at port 80, or TLS-ALPN-01 at port 443"),
        ({"bind": "https://:8443"}, "TLS-ALPN-01 at port 443"),
        ({"shared": "redis://store"}, "HTTP-01 at port 80"),
    ],
)
def test_a_site_with_names(monkeypatch, settings, challenges):
    """--check tells names, authority, files, and how and at which ports the authority can check the names."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())  # the libraries are there
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
