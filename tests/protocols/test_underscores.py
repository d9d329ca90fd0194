"""Fields whose names have an underscore: the app does not see them, and the log says so."""

import logging

import pytest

from aserve._cparsers import lib
from aserve.protocols import EXCHANGE_FACTORIES, PROTOCOLS
from aserve.protocols.base import Limits
from aserve.protocols.underscores import ListedUnderscores, Underscores

HEAD = b"GET / HTTP/1.1\r\nHost: a_b\r\nX-A: c_d\r\n%bAccept: */*\r\n\r\n"
CLAIM = b"oidc_claim_email: ada@example.com\r\n"


@pytest.fixture
def limits(caplog):
    caplog.set_level(logging.INFO, "aserve")
    return Limits(underscores=Underscores("http://a:80"))


@pytest.mark.parametrize("parser", ["c", "httptools"])
@pytest.mark.parametrize("body", [b"", b"Content-Length: 1\r\n"], ids=["plain", "with a body"])
def test_said_once_with_name_and_remedy(limits, caplog, parser, body):
    """Only the first name is told; values, and names without an underscore, are no reason."""
    if parser == "httptools":
        pytest.importorskip("httptools")
    new = PROTOCOLS["http", parser](limits)
    assert len(new().receive(HEAD % b"")) == len(new().receive(HEAD % b"Proxy: a_b\r\n")) == 1 and caplog.text == ""
    for field in (CLAIM, CLAIM, b"X_Other: 1\r\n"):
        for exchange in new().receive(HEAD % (field + body) + b"x" * len(body)):
            assert "ada" not in exchange.vars
    assert caplog.text.count("\n") == 1 and "hyphens, or see --underscore-fields (said once)" in caplog.text
    assert "http://a:80: dropped the field oidc_claim_email, " in caplog.text.replace(
        "OIDC_CLAIM_EMAIL", "oidc_claim_email"
    )


def test_in_the_lane(limits, caplog):
    """Its heads are parsed elsewhere, and what was dropped is looked for in their octets."""
    make = EXCHANGE_FACTORIES["http"](limits)
    flags = lib.HTTP1_KEEP_ALIVE | lib.HTTP1_VERSION_1_1
    octets = memoryview(b"xy" + HEAD % CLAIM)
    make("", 0, flags, 0, octets, 2, len(octets) - 2)
    assert caplog.text == ""
    make("", 0, flags | lib.HTTP1_DROPPED, 0, octets, 2, len(octets) - 2)
    assert "dropped the field oidc_claim_email, " in caplog.text and "tell it from oidc-claim-email. " in caplog.text
    assert EXCHANGE_FACTORIES["http"](Limits())("", 0, flags | lib.HTTP1_DROPPED, 0, octets, 2, 9).keep_alive


def test_a_long_name(limits, caplog):
    """The line is none the longer for it; its end is as it was."""
    limits.underscores.look_at(HEAD % (b"_" * 5000 + b": 1\r\n"), None)
    assert len(caplog.messages[0]) < 500


def test_nothing_said_for_what_is_not_found(limits, caplog):
    """A head in which none is found is no reason for a line."""
    limits.underscores.look_at(HEAD % b"", None)
    assert caplog.text == ""


@pytest.fixture
def listed(caplog):
    caplog.set_level(logging.INFO, "aserve")
    return Limits(underscores=ListedUnderscores("http://a:80", ("oidc_claim_email", "a_b-c")))


LISTED = b"OIDC_claim_Email:  ada@example.com \t\r\nOidc_Claim_Email:\r\nA_B-C:\xe9:_\r\nX_Other: 1\r\nA_B_C: 2\r\nA-B-C: 3\r\n"


@pytest.mark.parametrize("parser", ["c", "httptools"])
@pytest.mark.parametrize("body", [b"", b"Content-Length: 1\r\n"], ids=["plain", "with a body"])
def test_those_that_are_listed(listed, caplog, parser, body):
    """They are kept aside by their names in an environ, without the space around them; others are told, once, and no later request has them."""
    if parser == "httptools":
        pytest.importorskip("httptools")
    protocol = PROTOCOLS["http", parser](listed)()
    (exchange,) = protocol.receive(HEAD % (LISTED + body) + b"x" * bool(body))
    assert exchange.underscored == {"HTTP_OIDC_CLAIM_EMAIL": "ada@example.com, ", "HTTP_A_B_C": "\xe9:_"}
    assert "ada" not in exchange.vars and exchange.vars.count("A_B_C") == 1
    (other,) = protocol.receive(HEAD % (b"X_Other: 1\r\n"))
    (last,) = protocol.receive(HEAD % b"")
    assert other.underscored is last.underscored is None
    assert len(caplog.messages) == 1 and "dropped the field x_other, " in caplog.text.lower()


def test_those_that_are_listed_in_the_lane(listed, caplog):
    """They are looked for in the octets of the head."""
    flags = lib.HTTP1_KEEP_ALIVE | lib.HTTP1_VERSION_1_1 | lib.HTTP1_DROPPED
    octets = memoryview(HEAD % CLAIM)
    exchange = EXCHANGE_FACTORIES["http"](listed)("", 0, flags, 0, octets, 0, len(octets))
    assert exchange.underscored == {"HTTP_OIDC_CLAIM_EMAIL": "ada@example.com"} and caplog.text == ""
