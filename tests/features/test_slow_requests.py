"""The extension of slow requests: its part of them."""

import time
import types

from harness.extensions import new_context
from harness.fakes import FakeConnection

from aserve.core.errors import RequestRefused
from aserve.core.exchange import Exchange
from aserve.extension import Extensions
from aserve.features import Config
from aserve.features.slow_requests import Slow
from aserve.features.slow_requests.reports import Reports
from aserve.workers.inline import InlineExecutor

SERVER = types.SimpleNamespace(has=lambda exchange: True)


def ended(seconds):
    """Return a request that has ended after so long."""
    exchange = Exchange("REQUEST_METHOD\0GET\0REQUEST_URI\0/a", 2)
    exchange.connection = FakeConnection()
    exchange.arrived_at = exchange.began_at = time.monotonic() - seconds
    exchange.response = types.SimpleNamespace(code=200, sent_bytes=0, head_is_out=True, is_full=True)
    return exchange


def test_from_start_to_stop():
    """Slow ones are told with the process's number, as WebSockets, too; they are known afterwards."""
    config = Config(slow_request_seconds=3600.0)
    assert Slow.is_on(config) and not Slow.is_on(Config())
    extensions = Extensions([Slow(config)])
    extensions.start(new_context(SERVER, slot=3))
    ends = extensions.new_ends(InlineExecutor())
    assert extensions.wants_times and ends.parts[4] == 3600.0
    for seconds in (0.0, 4000.0):
        ends.write(ended(seconds))
    ends.write_upgraded(ended(5000.0))
    extensions.on_second()
    ends.write_refused(FakeConnection(), ended(0.0), RequestRefused(504, "late"))
    extensions.stop()
    assert [(each["worker"], each["status"]) for each in extensions.ask("slow")] == [(3, 200), (3, 101)]


def test_its_supervisor_knows():
    """A worker reports each when found, and its end also at the end of the worker; a reload may turn it on."""
    said, stops = [], []
    slow = Slow(Config(slow_request_seconds=3600.0))
    say = lambda message, fds: said.append(message["request"])  # noqa: E731
    slow.start(new_context(SERVER, slot=3, say=say, at_stop=stops.append))
    slow.requests.write(ended(4000.0))
    slow.on_second()
    slow.requests.write(ended(5000.0))
    stops.pop()()
    assert [found["number"] for found in said] == [1, 2]
    assert Slow.is_supervised(Config()) and isinstance(slow.supervise(None), Reports)
