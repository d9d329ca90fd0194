"""--https with an authority that is away, forgets, or refuses: the log advises, and the certificate comes in the end."""

import datetime
import re

import pytest
from harness.acme_front import Refusal
from harness.https_site import HOUR, NEEDS, RENEWAL, SECONDS

pytestmark = [pytest.mark.long_on_pypy, *NEEDS]


def later(*row):
    """Return a row that `make test` leaves out: tests of the module know the words."""
    return pytest.param(*row, marks=pytest.mark.long)


def next_try(site, reason):
    """Wait for a failure of this reason; return in how many seconds another order is promised."""
    found = site.wait_for_log(
        rf"ERROR +https: no certificate for shop.example: .*{reason}.*; next try at ([\d :-]+) UTC", SECONDS
    )
    at = datetime.datetime.strptime(found[1] + " +0000", "%Y-%m-%d %H:%M %z")
    return (at - datetime.datetime.now(datetime.timezone.utc)).total_seconds()


def test_an_authority_that_is_away(pebble, serve_https):
    """An absent authority is asked again later. An authority that forgot the account gets a new one."""
    pebble.stop()
    site = serve_https("shop.example")
    seconds = next_try(site, "cannot be reached from here")
    assert seconds < 0.25 * HOUR and site.certificate("shop.example") is None
    pebble.start()
    site.set_clock(0.25 * HOUR)
    site.wait_for_certificate("shop.example")
    pebble.stop()
    pebble.start()
    site.set_clock(RENEWAL)
    site.wait_for_certificate("shop.example")  # by the new root
    assert site.stop() == 0


def test_a_refused_nonce_is_a_new_try(acme_front, serve_https):
    """A request with a refused nonce is sent again, and so is a request refused twice."""
    paths = ("/sign-me-up", "/order-plz", "/order-plz", "/chalZ/", "/authZ/", "/finalize-order/", "/certZ/", "/certZ/")
    acme_front.refusals += [Refusal(path, 400, "badNonce", "JWS has an invalid anti-replay nonce") for path in paths]
    site = serve_https("shop.example", directory=acme_front.url)
    site.wait_for_certificate("shop.example")
    assert acme_front.refusals == [] and site.count_orders("shop.example") == 1 and "ERROR" not in site.log
    assert site.stop() == 0


def test_a_rate_limit(acme_front, serve_https):
    """The authority names the next time, and is not asked before."""
    limit = Refusal(
        "/order-plz", 429, "rateLimited", "too many certificates (5) already", {"Retry-After": str(5 * HOUR)}
    )
    acme_front.refusals.append(limit)
    site = serve_https("shop.example", directory=acme_front.url)
    assert 5 * HOUR - 120 < next_try(site, r"too many certificates \(5\) already") < 6 * HOUR
    site.set_clock(4 * HOUR)
    site.set_clock(6 * HOUR)
    site.wait_for_certificate("shop.example")
    assert acme_front.asked.count("POST /order-plz") == 2
    assert site.stop() == 0


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (Refusal("/order-plz", 403, "unauthorized", "account has status deactivated"), "remove .*/account.pem"),
        later(Refusal("/finalize-order/", 403, "caa", "CAA record forbids issuance"), "add one that allows it"),
        later(Refusal("/sign-me-up", 403, "externalAccountRequired", "no binding"), "let certbot get the certificate"),
        later(Refusal("/order-plz", 403, "userActionRequired", "terms have changed"), "reading its new terms"),
        later(Refusal("/finalize-order/", 500, "serverInternal", "out of order"), "nothing is to be done here"),
    ],
    ids=lambda value: value.kind if isinstance(value, Refusal) else "",
)
def test_each_refusal_has_its_advice(acme_front, serve_https, refusal, words):
    acme_front.refusals.append(refusal)
    site = serve_https("shop.example", directory=acme_front.url)
    assert next_try(site, f"{re.escape(refusal.detail)}.*{words}") > 0
    assert site.count("ERROR") == 1
