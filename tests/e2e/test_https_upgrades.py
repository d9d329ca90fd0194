"""New code and new settings while a certificate is ordered: no request is lost, and the certificate comes."""

import signal

import pytest
from harness.https_site import NEEDS, RENEWAL, SECONDS, UMASK, load_over_tls, private, rights_below
from harness.waiting import wait_until

pytestmark = [*NEEDS, pytest.mark.long_on_pypy]
NAME = "shop.example"
DONE = {signal.SIGHUP: "SIGHUP: done", signal.SIGUSR2: "SIGUSR2: done"}


@pytest.mark.parametrize(
    ("number", "flags"),
    [
        pytest.param(signal.SIGHUP, (), id="reload", marks=pytest.mark.long),
        pytest.param(signal.SIGHUP, ("--preload",), id="reload-preload", marks=pytest.mark.long),
        pytest.param(signal.SIGUSR2, (), id="upgrade", marks=pytest.mark.long),
        pytest.param(signal.SIGUSR2, ("--preload",), id="upgrade-preload"),
    ],
)
def test_new_workers_while_ordering(pebble, serve_https, number, flags):
    """Workers are replaced while the authority makes an order wait: a new worker begins the order anew, and gets the certificate.

    No client notices; other users can never read a key; nothing of the interrupted order is left, nor a turn.
    """
    site = serve_https(NAME, flags=("--workers=2", *flags), launcher=UMASK)
    first = site.wait_for_certificate(NAME)
    before = site.wait_for_workers(2 + len(flags))  # with --preload one more: the mold
    seen = set()
    with load_over_tls(pebble.host) as load:
        pebble.pause()
        site.set_clock(RENEWAL)
        wait_until(lambda: site.count_orders(NAME) == 2, SECONDS, lambda: site.log)
        site.signal(number)
        wait_until(lambda: seen.update(rights_below(site.files)) or site.count(DONE[number]), SECONDS, lambda: site.log)
        assert not set(before) & set(site.wait_for_workers(2 + len(flags)))
        assert site.certificate(NAME) == first
        pebble.resume()
        wait_until(
            lambda: seen.update(rights_below(site.files)) or site.certificate(NAME) not in (None, first),
            SECONDS,
            lambda: site.log,
        )
        site.set_clock(0)
        load.go_on(100, SECONDS)
    assert load.first_words == {b"one"} and site.count_orders(NAME) > 2
    wait_until(site.is_turn_free, SECONDS, lambda: site.log)  # while the clock was wrong, each certificate was due
    assert list((site.files / "challenges").iterdir()) == [] and list(site.files.rglob("*.new")) == []
    assert seen | rights_below(site.files) == private()
    assert site.stop() == 0 and site.is_turn_free()
