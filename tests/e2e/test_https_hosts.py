"""--https on two hosts with a shared store: one orders for both, whichever host the authority asks."""

import contextlib

import pytest
from harness.https_site import NEEDS, RENEWAL
from harness.pebble import own_address

pytestmark = [pytest.mark.long_on_pypy, *NEEDS]


@pytest.fixture
def second_host():
    """Return an address for the second host."""
    host, guard = own_address()
    with contextlib.closing(guard):
        yield host


def test_two_hosts_share_a_certificate(pebble, second_host, serve_https, store_server, tmp_path):
    """The ordering host need not be the host of the name; both serve the certificate, and the second goes on when the first is gone."""

    def serve(name, **more):
        (tmp_path / name).mkdir()
        return serve_https("shop.example", folder=tmp_path / name, flags=(f"--shared={store_server.url}",), **more)

    pebble.lead("shop.example", second_host)
    pebble.pause()
    first = serve("first")
    first.wait_for_log("asking .* for a certificate for shop.example")
    second = serve("second", host=second_host)
    pebble.resume()
    given = first.wait_for_certificate("shop.example")
    assert second.wait_for_certificate("shop.example") == given
    assert (first.count_orders("shop.example"), second.count_orders("shop.example")) == (1, 0)
    first.end()
    second.set_clock(RENEWAL)
    second.wait_for_certificate("shop.example", other_than=given)
    assert second.stop() == 0
