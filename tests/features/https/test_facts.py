"""The next act for a name: each row is a promise."""

import pytest

from aserve.features.https.facts import Do, Facts, decide, fault_of
from aserve.features.https.issued import GivenCertificate, Issued
from aserve.features.https.notes import MAX_RETRY_SECONDS, Notes

DIRECTORY, OTHER = "https://ca.example/dir", "https://staging.example/dir"
NOW = 1000.0
# Of certificates, by the end of their validity; each is to be renewed 100 s before.
NEW, LATER, OLD, OVER = (Issued(until, until - 100.0) for until in (2000.0, 3000.0, 1050.0, 900.0))
EARLY = Issued(9000.0, 8000.0, NOW + 600.0)
SIGNED, FAILED = Notes(DIRECTORY), Notes(DIRECTORY, 1, 900.0, 1500.0, "refused", False, DIRECTORY)
GIVEN, FOREIGN = GivenCertificate(DIRECTORY, b""), GivenCertificate(OTHER, b"")


def facts(notes, issued, **more):
    return Facts("shop.example.org", NOW, DIRECTORY, notes, issued, **more)


def shared(notes, issued, given, theirs, **more):
    return facts(notes, issued, is_shared=True, given=given, theirs=theirs, **more)


@pytest.mark.parametrize(
    ("found", "do"),
    [
        # A certificate is ordered when there is none.
        (facts(Notes(), NEW), Do.ORDER),  # a placeholder
        (facts(SIGNED, None), Do.ORDER),  # a damaged one, or none
        # A good certificate is left until its time, renewed then, and also when expired.
        (facts(SIGNED, NEW), Do.NOTHING),
        (facts(SIGNED, Issued(2000.0, NOW)), Do.ORDER),
        (facts(SIGNED, OLD), Do.ORDER),
        (facts(SIGNED, OVER), Do.ORDER),
        (facts(SIGNED, EARLY), Do.ORDER),  # no client takes it yet
        # Another authority's does not count, as from a trial with the staging directory.
        (facts(Notes(OTHER), NEW), Do.ORDER),
        # After a failure no authority is asked until the delay is over ...
        (facts(FAILED, None), Do.NOTHING),
        (facts(FAILED, OLD), Do.NOTHING),
        (facts(FAILED._replace(directory=""), NEW), Do.NOTHING),
        (facts(FAILED._replace(asked=""), OLD), Do.NOTHING),  # noted by an older release
        (facts(FAILED._replace(again=NOW), OLD), Do.ORDER),
        # ... but for an authority without a failure, and for a delay of a clock that was wrong.
        (facts(FAILED._replace(asked=OTHER), OLD), Do.ORDER),
        (facts(FAILED._replace(again=NOW + MAX_RETRY_SECONDS + 1), OLD), Do.ORDER),
        # A failure takes nothing from a good certificate.
        (facts(FAILED, NEW), Do.NOTHING),
    ],
)
def test_a_host_alone_orders_due_certificates(found, do):
    assert decide(found) is do


@pytest.mark.parametrize(
    ("found", "do"),
    [
        # Another host's certificate is taken in place of an order: for a placeholder, a damaged, a due, or another authority's certificate.
        (shared(Notes(), NEW, GIVEN, NEW), Do.TAKE),
        (shared(SIGNED, None, GIVEN, NEW), Do.TAKE),
        (shared(SIGNED, OLD, GIVEN, NEW), Do.TAKE),
        (shared(Notes(OTHER), LATER, GIVEN, NEW), Do.TAKE),
        # Also before its time here, and while an order must wait.
        (shared(SIGNED, NEW, GIVEN, LATER), Do.TAKE),
        (shared(FAILED, OLD, GIVEN, NEW), Do.TAKE),
        (shared(SIGNED, OLD, GIVEN, NEW, is_held=True), Do.TAKE),
        # The same certificate is neither taken nor given again.
        (shared(SIGNED, NEW, GIVEN, NEW), Do.NOTHING),
        # All get ours where none was given, as the store was away or has lost its data; a damaged or an older one is replaced.
        (shared(SIGNED, NEW, None, None), Do.GIVE),
        (shared(SIGNED, NEW, GIVEN, None), Do.GIVE),
        (shared(SIGNED, LATER, GIVEN, NEW), Do.GIVE),
        (shared(SIGNED, NEW, None, None, is_held=True), Do.GIVE),
        # A due certificate is ordered first: a store that loses its data must not put the order off.
        (shared(SIGNED, OLD, None, None), Do.ORDER),
        (shared(SIGNED, OLD, None, None, is_held=True), Do.GIVE),
        # An expired certificate helps no client: a new host waits until there is a good one.
        (shared(Notes(), NEW, GIVEN, OVER), Do.ORDER),
        (shared(Notes(), NEW, GIVEN, OVER, is_held=True), Do.NOTHING),
        (shared(Notes(), None, GIVEN, Issued(NOW, 900.0)), Do.ORDER),
        (shared(SIGNED, OVER, None, None), Do.ORDER),
        (shared(SIGNED, Issued(800.0, 700.0), GIVEN, OVER), Do.ORDER),
        (shared(SIGNED, OVER, None, None, is_held=True), Do.NOTHING),
        # A placeholder is not given, nor another authority's certificate.
        (shared(Notes(), NEW, None, None), Do.ORDER),
        (shared(Notes(OTHER), NEW, None, None), Do.ORDER),
        (shared(Notes(), NEW, GIVEN, EARLY), Do.ORDER),  # not valid yet
        (shared(Notes(), NEW, GIVEN, None), Do.ORDER),  # a damaged one is not taken
        # A host with another authority is left alone: its certificate is neither taken nor replaced.
        (shared(Notes(), NEW, FOREIGN, LATER), Do.ORDER),
        (shared(SIGNED, NEW, FOREIGN, LATER), Do.NOTHING),
        (shared(SIGNED, LATER, FOREIGN, NEW), Do.NOTHING),
        # One host orders, and an order that failed for one is not tried by the next.
        (shared(SIGNED, OLD, GIVEN, OLD), Do.ORDER),
        (shared(SIGNED, OLD, GIVEN, OLD, is_held=True), Do.NOTHING),
        (shared(Notes(), NEW, None, None, is_held=True), Do.NOTHING),
        (shared(FAILED, OLD, GIVEN, OLD), Do.NOTHING),
    ],
)
def test_several_hosts_order_once(found, do):
    """One host orders a certificate for all; each serves the one with the longest validity."""
    assert decide(found) is do


@pytest.mark.parametrize(
    ("found", "detail"),
    [
        (facts(SIGNED, NEW), None),
        (facts(SIGNED, OLD), "it is valid until 1970-01-01 00:17 UTC"),
        (facts(SIGNED, None), "its dates cannot be read"),
    ],
)
def test_a_certificate_that_is_due_at_once(found, detail):
    """An order for a certificate already due counts as failed: so the next waits for its delay."""
    assert fault_of(found).get("detail") == detail
