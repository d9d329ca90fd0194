"""Fields with an underscore in their name: from whom they reach the app, and which never do."""

import logging

import pytest
from harness.fakes import FakeConnection

from aserve.core.exchange import Exchange
from aserve.features.underscore_fields import UnderscoreStep

HEAD = "REQUEST_METHOD\0GET\0REQUEST_URI\0/\0PATH_INFO\0/\0QUERY_STRING\0\0SERVER_PROTOCOL\0HTTP/1.1"


@pytest.fixture
def respond(caplog):
    """respond(vars, sent, peer) -> the app's vars behind the request line."""
    caplog.set_level(logging.INFO, "aserve")
    fields = UnderscoreStep(
        ("oidc_claim_sub", "a.b_c"), lambda connection: connection.remote_addr == "10.0.0.1", "http://a"
    )

    def respond(vars="", sent=None, peer="10.0.0.1"):
        exchange = Exchange(HEAD + vars)
        exchange.underscored = sent
        exchange.connection = FakeConnection({})
        exchange.connection.remote_addr = peer
        fields.before(exchange)
        assert exchange.vars.startswith(HEAD)
        return exchange.vars[len(HEAD) :]

    return respond


SENT = {"HTTP_OIDC_CLAIM_SUB": "ada"}


def test_a_believed_peer(respond):
    assert respond("\0HTTP_HOST\0a", SENT) == "\0HTTP_HOST\0a\0HTTP_OIDC_CLAIM_SUB\0ada"


def test_another_peers_fields_are_removed(respond, caplog):
    """Nothing of it reaches the app; the log says so, once."""
    assert [respond("\0HTTP_HOST\0a", SENT, peer) for peer in ("10.0.0.2", "")] == ["\0HTTP_HOST\0a"] * 2
    assert caplog.messages == [
        "http://a: OIDC_CLAIM_SUB, of --underscore-fields, came from 10.0.0.2, which is not in --trusted-proxies, and was removed (said once)"
    ]


@pytest.mark.parametrize("peer", ["10.0.0.1", "10.0.0.2"])
@pytest.mark.parametrize("sent", [None, SENT], ids=["alone", "beside the proxy's"])
def test_twins_with_hyphens(respond, peer, sent):
    """Nobody can pose as the proxy: not by one or several twins, at any place."""
    twin = "\0HTTP_OIDC_CLAIM_SUB\0root"
    believed = "\0HTTP_OIDC_CLAIM_SUB\0ada" if sent and peer == "10.0.0.1" else ""
    for vars in (f"\0HTTP_HOST\0a{twin}", f"{twin}\0HTTP_HOST\0a", f"{twin}\0HTTP_A.B_C\0x\0HTTP_HOST\0a{twin}"):
        assert respond(vars, sent, peer) == f"\0HTTP_HOST\0a{believed}"


def test_a_value_that_looks_like_a_name(respond):
    """Such a value is one, and stays."""
    vars = "\0HTTP_X\0HTTP_OIDC_CLAIM_SUB\0HTTP_HOST\0a\0HTTP_AXB_C\0" + "1"
    assert respond(vars) == vars
