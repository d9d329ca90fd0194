"""Which connections can use the lane."""

import sys
from types import SimpleNamespace

import pytest

from aserve._cparsers import lib
from aserve.connections.lane import availability
from aserve.features import Config
from aserve.settings import parse_bind

HTTPTOOLS = "httptools" if sys.implementation.name == "cpython" else "c"  # PyPy has none
pytestmark = pytest.mark.skipif(not lib.lane_available(), reason="a lane needs Linux")


@pytest.mark.parametrize(
    ("bind", "settings", "reason"),
    [
        (":1", {}, ""),
        ("uwsgi://:1", {"http_parser": HTTPTOOLS}, ""),
        (":1", {"lane": "off"}, "--lane off"),
        (":1", {"http_parser": HTTPTOOLS}, f"--http-parser {HTTPTOOLS}" if HTTPTOOLS != "c" else ""),
        (":1", {"body": "stream"}, "--body stream"),
        ("proxy+http://:1", {"trusted_proxies": "127.0.0.1"}, "the PROXY protocol"),
        ("https://:1", {"certificate": "a"}, ""),
        (
            "https://:1",
            {"certificate": "a", "client_certificate": "required", "client_ca": "b"},
            "--client-certificate",
        ),
    ],
)
def test_the_reason_that_keeps_a_bind_from_the_lane(bind, settings, reason):
    """The first reason is named by its setting."""
    found = availability.why_unavailable(parse_bind(bind), Config(bind=bind, **settings), None)
    assert found == reason or found.startswith("TLS: ")


def test_a_library_that_is_not_found_keeps_tls_from_the_lane(monkeypatch):
    """The library's reason is part of the text, and other protocols stay."""
    monkeypatch.setattr(availability, "why_no_library", lambda: "no libssl")
    config = Config(bind="https://:1", certificate="a")
    assert availability.why_unavailable(parse_bind("https://:1"), config, None) == "TLS: no libssl"
    assert not availability.why_unavailable(parse_bind(":1"), config, None)


def test_a_listener_of_a_bind_that_can_is_available():
    """A listener is asked by its bind, its service's settings and trusted peers."""
    service = SimpleNamespace(config=Config(), peers=None)
    assert availability.is_available(SimpleNamespace(bind=parse_bind(":1")), service)
    service.config = Config(lane="off")
    assert not availability.is_available(SimpleNamespace(bind=parse_bind(":1")), service)
