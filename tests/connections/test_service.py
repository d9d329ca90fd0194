"""A service only holds together what its connections share."""

from __future__ import annotations

import pytest
from harness.fakes import Bench

from aserve.connections import service as service_module


def test_what_connections_share():
    """What a service was given is what its connections find; it does not drain yet."""
    bench = Bench(lambda environ, start_response: [])
    service = bench.service
    assert service.config is bench.config and service.loop is bench.loop
    assert service.executor is bench.executor and service.access_log is None
    assert service.connections == set() and service.is_draining is False
    assert service.new_protocol() is not service.new_protocol()
    assert service.base_environ["SERVER_NAME"] == "a" and service.common_fields and service.gateway


@pytest.mark.parametrize(
    ("is_draining", "waiting", "text"),
    [
        (False, 0, ""),
        (False, service_module.OVERLOADED_COUNT, ""),
        (False, service_module.OVERLOADED_COUNT + 1, "overloaded: "),
        (True, 0, "draining"),
        (True, 10_000, "draining"),
    ],
)
def test_warning(is_draining, waiting, text):
    """A health check learns of a drain, and of requests that wait for a worker."""
    bench = Bench(lambda environ, start_response: [])
    bench.service.is_draining = is_draining
    for _ in range(waiting):
        bench.executor.submit(print, None)
    assert bench.service.warning()[: len(text)] == text
    assert bool(bench.service.warning()) is bool(text)
