"""A service only holds together the shared parts of its connections."""

import pytest
from harness.fakes import FakeAccessLog, FakeConnection, Harness

from aserve.core.exchange import ANSWERED, CUT, TIMED_OUT, Exchange


def test_what_connections_share():
    """Connections find the given parts of their service; it does not drain yet."""
    harness = Harness(lambda environ, start_response: [])
    service = harness.service
    assert service.config is harness.config and service.loop is harness.loop
    assert service.executor is harness.executor and service.ends is None
    assert service.connections == set() and service.is_draining is False
    assert service.new_protocol() is not service.new_protocol()
    assert service.base_environ["SERVER_NAME"] == "a" and service.common_fields and service.gateway


def test_clients_of_tls_share_an_environ_unless_they_have_a_certificate():
    """Entries of two clients with the same session parameters are one dict; a client's own certificate is nobody else's."""
    service = Harness(lambda environ, start_response: []).service
    client = {"SSL_PROTOCOL": "TLSv1.3", "SSL_CLIENT_VERIFY": "NONE"}
    first = service.base_of(dict(client))
    assert first is service.base_of(dict(client)) and first["SSL_PROTOCOL"] == "TLSv1.3"
    known = {**client, "SSL_CLIENT_VERIFY": "SUCCESS"}
    assert service.base_of(known) == {**service.base_environ, **known} and service.base_of(
        known
    ) is not service.base_of(known)


@pytest.mark.parametrize(
    ("is_draining", "waited", "limit", "text"),
    [
        (False, 0.0, 3, ""),
        (False, 3.0, 3, ""),
        (False, 3.14, 3, "requests wait for 3.1 s, more than --healthcheck-max-wait (3 s)"),
        (False, 10_000.0, 0, ""),
        (True, 0.0, 3, "draining"),
        (True, 10_000.0, 3, "draining"),
    ],
)
def test_a_warning_tells_drains_and_long_waits(is_draining, waited, limit, text):
    """A health check learns of a drain, and of requests that wait too long for a worker."""
    harness = Harness(lambda environ, start_response: [], healthcheck_max_wait_seconds=limit)
    harness.service.is_draining = is_draining
    harness.executor.wait_seconds = waited
    assert harness.service.warning() == text
    harness.service.is_replaced = True
    assert harness.service.warning() != "draining"  # the place is served, if not by this server


def test_who_is_told_to_be_unready():
    """The program's words go before the measured ones, and a drain before both."""
    harness = Harness(lambda environ, start_response: [])
    harness.service.why_unready = "the database is gone"
    harness.executor.wait_seconds = 100.0
    assert harness.service.warning() == "the database is gone"
    harness.service.is_draining = True
    assert harness.service.warning() == "draining"


@pytest.mark.parametrize("is_logged", [True, False])
def test_what_has_not_ended_at_the_end(is_logged):
    """Such a request is logged as cut, if nothing else is known; a health check is not."""
    service = Harness(lambda environ, start_response: []).service
    log = service.ends = FakeAccessLog() if is_logged else None
    plain, late, probe = (Exchange("", 0) for _ in range(3))
    late.end, probe.is_probe = TIMED_OUT, True
    for exchange in (plain, late, probe):
        exchange.connection = FakeConnection()
        service.lost.add(exchange)
    service.log_cut()
    assert (plain.end, late.end) == (CUT, TIMED_OUT) and not service.lost
    assert log is None or log.codes == [0, 0]
    assert Exchange.end == ANSWERED


def test_who_ends_a_lost_one_first():
    """The worker and its replacer may both say so: the log has one line, and none for an exchange that is not lost."""
    service = Harness(lambda environ, start_response: []).service
    log = service.ends = FakeAccessLog()
    lost, other = Exchange("", 0), Exchange("", 0)
    lost.connection = other.connection = FakeConnection()
    service.lost.add(lost)
    for exchange in (lost, lost, other):
        service.end_lost(exchange)
    assert log.codes == [0]
