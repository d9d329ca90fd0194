"""Each failure has a line with its culprit and advice."""

import pytest

from aserve.features.https.faults import FAULTS, MAX_DETAIL, SAME, explain, may_help
from aserve.features.https.settings import HTTP_01, TLS_ALPN_01


def line(kind, detail="reason.", **more):
    return explain("shop.example.org", "ca.example", "/f", {"kind": kind, "detail": detail, **more})


@pytest.mark.parametrize("kind", [*FAULTS, *SAME, "somethingNew"])
def test_every_kind_has_two_sentences(kind):
    text = line(kind)
    assert "; " in text and "{" not in text and "\n" not in text
    assert kind in SAME or "reason" in text or kind == "badNonce"


@pytest.mark.parametrize(
    ("kind", "more", "texts"),
    [
        ("connection", {"challenge": HTTP_01}, ("could not connect to shop.example.org at port 80", "firewall")),
        ("connection", {"challenge": TLS_ALPN_01}, ("at port 443",)),
        (
            "unauthorized",
            {"challenge": HTTP_01},
            ("did not find the answer of this server for shop.example.org at port 80", "every A and AAAA", "firewall"),
        ),
        ("unauthorized", {}, ("refuses the account", "remove /f/account.pem")),
        ("dns", {"challenge": HTTP_01}, ("add a record A or AAAA for shop.example.org",)),
        ("rateLimited", {"subproblems": "for that name"}, ("too many requests: reason.; for that name;", "staging")),
        ("somethingNew", {}, ("ca.example refuses: reason;", "'somethingNew'")),
    ],
)
def test_what_to_do(kind, more, texts):
    """The advice is about this name, this port and this machine."""
    for text in texts:
        assert text in line(kind, **more)


@pytest.mark.parametrize(
    ("detail", "shown"),
    [
        (
            "HTTPSConnectionPool(host='ca'): Max retries (Caused by X('<y>: [Errno 111] Connection refused'))",
            "from here: Connection refused;",
        ),
        ("HTTPSConnectionPool(host='ca'): Read timed out. (read timeout=30)", "from here: timed out;"),
        ("something else", "from here: something else;"),
        (
            "(Caused by SSLError(1, '[SSL: X] certificate verify failed: unable to get local issuer certificate (_ssl.c:1006)'))",
            "from here: unable to get local issuer certificate;",
        ),
    ],
)
def test_the_reason_of_the_library(detail, shown):
    """The reason is shown without the library's wrapping."""
    assert shown in line("unreachable", detail)


@pytest.mark.parametrize(
    ("kind", "challenge", "helps"),
    [
        ("connection", HTTP_01, True),
        ("incorrectResponse", HTTP_01, True),
        ("caa", HTTP_01, False),
        ("unauthorized", "", False),
    ],
)
def test_another_challenge_is_tried_if_it_may_help(kind, challenge, helps):
    """Another challenge is tried where the way to this server may be the fault, and not where the name or the account is."""
    assert may_help({"kind": kind, "challenge": challenge}) == helps


def test_a_check_that_failed():
    """An unknown kind is still about this name and port."""
    assert "ca.example could not check shop.example.org at port 80: reason;" in line("new", challenge=HTTP_01)


def test_long_details_fit_into_a_line():
    assert f"{'x' * MAX_DETAIL}...;" in line("caa", "x" * 10_000)
    assert "a b" in line("caa", "a\n  b")
